"""Weights in f16: which stay so, and that kernels widen them exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_harness import run_kernel
from matmul_programs import dense, in_halves
from small_programs import softmax

from nnjit_studio.compiler.importer.program.half_weights import imported, keep_halves
from nnjit_studio.compiler.ir.tensor_ir import Axis, Buffer, Load, Program, Stage, Store, Var
from nnjit_studio.compiler.onnx_file.check import content_key
from nnjit_studio.compiler.oracle.fixture import make_fixture
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.recognize.subject import packed_weight
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.compiler.tvm_adapter import ProgramCall, Value
from nnjit_studio.model import Plan, PlanBuffer
from nnjit_studio.records.candidate import Candidate

EVERY = np.arange(65536, dtype=np.uint16).view(np.float16)
FINITE = EVERY[np.isfinite(EVERY)]


@pytest.mark.parametrize("count", [len(FINITE), len(FINITE) - 1, 7, 6, 5])
@pytest.mark.parametrize("pack", [True, False])
def test_every_finite_half_is_widened_exactly(count: int, pack: bool) -> None:
    program = in_halves(dense(2, 2, count, "none"))
    weights = np.stack([FINITE[-count:], np.zeros(count, np.float16)])
    kernel = compile_program(program, Candidate(4, 2, 1, 4, 2, 2, "nm", pack), "simd128")
    given = {"a": np.array([[1, 0], [-1, 0]], np.float32), "w": weights}
    got = run_kernel(program, kernel.data, kernel.parallel_extent, given, kernel.panels)["out"]
    np.testing.assert_array_equal(got, given["a"] @ weights.astype(np.float32))


def test_a_single_half_is_widened_exactly() -> None:
    """As the splat that an A of weights is read by."""
    n = 8
    program = dense(len(FINITE), 1, n, "none")
    a, w, out = program.buffers
    halves = replace(a, dtype="f16", constant=True)
    program = replace(program, buffers=(halves, replace(w, constant=False), out))
    kernel = compile_program(program, Candidate(8, 4, 1, 8, 4, 1, "nm", False), "relaxed-simd")
    given = {"a": FINITE.reshape(-1, 1), "w": np.ones((1, n), np.float32)}
    got = run_kernel(program, kernel.data, kernel.parallel_extent, given)["out"]
    np.testing.assert_array_equal(got, np.repeat(FINITE.astype(np.float32)[:, None], n, 1))


def test_a_lookup_widens_four_at_once() -> None:
    n = len(FINITE)
    store = Store("y", Var("i"), Load("x", Var("i")))
    buffers = (Buffer("x", "f16", (n,), "input", True), Buffer("y", "f32", (n,), "output"))
    program = Program("copy", buffers, (Stage("copy", (Axis("i", n),), (store,)),))
    kernel = compile_program(program, None, "simd128")
    got = run_kernel(program, kernel.data, kernel.parallel_extent, {"x": FINITE})["y"]
    np.testing.assert_array_equal(got, FINITE.astype(np.float32))


@pytest.mark.parametrize("tier", ["simd128", "relaxed-simd"])
@pytest.mark.parametrize(
    "spec", ["1x37x45", "1x64x129", "1x3x20", "7x37x45", "1x37x45_dot", "1x8x7_dot", "5x37x21_dot"]
)
def test_products_stay_within_their_bounds(spec: str, tier: str) -> None:
    kind = "matmul_dot" if spec.endswith("_dot") else "matmul"
    program = program_for(f"{kind}:{spec.removesuffix('_dot')}:f32")
    second = program.buffers[1].name
    buffers = tuple(
        replace(b, constant=True, dtype="f16") if b.name == second else b for b in program.buffers
    )
    program = replace(program, buffers=buffers)
    fixture = make_fixture(spec, program)
    given = {
        b.name: np.frombuffer(a.data, np.float16 if b.dtype == "f16" else np.float32)
        for b, a in zip(buffers, fixture.args, strict=True)
        if a.data is not None
    }
    given = {b.name: given[b.name].reshape(b.shape) for b in buffers if b.name in given}
    kernel = compile_program(program, None, tier)
    extent = kernel.parallel_extent
    after = run_kernel(program, kernel.data, extent, given, kernel.panels, min(3, extent))
    got = after[buffers[2].name].reshape(-1).astype(np.float64)
    assert np.all(np.abs(got - fixture.expected[0]) <= fixture.bound[0])


def kept(program: Program, weight: np.ndarray, rounded: bool = False) -> ProgramCall:
    inputs = tuple(
        Value(b.name, b.shape, b.dtype, weight if b.constant and len(b.shape) == 2 else None)
        for b in program.buffers
        if b.role == "input"
    )
    (call,) = keep_halves([ProgramCall(program, inputs, ())], rounded, {})
    return call


def drawn(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).normal(0, 0.02, shape).astype(np.float16).astype(np.float32)


def test_a_products_weight_stays_in_halves_and_is_what_it_was() -> None:
    weight = drawn((40, 60))
    weight[0, :4] = [2.0**-24, -0.0, 63.96875, -(2.0**-14)]
    call = kept(dense(3, 40, 60), weight)
    value = call.inputs[1]
    assert (value.dtype, call.program.buffer("w").dtype) == ("f16", "f16")
    np.testing.assert_array_equal(imported(value), weight)
    assert value.constant is not None
    small = np.abs(value.constant[value.constant != 0])
    assert small.min() >= np.finfo(np.float16).tiny  # no denormal
    assert packed_weight(subject_of(call.program)) is not None
    # The sum is divided by what the weights are multiplied with.
    a = np.random.default_rng(1).normal(0, 1, (3, 40)).astype(np.float32)
    bias = np.zeros(60, np.float32)
    kernel = compile_program(call.program, None, "relaxed-simd")
    given = {"a": a, "w": value.constant, "bias": bias}
    got = run_kernel(call.program, kernel.data, kernel.parallel_extent, given, kernel.panels)
    np.testing.assert_allclose(got["out"].reshape(3, 60), a @ weight, rtol=1e-5, atol=1e-5)


def test_a_weight_is_rounded_where_that_was_asked_for_and_keeps_its_name() -> None:
    weight = np.random.default_rng(2).normal(0, 0.1, (40, 60)).astype(np.float32)
    names = {content_key(weight): "encoder.weight"}
    program = dense(3, 40, 60)
    inputs = tuple(
        Value(b.name, b.shape, b.dtype, weight if b.name == "w" else None)
        for b in program.buffers
        if b.role == "input"
    )
    (call,) = keep_halves([ProgramCall(program, inputs, ())], True, names)
    got = imported(call.inputs[1])
    assert 0 < np.abs(got - weight).max() <= 2**-11 * np.abs(weight).max()
    assert names[content_key(got)] == "encoder.weight"


@pytest.mark.parametrize("strange", [64.0, np.inf, np.nan])
def test_what_no_half_can_be_is_not_rounded(strange: float) -> None:
    weight = drawn((40, 60))
    weight[3, 4] = strange
    assert kept(dense(3, 40, 60), weight, rounded=True).inputs[1].dtype == "f32"


@pytest.mark.parametrize("strange", [1 / 3, 64.0, np.inf, np.nan])
def test_what_is_no_half_or_too_large_stays_float32(strange: float) -> None:
    weight = drawn((40, 60))
    weight[5, 5] = strange
    assert kept(dense(3, 40, 60), weight).inputs[1].dtype == "f32"


def test_small_weights_and_other_programs_stay_as_they_are() -> None:
    assert kept(dense(3, 4, 60), drawn((4, 60))).inputs[1].dtype == "f32"
    program = softmax(3, 8)
    assert kept(program, drawn((3, 8))).program is program


def test_a_plan_with_panels_of_halves_says_so() -> None:
    buffers = (PlanBuffer("weight", 0, 512, (4, 20), 2), PlanBuffer("weight", 512, 512, (4, 20)))
    plan = Plan("m", (), (), buffers, (), 1024, 0)
    data = plan.to_json()
    assert (data["version"], data["buffers"][0]["unit_bytes"]) == (3, 2)
    assert "unit_bytes" not in data["buffers"][1]
    assert Plan.from_json(data) == plan
    assert [b.panel_bytes(16) for b in buffers] == [256, 512]
    assert replace(plan, buffers=buffers[1:]).to_json()["version"] == 1
