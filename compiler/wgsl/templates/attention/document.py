"""Attention in WGSL: from the recognised program and a candidate to a kernel document."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.recognize.attention import Attention
from nnjit_studio.compiler.wgsl.core.document import Dispatch, KernelDocument
from nnjit_studio.compiler.wgsl.templates.attention.rounded import RoundedTiles
from nnjit_studio.compiler.wgsl.templates.attention.row import row_document
from nnjit_studio.compiler.wgsl.templates.attention.tiles import Tiles, tiles_document
from nnjit_studio.compiler.wgsl.templates.matmul import MOST_BINDINGS, check_threads
from nnjit_studio.errors import CompileError
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import DEFAULT_LIMITS
from nnjit_studio.space.webgpu.attention import (
    FEW_QUERIES,
    QUAD,
    SHARES,
    AttentionRow,
    AttentionTile,
    untuned_attention,
)

_LARGEST_GRID = DEFAULT_LIMITS["maxComputeWorkgroupsPerDimension"]
_SHARED = DEFAULT_LIMITS["maxComputeWorkgroupStorageSize"]
MOST_PARTS = 8
"""Of the keys of one query: on an H200 16 parts of 520 keys took longer to join than they saved."""
_GROUPS = 256
"""Workgroups from which on a large GPU needs no more parts."""
MOST_ON_THEIR_WAY = 4
"""Keys of a thread of one query: on an H200 eight of 1,024 keys of 128 took 1.1 (f16) to 1.4 (f32)
times as long, with half as many threads."""


def attention_document(
    program: Program, a: Attention, candidate: GpuCandidate, tier: str
) -> KernelDocument:
    """The document of attention of float32.

    Raises
    ------
    CompileError
        When the candidate does not fit.
    """
    by_row = candidate.y1 == 1
    (_check_row if by_row else _check_tile)(a, candidate)
    if by_row:
        document = row_document(program, a, candidate)
    else:
        document = tiles_document(program, a, candidate, RoundedTiles if a.weight else Tiles)
    for dispatch in document.dispatches:
        _check_dispatch(dispatch)
    return document


def guess(a: Attention) -> GpuCandidate:
    """Settings for attention that nobody tuned, good for any device."""
    by_row = a.queries <= FEW_QUERIES and a.weight is None
    made = untuned_attention(a.dims, by_row)
    if a.weight is not None:
        return replace(made, split=1)
    if not by_row:
        return made
    most = min(MOST_PARTS, a.keys // made.x1, _GROUPS // (a.batch * a.queries))
    parts = 1 << max(0, most.bit_length() - 1)
    keys = sorted({min(made.x0, MOST_ON_THEIR_WAY), made.x0})
    ways = (replace(made, split=parts << more, x0=x0) for more in count() for x0 in keys)
    return next(way for way in ways if _fits(a, way))


def _fits(a: Attention, c: GpuCandidate) -> bool:
    return AttentionRow(a.depth, a.keys, c).shared_bytes <= _SHARED


def _check_tile(a: Attention, c: GpuCandidate) -> None:
    tile = AttentionTile(a.depth, c)
    if a.weight is not None and c.split > 1:
        raise CompileError("Rounded weights need the sum of a whole row.", "Choose split=1.")
    if c.x0 % QUAD or c.y0 not in (1, 2, 4, 8) or tile.quads % tile.across:
        raise CompileError(
            f"Heads of {a.depth} are not made by tiles of {c}.",
            "x0 is a multiple of 4, y0 1, 2, 4 or 8; x1 / x0 divides a quarter of the head.",
        )
    check_threads(c, c.threads)


def _check_row(a: Attention, c: GpuCandidate) -> None:
    row = AttentionRow(a.depth, a.keys, c)
    if a.weight is not None:
        raise CompileError("Rounded weights are made by tiles.", "Choose y1 above 1.")
    if c.y0 != 1 or c.x0 > row.side or row.threads % SHARES or not row.whole:
        raise CompileError(
            f"One query of heads of {a.depth} is not made by {c}.",
            f"y0 and y1 are 1, x0 divides the head and is at most {row.side}, x1 is a multiple of "
            f"x0 and of 4, and {SHARES} divides the threads, {row.side} * x1 / x0.",
        )
    check_threads(c, row.threads)


def _check_dispatch(dispatch: Dispatch) -> None:
    if len(dispatch.bindings) > MOST_BINDINGS or max(dispatch.workgroups) > _LARGEST_GRID:
        raise CompileError(
            f"Attention would need {len(dispatch.bindings)} buffers at once and "
            f"{'x'.join(map(str, dispatch.workgroups))} workgroups.",
            "Devices need not have more than 8 buffers and 65535 workgroups.",
        )
