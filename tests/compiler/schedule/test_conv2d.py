"""Convolutions: recognised, and every candidate's kernel against the float64 reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_harness import run_kernel

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.oracle.reference import evaluate, evaluate_with_bound
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.programs.conv2d import conv2d_program
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.recognize.conv2d import recognize_conv2d
from nnjit_studio.compiler.recognize.convolution import Conv2d
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.compiler.templates import prepared, subject_of
from nnjit_studio.errors import CompileError, UserError
from nnjit_studio.records import TIERS, DeviceProfile
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.space.lite_space import build_lite_space

DEVICE = DeviceProfile("test", "test")

# batch, channels, height, width, outputs, kernel, stride, pad, dilation, groups
KINDS: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "first layer": ((1, 3, 19, 17, 8, 3, 3, 2, 1, 1, 1), ("bias", "relu6")),
    "basic block": ((1, 8, 14, 14, 12, 3, 3, 1, 1, 1, 1), ("bias", "residual", "relu")),
    "no padding": ((1, 3, 9, 12, 5, 3, 3, 1, 0, 1, 1), ()),
    "batch": ((2, 5, 9, 11, 7, 3, 3, 1, 1, 1, 1), ("bias",)),
    "dilated": ((1, 4, 11, 10, 6, 3, 3, 1, 2, 2, 1), ("relu",)),
    "grouped": ((1, 8, 7, 7, 12, 3, 3, 1, 1, 1, 2), ("bias",)),
    "shortcut": ((1, 8, 13, 13, 16, 1, 1, 2, 0, 1, 1), ("bias",)),
    "patches": ((1, 3, 16, 16, 10, 8, 8, 8, 0, 1, 1), ("bias",)),
    "seven": ((1, 2, 15, 15, 4, 7, 7, 2, 3, 1, 1), ("bias", "relu")),
    "narrow": ((1, 4, 6, 3, 5, 3, 3, 1, 1, 1, 1), ("hardswish",)),
    "one row": ((2, 4, 1, 531, 6, 1, 3, 2, 0, 1, 2), ("bias", "hardswish")),
    "depthwise": ((1, 6, 14, 14, 6, 3, 3, 1, 1, 1, 6), ("bias", "relu6")),
    "depthwise stride": ((2, 5, 15, 13, 5, 3, 3, 2, 1, 1, 5), ("bias",)),
    "depthwise five": ((1, 4, 9, 9, 4, 5, 5, 1, 2, 1, 4), ("hardswish",)),
    "multiplier": ((1, 3, 9, 9, 6, 3, 3, 1, 1, 1, 3), ("bias",)),
    "depthwise narrow": ((1, 4, 5, 2, 4, 3, 3, 1, 1, 1, 4), ()),
}


def made(dims: tuple[int, ...], epilogue: tuple[str, ...] = ()) -> tuple[Program, Conv2d]:
    program = prepared(conv2d_program(dims, epilogue))
    subject = subject_of(program)
    assert isinstance(subject, Conv2d)
    return program, subject


def inputs_of(program: Program, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        b.name: rng.standard_normal(b.shape).astype(np.float32)
        for b in program.buffers
        if b.role == "input"
    }


def check(program: Program, candidate: Candidate, tier: str, inputs: dict[str, np.ndarray],
          wanted: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:  # fmt: skip
    made = compile_program(program, candidate, tier)
    parts = min(3, made.parallel_extent)
    got = run_kernel(program, made.data, made.parallel_extent, inputs, made.panels, parts)
    for name, (value, bound) in wanted.items():
        assert (np.abs(got[name] - value) <= bound + 1e-30).all(), (name, str(candidate))


@pytest.mark.parametrize("kind", KINDS)
def test_every_candidate_computes_the_convolution(kind: str) -> None:
    dims, epilogue = KINDS[kind]
    program, conv = made(dims, epilogue)
    assert conv.dims == dims
    workload = workload_for(program, conv)
    assert workload.kind == "conv2d" and workload.tunable and workload.dims == dims
    entries = build_lite_space(workload, DEVICE, False).entries
    inputs = inputs_of(program)
    wanted = evaluate_with_bound(program, inputs)
    for i, entry in enumerate(entries):
        check(program, entry.candidate, TIERS[i % 2], inputs, wanted)


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_an_image_of_one_column_counts_as_one_of_one_row(groups: int) -> None:
    program, conv = made((2, 8, 37, 1, 8, 5, 1, 2, 0, 1, groups), ("bias", "relu"))
    assert conv.dims == (2, 8, 1, 37, 8, 1, 5, 2, 0, 1, groups)
    inputs = inputs_of(program)
    wanted = evaluate_with_bound(program, inputs)
    for i, entry in enumerate(build_lite_space(workload_for(program, conv), DEVICE, False).entries):
        check(program, entry.candidate, TIERS[i % 2], inputs, wanted)


def test_the_reference_agrees_with_sums_written_out() -> None:
    dims = (2, 4, 6, 5, 6, 3, 3, 2, 1, 1, 2)
    program, _ = made(dims)
    inputs = inputs_of(program)
    x = np.pad(inputs["in0"].astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    w = inputs["in1"].astype(np.float64)
    wanted = np.zeros((2, 6, 3, 3))
    for o in range(6):
        first = o // 3 * 2
        for y in range(3):
            for column in range(3):
                window = x[:, first : first + 2, 2 * y : 2 * y + 3, 2 * column : 2 * column + 3]
                wanted[:, o, y, column] = (window * w[o]).sum((1, 2, 3))
    np.testing.assert_allclose(evaluate(program, inputs)["out0"], wanted, atol=1e-12)


@settings(max_examples=25)
@given(st.data())
def test_random_geometries(data: st.DataObject) -> None:
    draw = data.draw
    groups = draw(st.sampled_from((1, 1, 2, 3)))
    channels, outputs = (groups * draw(st.integers(1, 4)) for _ in range(2))
    kernel = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    stride, dilation, pad = (draw(st.integers(*r)) for r in ((1, 3), (1, 2), (0, 2)))
    height, width = draw(st.integers(8, 14)), draw(st.integers(8, 14))
    dims = (
        draw(st.integers(1, 2)), channels, height, width, outputs,
        *kernel, stride, pad, dilation, groups,
    )  # fmt: skip
    program = prepared(conv2d_program(dims, ("bias", "relu")))
    conv = subject_of(program)
    assert conv is not None, dims
    if isinstance(conv, Contraction):  # a plain matmul, and tested as one
        return
    entries = build_lite_space(workload_for(program, conv), DEVICE, False).entries
    entry = draw(st.sampled_from(entries))
    inputs = inputs_of(program)
    wanted = evaluate_with_bound(program, inputs)
    check(program, entry.candidate, draw(st.sampled_from(TIERS)), inputs, wanted)


def test_a_plain_1x1_convolution_is_a_matmul() -> None:
    subject = subject_of(conv2d_program((1, 6, 7, 5, 9, 1, 1, 1, 0, 1, 1), ("bias",)))
    assert isinstance(subject, Contraction)
    assert (subject.m, subject.k, subject.n, subject.b.column) == (9, 6, 35, 1)


def test_a_kernel_as_large_as_the_image_is_a_product_that_reads_b_along_the_reduction() -> None:
    # A kernel as large as the image leaves one output a channel: B is the weight, transposed.
    program = prepared(conv2d_program((1, 4, 5, 5, 6, 5, 5, 1, 0, 1, 1)))
    subject = subject_of(program)
    assert isinstance(subject, Contraction) and subject.b.column != 1
    workload = workload_for(program, subject)
    assert (workload.kind, workload.tunable) == ("matmul_dot", True)


def test_staging_gets_a_workspace_only_where_there_is_none() -> None:
    padded = conv2d_program((1, 3, 8, 8, 4, 3, 3, 1, 1, 1, 1))
    assert prepared(padded) is padded
    bare = conv2d_program((1, 3, 8, 8, 4, 3, 3, 1, 0, 1, 1))
    found = recognize_conv2d(bare)
    assert found is not None and found.stage == ""
    extra = prepared(bare).buffers[-1]
    assert (extra.role, extra.shape) == ("workspace", (3 * 8 * 8,))
    with pytest.raises(CompileError, match="no workspace"):
        compile_program(bare, Candidate(4, 4, 3, 6, 4, 27, "mn", False), "simd128")


def test_what_is_no_convolution_is_refused() -> None:
    program = conv2d_program((1, 3, 8, 8, 4, 3, 3, 1, 1, 1, 1), ("bias",))
    pad, total, tail = program.stages
    wrong_border = replace(pad, body=(replace(pad.body[0], value=pad.body[0].value.then),))  # type: ignore[union-attr]
    assert recognize_conv2d(replace(program, stages=(wrong_border, total, tail))) is None
    fewer = tuple(replace(a, extent=2) if a.var == "i6" else a for a in total.axes)
    assert (
        recognize_conv2d(replace(program, stages=(pad, replace(total, axes=fewer), tail))) is None
    )
    assert recognize_conv2d(replace(program, stages=(tail,))) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x0=32,y0=4,r0=3,x1=4,y1=4,r1=27,pack=0", "x0=32"),
        ("x0=4,y0=9,r0=3,x1=4,y1=9,r1=27,pack=0", "y0=9"),
        ("x0=4,y0=4,r0=2,x1=4,y1=4,r1=27,pack=0", "r0=2"),
        ("x0=4,y0=4,r0=3,x1=4,y1=4,r1=27,pack=1", "not packed"),
        ("x0=8,y0=8,r0=12,x1=4,y1=8,r1=27,pack=0", "SIMD operations"),
    ],
)
def test_a_setting_that_does_not_fit_is_named(text: str, reason: str) -> None:
    program, _ = made((1, 4, 8, 8, 8, 3, 3, 1, 1, 1, 1))
    with pytest.raises(CompileError, match=reason):
        compile_program(program, Candidate.parse(text), "simd128")


def test_dims_that_are_no_convolution_are_refused() -> None:
    with pytest.raises(UserError, match="dims"):
        program_for("conv2d:1x3x8x8:f32")
    with pytest.raises(UserError, match="no convolution"):
        conv2d_program((1, 3, 8, 8, 4, 3, 3, 1, 0, 1, 2))


def test_a_horizontal_stride_of_two_is_sorted_by_shuffles() -> None:
    program, conv = made((1, 2, 9, 21, 4, 3, 3, 2, 1, 1, 1))
    first = build_lite_space(workload_for(program, conv), DEVICE, False).entries[0].candidate
    text = compile_program(program, first, "simd128", dump_after="lower").dump
    assert "i32x4.shuffle_0257" in text
    assert "replace_lane" not in text
