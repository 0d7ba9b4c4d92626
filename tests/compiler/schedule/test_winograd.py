"""Convolutions in tiles: the three programs, their kernels, and which layers are given them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernel_harness import run_kernel
from onnx import helper
from onnx_models import save

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.importer.program.winograd import EXTRA_WEIGHTS, choose, use_winograd
from nnjit_studio.compiler.ir.affine import loads, rewrite
from nnjit_studio.compiler.ir.tensor_ir import Expr, Load, Program
from nnjit_studio.compiler.oracle.reference import evaluate, evaluate_with_bound
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.programs.conv2d import conv2d_program
from nnjit_studio.compiler.recognize.conv2d import recognize_conv2d
from nnjit_studio.compiler.recognize.matmul import recognize
from nnjit_studio.compiler.recognize.winograd import (
    input_program,
    output_program,
    product_program,
    winograd_of,
)
from nnjit_studio.compiler.recognize.winograd_lines import transformed_weights
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.schedule.winograd import schedule_winograd
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall, Value
from nnjit_studio.errors import UserError
from nnjit_studio.model.plan_choice import PlanChoice

Arrays = dict[str, np.ndarray]
Run = Callable[[Program, Arrays], np.ndarray]
BLOCK = ("bias", "residual", "relu")
SHAPES = [
    (2, (20, 14, 14, 16), 1, BLOCK),
    (2, (6, 7, 9, 16), 1, ("bias", "relu")),
    (2, (4, 19, 17, 32), 0, ()),
    (4, (8, 16, 20, 16), 1, BLOCK),
    (4, (5, 15, 14, 32), 1, ("bias", "hardswish")),
    (4, (4, 22, 19, 16), 0, ()),
]


def conv(sizes: tuple[int, ...], pad: int, epilogue: tuple[str, ...] = ()) -> Program:
    channels, height, width, out = sizes
    return conv2d_program((1, channels, height, width, out, 3, 3, 1, pad, 1, 1), epilogue)


def inputs_of(program: Program) -> Arrays:
    rng = np.random.default_rng(3)
    shapes = {b.name: b.shape for b in program.buffers if b.role == "input"}
    return {name: rng.uniform(-1, 1, s).astype(np.float32) for name, s in shapes.items()}


def in_tiles(program: Program, m: int, given: Mapping[str, np.ndarray], run: Run) -> np.ndarray:
    """The convolution's result by its three programs."""
    found = recognize_conv2d(program)
    assert found is not None
    sizes = winograd_of(found, m)
    tiles = run(input_program(sizes), {"in0": given["in0"]})
    weights = transformed_weights(given["in1"], m)
    product = product_program(sizes)
    contraction = recognize(product)
    assert contraction is not None
    assert contraction.packable
    points = run(product, {"in0": tiles, "in1": weights})
    others = {f"in{i - 1}": given[f"in{i}"] for i in range(2, len(given))}
    return run(output_program(sizes, program, found.stores), {"in0": points, **others})


def in_float64(program: Program, given: Arrays) -> np.ndarray:
    return evaluate(program, given)["out0"]


@pytest.mark.parametrize(("m", "sizes", "pad", "epilogue"), SHAPES)
def test_three_programs_are_the_convolution(
    m: int, sizes: tuple[int, ...], pad: int, epilogue: tuple[str, ...]
) -> None:
    program = conv(sizes, pad, epilogue)
    given = inputs_of(program)
    wanted = evaluate(program, given)["out0"]
    # The transformed weights are rounded to float32, nothing else is.
    error = np.abs(in_tiles(program, m, given, in_float64) - wanted).max()
    assert error <= 4e-6 * np.abs(wanted).max()


