"""A convolution that is quantised as it comes is three steps, and on a GPU as many dispatches."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from exact_native import exact_session
from onnx import TensorProto, helper
from onnx_models import save
from run_plan import run_by_kernels
from run_plan_wgsl import run_by_documents

from nnjit_studio.compiler.importer import BuiltModel, import_model
from nnjit_studio.compiler.ir.in_place import in_place
from nnjit_studio.compiler.ir.numbers_in_front import numbers_in_front
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Buffer,
    Cast,
    Const,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.pipeline.wgsl import compile_wgsl
from nnjit_studio.compiler.schedule.default import schedule_default
from nnjit_studio.compiler.tvm_adapter.quantised import Moved
from nnjit_studio.compiler.wgsl.core.document import KernelDocument
from nnjit_studio.records import GPU_TIERS, TIERS
from nnjit_studio.records.quantised import DEPTHWISE_INT8, MATMUL_INT8

CHANNELS = 16


def layers(path: Path, zero: int) -> tuple[Path, dict[str, np.ndarray]]:
    """1x1 convolutions with a residual and depthwise ones, of one shape, as a quantiser writes
    them: numbers that differ from layer to layer become an input of the kernel."""
    rng, make = np.random.default_rng(3), helper.make_node
    nodes: list[onnx.NodeProto] = []
    weights: dict[str, Any] = {
        "shape": np.array([1, -1, 1, 1]), "least": np.float32(0), "most": np.float32(6),
    }  # fmt: skip

    def conv(x: str, out: str, *shape: int, **attributes: Any) -> str:
        weights[f"{out}w"] = rng.integers(0, 256, (CHANNELS, *shape)).astype(np.uint8)
        weights[f"{out}ws"] = np.float32(0.01 + 0.001 * len(nodes))
        weights[f"{out}z"] = np.uint8(zero + len(nodes) // 20)
        weights[f"{out}b"] = rng.standard_normal(CHANNELS).astype(np.float32)
        given = [f"{out}q", f"{out}w", f"{out}qz", f"{out}z"]
        nodes.extend([
            make("DynamicQuantizeLinear", [x], [f"{out}q", f"{out}s", f"{out}qz"]),
            make("ConvInteger", given, [f"{out}i"], **attributes),
            make("Cast", [f"{out}i"], [f"{out}f"], to=TensorProto.FLOAT),
            make("Mul", [f"{out}s", f"{out}ws"], [f"{out}m"]),
            make("Mul", [f"{out}f", f"{out}m"], [f"{out}p"]),
            make("Reshape", [f"{out}b", "shape"], [f"{out}r"]),
            make("Add", [f"{out}p", f"{out}r"], [out]),
        ])  # fmt: skip
        return out

    x = "x"
    for i in range(2):
        a = conv(x, f"a{i}", CHANNELS, 1, 1)
        nodes.append(make("Clip", [a, "least", "most"], [f"c{i}"]))
        b = conv(f"c{i}", f"b{i}", 1, 3, 3, group=CHANNELS, pads=[1] * 4)
        nodes.append(make("Clip", [b, "least", "most"], [f"d{i}"]))
        e = conv(f"d{i}", f"e{i}", CHANNELS, 1, 1)
        x = f"y{i}" if i == 0 else "y"
        nodes.append(make("Add", [e, f"c{i}"], [x]))
    feeds = {"x": rng.standard_normal((1, CHANNELS, 9, 8)).astype(np.float32)}
    save(path, nodes, {"x": list(feeds["x"].shape)}, {"y": [1, CHANNELS, 9, 8]}, weights)
    return path, feeds


@pytest.fixture(scope="module", params=[128, 117])
def built(request: Any, tmp_path_factory: Any) -> tuple[BuiltModel, Path, dict[str, np.ndarray]]:
    folder = tmp_path_factory.mktemp("layers")
    path, feeds = layers(folder / "m.onnx", request.param)
    return import_model(path, folder / "w.bin"), path, feeds


def test_a_convolution_is_three_steps(built: Any) -> None:
    model, *_ = built
    steps = [s for s in model.plan.steps if s.op == "call"]
    products = [w for w in model.workloads if w.kind in (MATMUL_INT8, DEPTHWISE_INT8)]
    assert sum(w.uses for w in products) == 6
    # The first one's image has its channels last by a step of its own, as has the result.
    assert len(steps) <= 3 * 6 + 2


def test_results_are_native_onnx_runtimes(built: Any) -> None:
    model, path, feeds = built
    (expected,) = exact_session(path).run(None, feeds)
    for tier in TIERS:
        got = run_by_kernels(model, path.parent / "w.bin", feeds, tier)["y"]
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("tier", GPU_TIERS[:1])
def test_steps_are_single_dispatches(built: Any, tier: str) -> None:
    model, path, feeds = built
    for key, program in model.programs.items():
        document = KernelDocument.from_bytes(compile_wgsl(program, None, tier).data)
        assert len(document.dispatches) == 1, key
    (expected,) = exact_session(path).run(None, feeds)
    got = run_by_documents(model, path.parent / "w.bin", feeds, tier)["y"]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_weights_with_one_zero_point_are_moved_by_one_number() -> None:
    weight = np.array([[0, 100], [255, 110]], np.int32)
    moved = Moved.of(weight, np.array([120], np.int32))
    assert len(set(moved.zero.tolist())) == 1
    np.testing.assert_array_equal(
        moved.weight.astype(np.int32) - moved.zero, weight - 120, "no value is saturated"
    )


def test_numbers_that_every_thread_computes_have_places_of_their_own(built: Any) -> None:
    """Else a thread could read what another one has made of a number by then."""
    model, *_ = built
    programs = [p for p in model.programs.values() if numbers_in_front(p)]
    programs = [p for p in programs if numbers_in_front(p) < len(p.stages)]
    assert programs
    for program in programs:
        shared = in_place(program)
        assert not [n for n in shared if math.prod(program.buffer(n).shape) == 1]
        threads = schedule_default(program).parallel_extent
        rest = replace(program, stages=program.stages[numbers_in_front(program) :])
        assert threads == schedule_default(rest).parallel_extent > 1


def test_a_number_is_not_laid_over_another_result_beside_large_ones() -> None:
    """What a thread computes of it would be what another one takes it for."""
    at, axes = Const(0, "i32"), (Axis("i", 64),)
    buffers = (
        Buffer("in0", "f32", (), "input"),
        Buffer("out0", "i8", (64,), "output"),
        Buffer("out1", "f32", (), "output"),
        Buffer("ws0", "f32", (), "workspace"),
    )
    stages = (
        Stage("half", (), (Store("ws0", at, Load("in0", at) * 0.5),)),
        Stage("less", (), (Store("out1", at, Load("ws0", at) - 1.0),)),
        Stage("bytes", axes, (Store("out0", Var("i"), Cast(Load("in0", at), "i8")),)),
    )
    program = Program("numbers", buffers, stages)
    assert numbers_in_front(program) == 2
    assert in_place(program) == {}
    alone = replace(program, buffers=(buffers[0], *buffers[2:]), stages=stages[:2])
    assert in_place(alone) == {"ws0": "out1"}
