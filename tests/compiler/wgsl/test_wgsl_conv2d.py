"""Convolutions in WGSL, run on wgpu-native and checked against float64, element by element."""

from __future__ import annotations

from dataclasses import replace

import pytest
from wgsl_harness import check_document

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.pipeline.wgsl import from_template
from nnjit_studio.compiler.programs.conv2d import conv2d_program
from nnjit_studio.errors import CompileError
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import GpuCandidate

TILE = GpuCandidate(4, 4, 4, 32, 16, 8)


def convolution(text: str) -> Program:
    """From dims as ``CONV2D_DIMS`` names them, and the epilogue's words behind ``+``."""
    dims, *epilogue = text.split("+")
    return conv2d_program([int(d) for d in dims.split("x")], epilogue)


def check(program: Program, candidate: GpuCandidate | None) -> None:
    document = from_template(program, candidate, "wgsl")
    assert document is not None
    check_document(program, document)


@pytest.mark.parametrize(
    "spec",
    [
        "1x3x13x11x5x3x3x2x1x1x1+bias+relu",  # K of 27, an odd image
        "2x8x9x9x12x3x3x1x1x1x1+bias+residual",
        "1x4x12x10x9x5x3x1x2x2x1",  # dilated, padded more below than the kernel reaches
        "2x12x7x8x18x3x3x1x1x1x3+bias",  # groups
        "1x16x9x7x20x1x1x2x0x1x1",  # strided 1x1
        "1x3x20x21x8x7x7x2x3x1x1+bias+relu6",
        "1x6x8x8x4x3x3x1x0x1x1",  # no padding: no check
    ],
)
def test_products(spec: str) -> None:
    check(convolution(spec), TILE)


@pytest.mark.parametrize(
    "candidate",
    [
        GpuCandidate(8, 8, 2, 32, 32, 8),
        GpuCandidate(4, 2, 2, 16, 8, 8),
        GpuCandidate(2, 4, 1, 8, 16, 4),
        GpuCandidate(1, 1, 1, 4, 4, 4),
        GpuCandidate(4, 4, 4, 64, 8, 8),
        GpuCandidate(4, 4, 4, 32, 16, 8, 3),
        None,
    ],
)
def test_tiles(candidate: GpuCandidate | None) -> None:
    check(convolution("1x10x11x12x21x3x3x1x1x1x1+bias+relu"), candidate)


@pytest.mark.parametrize(
    ("spec", "candidate"),
    [
        ("1x6x14x9x6x3x3x1x1x1x6+bias+relu6", GpuCandidate(4, 2, 1, 128, 2, 1)),
        ("1x5x16x16x5x3x3x2x1x1x5+bias", GpuCandidate(8, 1, 1, 256, 1, 1)),
        ("1x5x16x16x5x3x3x2x1x1x5+bias", None),
        ("2x3x12x12x6x5x5x1x2x1x3+bias", GpuCandidate(4, 2, 1, 128, 2, 1)),  # 2 of each channel
        ("1x4x9x8x4x3x3x1x2x2x4+residual", GpuCandidate(1, 3, 1, 64, 3, 1)),
        ("1x4x8x12x4x3x3x1x0x1x4", GpuCandidate(2, 2, 1, 64, 2, 1, 1, 1)),
    ],
)
def test_depthwise(spec: str, candidate: GpuCandidate | None) -> None:
    check(convolution(spec), candidate)


def test_what_no_template_takes_is_refused_with_the_way_out() -> None:
    many = convolution("1x2x40x40x2x31x31x1x15x1x2")
    assert from_template(many, None, "wgsl") is None
    with pytest.raises(CompileError, match="961 taps"):
        from_template(many, TILE, "wgsl")
    with pytest.raises(CompileError, match="no tile of this kernel"):
        from_template(convolution("1x4x9x8x4x3x3x1x1x1x4"), GpuCandidate(6, 1, 1, 6, 1, 1), "wgsl")
    with pytest.raises(CompileError, match="Wasm kernels"):
        from_template(many, Candidate(8, 2, 4, 8, 2, 8), "wgsl")


def test_a_kernel_longer_than_a_word_has_bits() -> None:
    long = convolution("1x4x1x90x6x1x40x1x20x1x1")
    assert from_template(long, None, "wgsl") is None


def test_weights_in_f16_are_left_to_the_default_schedule() -> None:
    program = convolution("1x4x9x8x6x3x3x1x1x1x1")
    halves = tuple(replace(b, dtype="f16") if b.name == "in1" else b for b in program.buffers)
    assert from_template(replace(program, buffers=halves), None, "wgsl") is None