@pytest.mark.parametrize("tier", ["simd128", "relaxed-simd"])
@pytest.mark.parametrize(("m", "sizes", "pad", "epilogue"), SHAPES)
def test_kernels_stay_within_their_bounds(
    m: int, sizes: tuple[int, ...], pad: int, epilogue: tuple[str, ...], tier: str
) -> None:
    program = conv(sizes, pad, epilogue)
    given = inputs_of(program)

    def run(step: Program, arrays: Arrays) -> np.ndarray:
        assert (schedule_winograd(step) is None) == (subject_of(step) is not None)
        made = compile_program(step, None, tier)
        got = run_kernel(step, made.data, made.parallel_extent, arrays, made.panels, parts=3)
        value, bound = evaluate_with_bound(step, arrays)["out0"]
        assert (np.abs(got["out0"] - value) <= bound + 1e-30).all(), step.name
        return got["out0"]

    wanted = evaluate(program, given)["out0"]
    error = np.abs(in_tiles(program, m, given, run) - wanted).max()
    assert error <= 3e-5 * np.abs(wanted).max()


def test_any_other_program_keeps_its_schedule() -> None:
    found = recognize_conv2d(conv((4, 14, 14, 16), 1))
    assert found is not None
    step = input_program(winograd_of(found, 2))
    assert schedule_winograd(step) is not None
    assert schedule_winograd(replace(step, stages=step.stages[:2])) is None
    first = replace(step.stages[0], body=step.stages[1].body)
    assert schedule_winograd(replace(step, stages=(first, *step.stages[1:]))) is None
    assert schedule_winograd(conv((4, 14, 14, 16), 1)) is None


