"""The lite space of attention in one Wasm kernel.

The symbols (:class:`Candidate`) are those of the product with V: ``x0`` columns of a head and
``y0`` queries of a tile, ``r0`` keys of an unrolled step, ``r1`` keys of a block. ``y1`` = queries
whose scores stand in the workspace at once; ``x1`` = ``x0`` and order and packing have one value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.space.features import Features
from nnjit_studio.space.rules import Space, Usage
from nnjit_studio.space.wasm.heuristics import ELEMENT_BYTES, LANES, splits
from nnjit_studio.space.wasm.matmul import tile_features

ATTENTION = "attention"
MOST_ROWS = 12
"""Queries for which the workspace has room."""
_TILES = ((8, 6), (16, 3), (8, 4), (12, 4), (16, 2), (4, 12))
"""Columns and rows, the first choice in front: it leaves V8 on x64 the registers that it needs."""
_UNROLL = (2, 4)
_ROWS = (6, MOST_ROWS)
"""Queries of a block."""
_DEPTHS = (256, 512)
_LARGE_HEAD = 1 << 20
"""Bytes of a head's K and V that are no longer read from a cache: more queries share them."""


@dataclass(frozen=True)
class AttentionProblem:
    """Sizes of a head."""

    queries: int
    keys: int
    depth: int
    device: DeviceProfile


def attention_space(
    workload: Workload, device: DeviceProfile, packable: bool
) -> Space[Candidate, AttentionProblem]:
    """All pairs of a tile and a block, and blocks of keys for the first tiles.

    Raises
    ------
    UserError
        When the workload is no attention of several queries.
    """
    if workload.kind != ATTENTION or len(workload.dims) != 4:
        raise UserError(
            f"There is no lite space for the workload {workload.name}.",
            "Attention has the dims BxMxNxD: heads, queries, keys and the width of a head.",
        )
    problem = AttentionProblem(*workload.dims[1:], device)
    return Space(problem, RULES, (tile, block), _candidates, _usage, _varies)


def tile(c: Candidate, p: AttentionProblem) -> tuple[bool, str]:
    """Whole vectors of a head, and sums that about fill the registers."""
    used = vectors(c)
    fits = c.x0 % LANES == 0 and LANES <= c.x0 <= p.depth and c.y0 <= min(c.y1, p.queries)
    ok = fits and used <= p.device.vector_registers
    return (
        ok,
        f"{c.y0}x{c.x0} of a head of {p.depth}, {used} of {p.device.vector_registers} registers",
    )


def vectors(c: Candidate) -> int:
    """Registers of a tile: its sums, the shorter side, one vector of the other."""
    columns = c.x0 // LANES
    return c.y0 * columns + min(c.y0, columns) + 1


def block(c: Candidate, p: AttentionProblem) -> tuple[bool, str]:
    """Scores of a block have their place in the workspace."""
    kib = c.y1 * p.keys * ELEMENT_BYTES / 1024
    ok = c.y1 <= min(MOST_ROWS, p.queries) and c.r1 in _depths(p.keys)
    rows = f"{c.y1} of at most {MOST_ROWS} queries"
    return ok, f"{rows}, scores of {kib:.0f} KiB, {c.r1} keys at once"


def fixed(c: Candidate, p: AttentionProblem) -> tuple[bool, str]:
    """Settings that the template does not use have one value."""
    ok = c.r0 in _unrolled(p.keys) and (c.x1, c.order, c.pack) == (c.x0, "nm", False)
    return ok, f"{c.r0} keys a step, x1 {c.x1}, order nm, V as it is"


Rule = Callable[[Candidate, AttentionProblem], tuple[bool, str]]
RULES: tuple[Rule, ...] = (tile, block, fixed)


def _candidates(p: AttentionProblem) -> list[Candidate]:
    rows = dict.fromkeys(min(n, p.queries) for n in _ROWS)
    found = [
        Candidate(x0, min(y0, y1), r0, x0, y1, r1, "nm", False)
        for (x0, y0), r0, y1, r1 in product(_TILES, _unrolled(p.keys), rows, _depths(p.keys))
    ]
    accepted = dict.fromkeys(c for c in found if all(rule(c, p)[0] for rule in RULES))
    return sorted(
        (c for c in accepted if len(_varies(c, p)) <= 1), key=lambda c: len(_varies(c, p))
    )


def _unrolled(keys: int) -> tuple[int, ...]:
    return tuple(n for n in _UNROLL if n <= keys) or (1,)


def _depths(keys: int) -> tuple[int, ...]:
    return (keys, *(n for n in _DEPTHS if n < keys))


def _varies(c: Candidate, p: AttentionProblem) -> tuple[str, ...]:
    first = first_guess(p.queries, p.keys, p.depth)
    return tuple(name for name in ("r0", "y1", "r1") if getattr(c, name) != getattr(first, name))


def first_guess(queries: int, keys: int, depth: int) -> Candidate:
    """Settings for any device."""
    x0, y0 = next((x, y) for x, y in _TILES if depth % x == 0)
    y1 = min(_ROWS[2 * keys * depth * ELEMENT_BYTES > _LARGE_HEAD], queries)
    return Candidate(x0, min(y0, y1), _unrolled(keys)[0], x0, y1, keys, "nm", False)


def _usage(c: Candidate, p: AttentionProblem) -> Usage:
    return Usage(LANES * vectors(c), c.y1 * p.keys * ELEMENT_BYTES)


def attention_features(c: Candidate, workload: Workload, device: DeviceProfile) -> Features:
    """Of the tiles of the product with V."""
    _, queries, keys, depth = workload.dims
    of_tile = tile_features(c, (queries, depth), device)
    return of_tile._replace(
        blocks_of_k=math.log2(max(1, keys / c.r1)),
        over_l1=max(0.0, math.log2(c.y1 * keys * ELEMENT_BYTES / device.l1_bytes)),
        block_rows=math.log2(c.y1 / c.y0),
    )


def attention_naive_size(workload: Workload) -> int:
    """Size of the space before any reduction: both products, each cut three times."""
    return math.prod(splits(extent, 3) for extent in workload.dims[1:]) << 3
