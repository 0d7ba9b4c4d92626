"""Attention in WGSL: from the recognised program and a candidate to a kernel document."""

from __future__ import annotations

from collections.abc import Iterator
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
from nnjit_studio.space.webgpu.usage import MAX_THREADS

_LARGEST_GRID = DEFAULT_LIMITS["maxComputeWorkgroupsPerDimension"]
_SHARED = DEFAULT_LIMITS["maxComputeWorkgroupStorageSize"]
MOST_PARTS = 8
"""Of the keys of one query: on an H200 16 parts of 520 keys took longer to join than they saved."""
_GROUPS = 256
"""Workgroups from which on a large GPU needs no more parts."""
_LONE_STEPS = 3
"""Steps of a workgroup up to which a query is not worth a second dispatch that joins parts."""
_ON_THEIR_WAY = (16, 8, 4, 2)
"""Keys of a thread. On an H200 16 of 256 threads are within 12 % of the best such kernel for 1 to 8
queries of heads of 64 and 128 over 264 to 4,104 keys that lie side by side in f16."""


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
    if a.weight is None and a.queries <= FEW_QUERIES:
        return next(_by_row(a))
    made = untuned_attention(a.dims)
    return made if a.weight is None else replace(made, split=1)


def _by_row(a: Attention) -> Iterator[GpuCandidate]:
    """Settings of a query that fit any device, the fastest expected first."""
    rows = _lower_power(MAX_THREADS // (a.depth // QUAD))
    most = max(1, min(MOST_PARTS, _GROUPS // (a.batch * a.queries)))
    for more in count():
        for x0 in _ON_THEIR_WAY:
            c = GpuCandidate(x0, 1, 1, x0 * rows, 1, 1)
            steps = AttentionRow(a.depth, a.keys, c).steps
            parts = 1 if steps <= _LONE_STEPS else -(-steps // -(-steps // most))
            row = AttentionRow(a.depth, a.keys, replace(c, split=parts << more), _beside(a))
            short = c.x1 < 2 * a.keys or x0 == _ON_THEIR_WAY[-1]
            if short and _is_row(row) and row.shared_bytes <= _SHARED:
                yield row.c


def _lower_power(number: int) -> int:
    """The largest power of two that is not above a number."""
    return 1 << number.bit_length() - 1


def _beside(a: Attention) -> bool:
    """Whether keys lie side by side."""
    return a.scores.b.row != 1


def _is_row(row: AttentionRow) -> bool:
    return row.c.x0 <= row.side and row.threads % SHARES == 0 and row.whole


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
    if c.y0 != 1 or not _is_row(row):
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