def call(
    name: str, channels: int, side: int, out: int, kernel: int = 3, stride: int = 1
) -> ProgramCall:
    """A convolution with weights whose values do not matter."""
    dims = (1, channels, side, side, out, kernel, kernel, stride, kernel // 2, 1, 1)
    program = conv2d_program(dims, ("bias", "relu"))
    weights = np.broadcast_to(np.float32(0), program.buffers[1].shape)
    inputs = (
        Value(f"{name}.x", program.buffers[0].shape, "f32"),
        Value(f"{name}.w", weights.shape, "f32", weights),
        Value(f"{name}.b", (1, out, 1, 1), "f32", np.zeros((1, out, 1, 1), np.float32)),
    )
    result = next(b for b in program.buffers if b.role == "output")
    return ProgramCall(program, inputs, (Value(f"{name}.y", result.shape, "f32"),))


def test_layers_of_resnet_18() -> None:
    calls = [call("stem", 3, 224, 64, 7, 2)]
    for channels, side, count in ((64, 56, 4), (128, 28, 3), (256, 14, 3), (512, 7, 3)):
        calls += [call(f"{side}.{i}", channels, side, channels) for i in range(count)]
        calls.append(call(f"{side}.down", channels, side, min(512, 2 * channels), 3, 2))
    chosen = {calls[o.position].outputs[0].name: o.sizes.m for o in choose(calls)}
    large = {f"{side}.{i}.y": 4 for side, count in ((56, 4), (28, 3)) for i in range(count)}
    assert chosen == large | {f"14.{i}.y": 2 for i in range(3)}
    weights = sum(c.inputs[1].constant.nbytes for c in calls if c.inputs[1].constant is not None)
    assert 0 < sum(o.extra_bytes for o in choose(calls)) <= EXTRA_WEIGHTS * weights


def test_what_stays_direct() -> None:
    big = call("big", 512, 4, 512)  # its weights allow for those of the others
    computed = call("computed", 64, 56, 64)
    bare = tuple(replace(v, constant=None) for v in computed.inputs)
    others = [
        call("few", 2, 56, 16),
        call("odd", 64, 56, 24),
        call("small", 64, 6, 64),
        call("strided", 64, 56, 64, 3, 2),
        call("wide", 64, 56, 64, 5),
        replace(computed, inputs=bare),
    ]
    assert choose([big, *others]) == []
    assert len(choose([big, call("fits", 64, 56, 64)])) == 1


def test_tiles_take_no_more_than_the_room_or_the_largest_step() -> None:
    big = call("big", 512, 4, 512)
    large = call("large", 32, 320, 32)  # 60 MB of tiles and products, read and written 26 MB
    assert choose([big, large]) == []
    assert len(choose([big, large, call("larger", 64, 400, 64, 1)])) == 1


def test_steps_of_a_block_that_adds_its_own_input() -> None:
    program = conv((16, 16, 16, 16), 1, BLOCK)

    def own(expr: Expr) -> Expr | None:
        return Load("in0", expr.index) if expr in residual else None

    *first, tail = program.stages
    residual = [e for s in tail.body for e in loads(s.value) if e.buffer == "in3"]
    body = tuple(replace(s, value=rewrite(s.value, own)) for s in tail.body)
    buffers = tuple(b for b in program.buffers if b.name != "in3")
    program = replace(program, buffers=buffers, stages=(*first, replace(tail, body=body)))
    given = inputs_of(program)
    values = tuple(
        Value(name, a.shape, "f32", None if name == "in0" else a) for name, a in given.items()
    )
    ballast = call("ballast", 64, 4, 64)
    calls = (ProgramCall(program, values, (Value("y", (1, 16, 16, 16), "f32"),)), ballast)
    steps = use_winograd(ImportedCalls(values[:1], (), calls)).calls
    assert [len(s.inputs) for s in steps[:3]] == [1, 2, 3]
    assert steps[3] is ballast
    alone, choices = ImportedCalls(values[:1], (), calls[:1]), list[PlanChoice]()
    use_winograd(alone, {}, choices)
    assert choices[0].rule == "direct"
    with pytest.raises(UserError, match="may grow by"):
        use_winograd(alone, {choices[0].name: choices[0].others[0]})
    known: Arrays = {"in0": given["in0"]}
    for step in steps[:3]:
        names = [b.name for b in step.program.buffers]
        arrays = {
            n: known[v.name] if v.constant is None else v.constant
            for n, v in zip(names, step.inputs, strict=False)
        }
        known[step.outputs[0].name] = evaluate(step.program, arrays)["out0"]
    wanted = evaluate(program, given)["out0"]
    np.testing.assert_allclose(known["y"], wanted, rtol=0, atol=1e-5)


def test_labels_and_names_of_a_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    weights = {
        "w": rng.uniform(-1, 1, (16, 16, 3, 3)).astype(np.float32),
        "b": rng.uniform(-1, 1, 16).astype(np.float32),
        "head": rng.uniform(-1, 1, (16 * 256, 16)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "layer", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], "act"),
        helper.make_node("Flatten", ["r"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "head"], ["y"], "head"),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"x": [1, 16, 16, 16]}, {"y": [1, 16]}, weights)
    built = import_model(path, tmp_path / "w.bin")
    assert [(n.name, n.op) for n in built.graph.nodes[:3]] == [
        ("layer (tiles)", "winograd_input"),
        ("layer (winograd)", "batch_matmul"),
        ("layer", "winograd_output+bias+relu"),
    ]
    assert built.graph.nodes[2].source == ("layer", "act")
    assert built.graph.nodes[2].outputs == ("r",)
    assert built.workloads[1].tunable
    assert built.workloads[1].key in built.packable
    (choice,) = built.choices
    assert choice.name == "winograd:16x16x16x16" and choice.value == choice.rule == "4x4"
    assert choice.others == ("direct",)
    direct = import_model(path, tmp_path / "w2.bin", winograd=False)
    assert direct.choices == ()
    asked = import_model(path, tmp_path / "w3.bin", ways={choice.name: "direct"})
    assert asked.plan.steps == direct.plan.steps
    assert asked.choices[0].value == "direct" and asked.choices[0].others == ("4x4",)
    assert direct.graph.nodes[0].op == "conv2d+bias+relu"
    step = built.programs[built.workloads[2].key]
    assert workload_for(step, None).epilogue == ("bias", "relu")
