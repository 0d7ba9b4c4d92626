"""Rows that the 4-bit product of a token makes itself: norms and gates, in both backends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from exact_native import exact_session
from grouped_models import Sizes, grouped
from kernel_harness import run_kernel
from onnx import helper
from onnx_models import save
from run_plan import run_by_kernels
from wgsl_harness import check_document, has_subgroups, run_program

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.importer.generation import import_generation
from nnjit_studio.compiler.importer.program.fuse_rows import fuse_rows
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Buffer,
    Call,
    Expr,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.oracle.fixture import STORAGE, make_fixture
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.pipeline.wgsl import compile_wgsl
from nnjit_studio.compiler.recognize.quantised import recognize_blocks
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall, Value
from nnjit_studio.compiler.wgsl.core.document import KernelDocument
from nnjit_studio.model import GenerationRequest
from nnjit_studio.records import Fixture
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import GpuCandidate

SIZES = Sizes(heads=2, shared=2, depth=32, hidden=96, layers=1, vocabulary=64, positions=32)
INTEGERS = GpuCandidate(4, 1, 4, 16, 1, 64, vec=1)
X, Y = Value("x", (1, 96), "f32"), Value("y", (1, 64), "f32")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Program]:
    """The 4-bit products of a token that make their row, by what they do."""
    folder = tmp_path_factory.mktemp("rows")
    path = grouped(folder / "m.onnx", 4, half=True, sizes=SIZES)
    built = import_generation(path, folder / "w.bin", GenerationRequest(capacity=32, rows=8))
    found = {w.key: w for w in built.decode.workloads if w.kind == "matmul_4bit"}
    plain = [w for w in found.values() if not {"norm", "elementwise"} & {*w.epilogue}]
    assert [w.dims for w in plain] == [(1, 64, 64)], "the one behind attention"
    return {
        "+".join(w.epilogue): built.decode.programs[w.key] for w in found.values() if w not in plain
    }


@pytest.mark.parametrize(
    ("tier", "candidate"),
    [("wgsl", None), ("wgsl-subgroups", None), ("wgsl-subgroups", INTEGERS)],
)
def test_a_gpu_makes_norm_and_gate(
    programs: dict[str, Program], tier: str, candidate: GpuCandidate | None
) -> None:
    if "subgroups" in tier and not has_subgroups():
        pytest.skip("this adapter has no subgroups")
    assert programs.keys() == {"norm", "elementwise+add"}
    for program in programs.values():
        document = KernelDocument.from_bytes(compile_wgsl(program, candidate, tier).data)
        assert len(document.dispatches) == 1
        check_document(program, document)


def drawn(program: Program) -> tuple[Fixture, dict[str, np.ndarray]]:
    """A fixture, and its inputs by name."""
    fixture = make_fixture("row", program)
    return fixture, {
        b.name: np.frombuffer(arg.data, STORAGE[b.dtype]).reshape(b.shape).copy()
        for b, arg in zip(program.buffers, fixture.args, strict=True)
        if b.role == "input" and arg.data is not None
    }


def test_the_ends_of_a_gate(programs: dict[str, Program]) -> None:
    """Where the device's exp would overflow, or is far from exact."""
    program = programs["elementwise+add"]
    _, given = drawn(program)
    given["in0"][0, :8] = -200, -95, -40, -10, 10, 40, 95, 200
    made = compile_program(program, Candidate(8, 1, 1, 8, 1, 96), "simd128")
    wasm = run_kernel(program, made.data, made.parallel_extent, given, made.panels)
    (out,) = (b.name for b in program.buffers if b.role == "output")
    for tier in ("wgsl", "wgsl-subgroups")[: 1 + has_subgroups()]:
        got = run_program(program, compile_wgsl(program, None, tier).data, given)[out]
        assert np.max(np.abs(got - wasm[out])) < 2e-6 * np.max(np.abs(wasm[out]))


@pytest.mark.parametrize("tier", ["simd128", "relaxed-simd"])
def test_wasm_makes_them_on_every_thread(programs: dict[str, Program], tier: str) -> None:
    for program in programs.values():
        fixture, given = drawn(program)
        made = compile_program(program, Candidate(8, 1, 1, 8, 1, 96), tier)
        parts = min(3, made.parallel_extent)
        after = run_kernel(program, made.data, made.parallel_extent, given, made.panels, parts)
        (got,) = (after[b.name] for b in program.buffers if b.role == "output")
        off = np.abs(got.reshape(-1) - fixture.expected[0].reshape(-1))
        assert np.all(off <= fixture.bound[0].reshape(-1))


