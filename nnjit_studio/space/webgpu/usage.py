"""Resources of a WGSL candidate: threads, registers, workgroup memory (Table 1)."""

from __future__ import annotations

from nnjit_studio.records.gpu_candidate import GpuCandidate

ELEMENT_BYTES = 4
WIDTH = 4
"""Elements of a vector of workgroup memory (Heuristic 1: 128 bits)."""
TWO_STAGES_BYTES = 18 << 10
"""Two tiles of each operand, one read while the other is written, where they fit in this.

Measured on an NVIDIA H200, Chromium 156, 2026-11-21: of 4096^3, tiles of 128x128 take 3.05 ms
with one stage and 3.72 with two at r1 = 16, but 3.32 and 2.86 at r1 = 8; small products differ by
a few percent either way.
"""
MAX_THREADS = 256
"""Heuristic 5, and what every WebGPU device allows."""
MATVEC_ROWS = 8
"""Up to so many rows a product reads B once: it is made by the matrix-vector template."""


def tile_width(extent: int) -> int:
    """Elements of the vectors that a tile of a thread's ``extent`` is read in."""
    return min(WIDTH, extent)


def row_vectors(extent: int, width: int) -> int:
    """Vectors from one step of k to the next in workgroup memory: one spare against bank
    conflicts, for transposing threads write a column of it."""
    return extent // width + 1


def stage_bytes(c: GpuCandidate) -> int:
    """One tile of A and one of B in workgroup memory, with their padding."""
    rows, columns = tile_width(c.y0), tile_width(c.x0)
    elements = row_vectors(c.y1, rows) * rows + row_vectors(c.x1, columns) * columns
    return elements * c.r1 * ELEMENT_BYTES


def stages(c: GpuCandidate, k: int) -> int:
    """Tiles in workgroup memory at once: 2 unless memory or the reduction is too short."""
    return 1 if k <= c.r1 or 2 * stage_bytes(c) > TWO_STAGES_BYTES else 2


def workgroup_bytes(c: GpuCandidate, k: int) -> int:
    """Workgroup memory of the tiled template, in bytes."""
    return stages(c, k) * stage_bytes(c)


def thread_registers(c: GpuCandidate) -> int:
    """``Reg_thread`` of Table 1 with ``r0 = 1``, plus the elements fetched ahead.

    The steps of an unrolled reduction use their registers one after another.
    A thread holds its share of the next tiles while it multiplies.
    """
    ahead = -(-(c.x1 + c.y1) * c.r1 // c.threads)
    return c.x0 + c.y0 + c.x0 * c.y0 + ahead


def matvec_threads(c: GpuCandidate) -> int:
    """Threads of the matrix-vector template: columns by slices of the reduction."""
    return (c.x1 // c.x0) * (c.r1 // c.r0)
