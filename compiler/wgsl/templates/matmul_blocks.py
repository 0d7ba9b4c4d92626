"""Products with weights of 4 or 8 bits in blocks in WGSL: few rows, or tiles in workgroup memory.

The words stay as the importer lays them. A product of few rows decodes each
word in registers once for all rows (:mod:`gemv_blocks`), or one row becomes
integers (:mod:`row_of_integers`); with more rows a workgroup decodes a block
of its columns into workgroup memory and multiplies tiles, as the products of
float32 do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.recognize.quantised import Quantised
from nnjit_studio.compiler.wgsl.core.document import PACKED, KernelDocument, Shader
from nnjit_studio.compiler.wgsl.core.finish import Finish
from nnjit_studio.compiler.wgsl.core.row_source import Made, Plain, Source
from nnjit_studio.compiler.wgsl.templates.block_matrix import COLUMNS, WORD, BlockMatrix
from nnjit_studio.compiler.wgsl.templates.decoded_tiles import decoded_of
from nnjit_studio.compiler.wgsl.templates.gemv_blocks import gemv_blocks, threads_of
from nnjit_studio.compiler.wgsl.templates.matmul import batch_axes, tiled
from nnjit_studio.compiler.wgsl.templates.row_of_integers import row_of_integers
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.space.webgpu.matmul_blocks import GROUP, untuned_blocks

FEW_ROWS = 8
"""Up to so many rows share a decoded word in registers."""
LONG, LONGER = 2048, 8192
"""Rows of a matrix from which on a row's product has twice the threads, or narrower workgroups."""
_SHORTEST = 512
"""Values of a row that is worth its integers."""
_ROWS = (
    (64, 4, 1, LONG, 16384),
    (32, 4, 1, LONG, 8192),
    (16, 4, 1, LONGER, 0),
    (16, 4, 2, 2 * LONG, 2048),
    (32, 8, 1, LONG, 2048),
    (16, 4, 1, LONG, 0),
    (64, 4, 1, 0, 16384),
    (16, 4, 1, 0, 0),
)
"""Columns of a workgroup, words of a thread in flight and eights that it makes integers together,
from so many rows and columns of a matrix on; the fastest of up to ten in nine products of a row,
measured on an NVIDIA H200, 2026-11-28; two eights where steps of a model were faster so (29)."""
_DECODING = "half"
"""The fastest of every 4-bit product that was tuned on a large GPU, and as exact as the others."""
_SUBGROUPS = "wgsl-subgroups"


def block_document(
    program: Program, subject: Quantised, candidate: GpuCandidate, tier: str
) -> KernelDocument | None:
    """The document of a product with weights in blocks; None where vectors would be cut.

    A candidate of integers is one of floats in a tier without their dot products, and where
    blocks are not in their groups.

    Raises
    ------
    CompileError
        When the candidate does not fit.
    """
    if not _readable(subject):
        return None
    c = subject.contraction
    finish = Finish(program, c, 1)
    argument = finish.argument
    matrix = BlockMatrix(
        c.k,
        c.b.row,
        argument(c.b.buffer),
        argument(subject.scale),
        argument(subject.zero) if isinstance(subject.zero, str) else "",
        subject.block,
        zero=0.0 if isinstance(subject.zero, str) else subject.zero,
        half_scales=program.buffer(subject.scale).dtype == "f16",
        stride=subject.group_stride,
        unit=subject.unit,
        batches=c.batches,
        bits=subject.bits,
    )
    if c.m > FEW_ROWS:
        return tiled(program, c, candidate, decoded_of(c, matrix, candidate))
    source: Source = Plain(argument(c.a.buffer), c.k, c.m, c.a.row, c.a.offset)
    if subject.row is not None:
        source = Made(program, subject.row)
    end = _Finished(finish, c, "total[t] * factor" if source.adds else "total[t]")
    subgroups = tier == _SUBGROUPS
    if candidate.vec == 1 and c.m == 1:
        if subgroups and _has_integers(subject):
            made = row_of_integers(matrix, candidate, source, end)
            return KernelDocument((made,), requires=("subgroups", PACKED))
        candidate = replace(candidate, y1=1, vec=COLUMNS)
    dispatch = gemv_blocks(matrix, candidate, source, end, c.m, subgroups, _DECODING)
    return KernelDocument((dispatch,), requires=("subgroups",) if subgroups else ())


def guess(subject: Quantised) -> GpuCandidate:
    """Settings for a product that nobody tuned, good for any device: up to 256 threads."""
    c = subject.contraction
    if c.m > FEW_ROWS:
        return untuned_blocks(c.m, c.k, c.n, c.batches)
    if c.m == 1 and c.k >= _SHORTEST and _has_integers(subject):
        return row_guess(c.k, c.n)
    if c.m == 1 and min(c.k, c.n) >= LONG:  # narrow, so that every core has words in flight
        return GpuCandidate(COLUMNS, 1, 4, 16, 1, 512)
    depth = min(128, 1 << (c.k.bit_length() - 1))
    return GpuCandidate(COLUMNS, c.m, 2 if c.m < 4 else 1, 32, c.m, depth, 1, 4)


def row_guess(k: int, n: int) -> GpuCandidate:
    """Settings of one row as integers, good for any device."""
    columns, words, eights = next(row[:3] for row in _ROWS if k >= row[3] and n >= row[4])
    threads = 256 if k >= LONG else 128
    depth = WORD * threads * COLUMNS // columns
    return GpuCandidate(COLUMNS, 1, words, columns, eights, depth, vec=1)


def _has_integers(subject: Quantised) -> bool:
    """Whether sums of a group of integers fit 32 bits, and blocks are whole groups."""
    return subject.bits == 4 and subject.block % GROUP == 0


def _readable(subject: Quantised) -> bool:
    """Whether rows and columns are in whole vectors, and all heads multiply the same rows."""
    c = subject.contraction
    heads = len(c.batch) < 2 and not any(c.a.batch)
    aligned = c.n % COLUMNS == 0 and c.a.offset % 4 == 0 and (c.m == 1 or c.a.row % 4 == 0)
    return heads and aligned and c.a.column == 1


@dataclass(frozen=True)
class _Finished:
    """The fused epilogue of the program, a sum at a time."""

    finish: Finish
    c: Contraction
    result: str

    def declare(self, shader: Shader) -> None:
        self.finish.declare(shader, [f"m >= {self.c.m}u", f"n >= {self.c.n}u"])

    def lines(self, candidate: GpuCandidate) -> list[str]:
        x1, y0 = candidate.x1, candidate.y0
        call = self.finish.call("finish", f"wg.y * {y0}u + t / {x1}u", "n", self.result)
        return [
            *batch_axes(self.c, "wg.z"),
            f"for (var t = li; t < {x1 * y0}u; t += {threads_of(candidate)}u) {{",
            f"  let n = wg.x * {x1}u + t % {x1}u;",
            *(f"  {line}" for line in call),
            "}",
        ]
