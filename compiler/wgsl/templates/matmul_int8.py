"""Products of bytes in WGSL: tiles of words, four neighbours in k each, multiplied at once.

A word of A meets a word of B in ``dot4I8Packed``, four multiply-adds of signed bytes into an
i32, which wraps. Unsigned bytes of A are made signed by flipping their highest bit, which takes
128 from each; 128 times the sum of each column of B is added behind the loop. The plain twin
takes the bytes of both words apart and needs no language feature.
"""

from __future__ import annotations

from dataclasses import replace

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.recognize.quantised import INT8_IN_WORD, Quantised
from nnjit_studio.compiler.wgsl.core.document import PACKED, KernelDocument
from nnjit_studio.compiler.wgsl.templates.matmul import tiled
from nnjit_studio.compiler.wgsl.templates.matmul_tiled import Arithmetic
from nnjit_studio.records import GPU_TIERS
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.space.webgpu.matmul_int8 import untuned_int8

_BYTES = 0, 8, 16, 24


def int8_document(
    program: Program, quantised: Quantised, candidate: GpuCandidate, tier: str
) -> KernelDocument | None:
    """The document of a product of bytes; None where rows of A begin inside a word.

    Raises
    ------
    CompileError
        When the candidate does not fit.
    """
    c = quantised.contraction
    signed = program.buffer(c.a.buffer).dtype == "i8"
    if not _whole_words(c) or program.buffer(c.b.buffer).dtype != "i8":
        return None
    packed = tier == GPU_TIERS[1]
    document = tiled(program, _in_words(c), candidate, arithmetic=_arithmetic(signed, packed))
    return replace(document, requires=(PACKED,)) if packed else document


def guess(quantised: Quantised) -> GpuCandidate:
    """Settings for a product that nobody tuned, good for any device."""
    c = quantised.contraction
    return untuned_int8(c.m, c.k, c.n)


def _whole_words(c: Contraction) -> bool:
    """Whether rows of A begin with a word."""
    return not c.batch and c.a.column == 1 and c.a.row % 4 == 0 and c.a.offset % 4 == 0


def _in_words(c: Contraction) -> Contraction:
    """The contraction with words for elements."""
    a = replace(c.a, offset=c.a.offset // INT8_IN_WORD, row=c.a.row // INT8_IN_WORD)
    return replace(c, k=c.k // INT8_IN_WORD, a=a)


def _arithmetic(signed: bool, packed: bool) -> Arithmetic:
    if packed:
        products = "dot4I8Packed(a, b)"
    else:
        first = "extractBits(i32(a), {}u, 8u)" if signed else "i32(extractBits(a, {}u, 8u))"
        products = " + ".join(
            f"{first.format(bit)} * extractBits(i32(b), {bit}u, 8u)" for bit in _BYTES
        )
    function = f"fn dot4(a: u32, b: u32) -> i32 {{ return {products}; }}"
    return Arithmetic("u32", "i32", function, 128 if packed and not signed else 0)