def in_two_steps(whole: Program, change: Callable[[Expr], Expr]) -> tuple[ProgramCall, ProgramCall]:
    """A row that is changed element by element, then its product as of a program, without more."""
    product = recognize_blocks(whole)
    assert product is not None and product.row is not None
    row = Value("row", (1, 96), "f32")
    index = Var("i")
    maker = Program(
        "change",
        (Buffer("x", "f32", (1, 96), "input"), Buffer("y", "f32", (1, 96), "output")),
        (Stage("", (Axis("i", 96),), (Store("y", index, change(Load("x", index))),)),),
    )
    names = [product.contraction.b.buffer, product.scale]
    sum_stage = next(s for s in whole.stages if s.init)
    weights = tuple(whole.buffer(name) for name in names)
    given = Buffer(product.row.buffer, "f32", (1, 96), "input")
    result = Buffer(sum_stage.body[0].buffer, "f32", (1, 64), "output")
    alone = Program("product", (given, *weights, result), (sum_stage,))
    constants = tuple(
        Value(b.name, b.shape, b.dtype, np.zeros(b.shape, STORAGE[b.dtype])) for b in weights
    )
    return ProgramCall(maker, (X,), (row,)), ProgramCall(alone, (row, *constants), (Y,))


def test_a_row_that_others_read_too_is_made_once(programs: dict[str, Program]) -> None:
    pair = in_two_steps(programs["elementwise+add"], lambda x: x * 2.0)
    (row,) = pair[0].outputs
    assert len(fuse_rows(ImportedCalls((X,), (Y,), pair), {}).calls) == 1
    assert fuse_rows(ImportedCalls((X,), (Y, row), pair), {}).calls == pair


def test_a_row_that_no_vectors_make_stays_a_step(programs: dict[str, Program]) -> None:
    """A product that made it would have no template on a GPU."""
    pair = in_two_steps(programs["elementwise+add"], lambda x: Call("round", (x,)))
    assert fuse_rows(ImportedCalls((X,), (Y,), pair), {}).calls == pair


def test_a_gate_that_is_no_number_makes_none(programs: dict[str, Program]) -> None:
    """Where the sigmoid does not multiply what it is of, it alone says so."""
    pair = in_two_steps(programs["elementwise+add"], lambda x: Call("sigmoid", (x,)))
    (call,) = fuse_rows(ImportedCalls((X,), (Y,), pair), {}).calls
    _, given = drawn(call.program)
    given["in0"][0, 3] = np.nan
    data = compile_wgsl(call.program, None, "wgsl").data
    (got,) = run_program(call.program, data, given).values()
    assert np.isnan(got).all()


def test_rows_that_differ_in_a_number_stay_rows_of_products(tmp_path: Path) -> None:
    """Numbers of programs with bytes, such as zero points, become weights where they differ."""
    rng = np.random.default_rng(1)
    sizes = {"K": 64, "N": 64, "bits": 4, "block_size": 32, "domain": "com.microsoft"}
    weights = {
        "codes": rng.integers(0, 256, (64, 2, 16), np.uint8),
        "scales": rng.uniform(0.03, 0.06, 128).astype(np.float32),
        "zeros": rng.integers(0, 256, 64, np.uint8),
        **{f"c{i}": np.float32(0.5 + i) for i in range(2)},
    }
    nodes = []
    for i in range(2):
        nodes.append(helper.make_node("Mul", [f"x{i}", f"c{i}"], [f"row{i}"]))
        given = [f"row{i}", "codes", "scales", "zeros"]
        nodes.append(helper.make_node("MatMulNBits", given, [f"y{i}"], **sizes))
    inputs, outputs = ({f"{name}{i}": [1, 64] for i in range(2)} for name in "xy")
    path = save(tmp_path / "m.onnx", nodes, inputs, outputs, weights, ("", "com.microsoft"))
    built = import_model(path, tmp_path / "w.bin")
    assert [w.name for w in built.workloads] == 2 * ["matmul_4bit:1x64x64:f32+elementwise"]
    feeds = {name: rng.standard_normal((1, 64)).astype(np.float32) for name in inputs}
    got = run_by_kernels(built, tmp_path / "w.bin", feeds, "simd128")
    for name, expected in zip(outputs, exact_session(path).run(None, feeds), strict=True):
        np.testing.assert_allclose(got[name], expected, rtol=1e-4, atol=1e-4)
