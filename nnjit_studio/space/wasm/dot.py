"""The lite space of a matmul whose B lies along the reduction: Table 1 on tiles of dot products.

Dims are those of a matmul, and so are the symbols of :class:`Candidate`: x =
columns, y = rows, r = reduction. Each output of the tile ``y0`` x ``x0`` has a
vector register of its own, so columns need not come in fours. ``r0``: vectors
of the reduction in one step. ``x1``, ``y1``: columns and rows of a block whose
rows stay in L1. ``r1`` = K, ``pack`` = 0: sums are finished at once, and B is
read where it lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.candidate import ORDERS, Candidate
from nnjit_studio.space.features import Features
from nnjit_studio.space.rules import Space, Usage
from nnjit_studio.space.wasm.heuristics import (
    BASE_ORDER,
    ELEMENT_BYTES,
    LANES,
    MAX_SIMD_OPS,
    MIN_TILES,
    R0_CHOICES,
    REGISTER_LOW_STEPS,
    REGISTER_RANGE,
    VARIED_TILES,
    WIDE_REGISTER_RANGE,
    WIDE_Y0_CHOICES,
    intensity,
)
from nnjit_studio.space.wasm.matmul import tile_features

DOT_KINDS = {"matmul": "matmul_dot", "batch_matmul": "batch_matmul_dot"}
"""Kinds whose B lies along the reduction, by the kind of the same product with usual strides."""
_RANKS = {DOT_KINDS["matmul"]: 3, DOT_KINDS["batch_matmul"]: 4}

X0_CHOICES = (2, 3, 4, 5, 6, 8, 12)
"""Columns of a tile; one alone would store its results element by element."""
Y0_CHOICES = (1, 2, 3, 4, 5, 6, 8)
BASE_R0 = 4
BLOCK_PANELS = 8
"""Panels of a block: its rows come from L2 once for so many uses."""
L1_ROWS_SHARE = 0.5
"""Share of L1 that a block's rows may take; the columns of one tile have the rest."""
PARTIAL_COST = 0.5
"""What a tile's intensity loses where an epilogue works on columns that fill no whole vector.

Measured on this project, V8 of Node.js 24, one thread, a machine with other work, 2026-11-21:
with a bias 2x4 is 8 to 20 % faster than 2x6 and a third faster than 3x3; without an epilogue
2x6 is the fastest of all tiles, 4 to 30 % faster than 2x4.
"""


@dataclass(frozen=True)
class DotProblem:
    """The workload and device that the rules look at; extents in elements of one matmul.

    ``plain``: there is no epilogue. ``register_low`` is the lower end of Heuristic 4 in
    force, a share of all registers; ``tiles`` are ``(x0, y0)`` of the space, best first.
    """

    m: int
    k: int
    n: int
    plain: bool
    device: DeviceProfile
    register_low: float = REGISTER_RANGE[0]
    tiles: tuple[tuple[int, int], ...] = ()

    @property
    def base_r0(self) -> int:
        """The unroll that every tile is tried with first."""
        return max(r for r in R0_CHOICES if r <= min(BASE_R0, max(1, self.k // LANES)))

    def blocks(self, x0: int, y0: int) -> tuple[tuple[int, int], ...]:
        """``(x1, y1)`` worth trying: the tile, and if A outgrows L1 a block whose rows do not."""
        limit = self.device.l1_bytes * L1_ROWS_SHARE
        tiles = int(limit / (y0 * self.k * ELEMENT_BYTES))
        rows = y0 * (1 << tiles.bit_length() - 1) if tiles > 1 else y0
        columns = x0 * BLOCK_PANELS
        fits = y0 < rows < self.m and columns < self.n
        return ((x0, y0), (columns, rows)) if fits else ((x0, y0),)


def dot_space(
    workload: Workload, device: DeviceProfile, packable: bool
) -> Space[Candidate, DotProblem]:
    """First choices of every tile, then the variations, one at a time.

    Raises
    ------
    UserError
        When the workload is none of :data:`DOT_KINDS`, or not float32.
    """
    told = (registers, l1_cache, one_at_a_time)
    problem = dot_problem(workload, device)
    return Space(problem, RULES, told, dot_candidates, _usage, variations, _wider)


def dot_problem(workload: Workload, device: DeviceProfile) -> DotProblem:
    """Extents, and the tiles left by the rules on tiles, best first.

    The lower end of Heuristic 4 is relaxed step by step until a small problem
    has :data:`MIN_TILES` tiles.

    Raises
    ------
    UserError
        When the workload is none of :data:`DOT_KINDS`, or not float32.
    """
    if len(workload.dims) != _RANKS.get(workload.kind) or workload.dtype != "f32":
        raise UserError(
            f"There is no lite space for the workload {workload.name}.",
            "Write it as matmul_dot:MxKxN:f32 or batch_matmul_dot:BxMxKxN:f32.",
        )
    m, k, n = workload.dims[-3:]
    problem = DotProblem(m, k, n, not workload.epilogue, device)
    for low in REGISTER_LOW_STEPS:
        problem = replace(problem, register_low=low)
        tiles = [t for t in product(X0_CHOICES, Y0_CHOICES) if _tile_fits(t, problem)]
        if len(tiles) >= MIN_TILES:
            break
    return replace(problem, tiles=tuple(sorted(tiles, key=lambda t: _tile_rank(t, problem))))


def vectors(x0: int, y0: int) -> int:
    """Registers of a tile: its sums, the shorter side, one vector of the other."""
    return x0 * y0 + min(x0, y0) + 1


def block_bytes(c: Candidate, k: int) -> int:
    """Rows of a block and columns of one tile, over all of K, in bytes."""
    return (c.y1 + c.x0) * k * ELEMENT_BYTES


def partial(x0: int) -> float:
    """Share of a tile's columns that fill no whole vector of results."""
    return x0 % LANES / x0


def _tile_rank(tile: tuple[int, int], problem: DotProblem) -> tuple[float, ...]:
    """Tiles that spill where an engine keeps one register for itself last; then intensity."""
    spills = vectors(*tile) >= problem.device.vector_registers
    lost = 0.0 if problem.plain else PARTIAL_COST * partial(tile[0])
    return (spills, -intensity(*tile) * (1 - lost), -tile[0], tile[1])


def _tile_fits(tile: tuple[int, int], problem: DotProblem) -> bool:
    x0, y0 = tile
    probe = Candidate(x0, y0, problem.base_r0, x0, y0, problem.k, pack=False)
    return all(rule(probe, problem)[0] for rule in TILE_RULES)


Rule = Callable[[Candidate, DotProblem], tuple[bool, str]]


def choices(c: Candidate, p: DotProblem) -> tuple[bool, str]:
    """Heuristic 2, for r0 alone: rows and columns of a tile are not vectorised."""
    given = ((c.x0, X0_CHOICES), (c.y0, Y0_CHOICES), (c.r0, R0_CHOICES))
    texts = (
        f"{name} {value} of {', '.join(map(str, known))}"
        for name, (value, known) in zip(("x0", "y0", "r0"), given, strict=True)
    )
    return all(value in known for value, known in given), "; ".join(texts)


def problem_size(c: Candidate, p: DotProblem) -> tuple[bool, str]:
    """A tile larger than the problem is never run."""
    ok = c.x0 <= p.n and c.y0 <= p.m and c.r0 <= max(1, p.k // LANES)
    return ok, f"tile {c.y0}x{c.x0} in {p.m}x{p.n}, r0 {c.r0} of {p.k // LANES} vectors of K"


def registers(c: Candidate, p: DotProblem) -> tuple[bool, str]:
    """Heuristic 4, relaxed, in vectors: the tile about fills the registers."""
    total, used = p.device.vector_registers, vectors(c.x0, c.y0)
    low, high = p.register_low * total, REGISTER_RANGE[1] * total
    relaxed = ", the lower end relaxed for want of tiles" if low < REGISTER_RANGE[0] * total else ""
    return low <= used <= high, (
        f"{used} of {total} vector registers ({c.y0}*{c.x0} sums + {min(c.x0, c.y0)} + 1 "
        f"operands), accepted {math.ceil(low)}..{math.floor(high)}{relaxed}"
    )


def function_size(c: Candidate, p: DotProblem) -> tuple[bool, str]:
    """One kernel stays one small function."""
    ops = c.y0 * c.x0 * c.r0
    return ops <= MAX_SIMD_OPS, (
        f"{ops} of at most {MAX_SIMD_OPS} SIMD multiply-adds ({c.y0}*{c.x0}*{c.r0})"
    )


def fixed(c: Candidate, p: DotProblem) -> tuple[bool, str]:
    """Settings that the template does not use have one value."""
    return (c.r1, c.pack) == (p.k, False), f"r1 {c.r1} is all of K {p.k}, B as it is"


def loop_order(c: Candidate, p: DotProblem) -> tuple[bool, str]:
    """Both orders are one when a single row or column of tiles covers the problem."""
    rows, columns = math.ceil(p.m / c.y0), math.ceil(p.n / c.x0)
    ok = c.order == BASE_ORDER or (c.order in ORDERS and rows > 1 and columns > 1)
    return ok, f"order {c.order} over {rows}x{columns} tiles"


def l1_cache(c: Candidate, p: DotProblem) -> tuple[bool, str]:
    """Heuristic 3: a tile streams its rows; those of a larger block stay in L1."""
    rows, limit = c.y1 * p.k * ELEMENT_BYTES, p.device.l1_bytes * L1_ROWS_SHARE
    return (c.x1, c.y1) in p.blocks(c.x0, c.y0), (
        f"block {c.y1}x{c.x1}: {rows / 1024:.1f} KiB of rows, {L1_ROWS_SHARE:g} of L1 is "
        f"{limit / 1024:.1f} KiB"
    )


def one_at_a_time(c: Candidate, p: DotProblem) -> tuple[bool, str]:
    """At most one of r0, x1 and order leaves its first choice, r0 and x1 for the best tiles."""
    changed = variations(c, p)
    if len(changed) > 1:
        return False, f"{' and '.join(changed)} leave their first choice at once"
    if changed and changed != ("order",) and (c.x0, c.y0) not in p.tiles[:VARIED_TILES]:
        return False, f"{changed[0]} is varied for the {VARIED_TILES} best tiles only"
    return True, f"varies {changed[0]}" if changed else "first choice of r0, x1 and order"


def variations(c: Candidate, p: DotProblem) -> tuple[str, ...]:
    """Settings in which a candidate leaves the first choice for its tile."""
    first = {"r0": p.base_r0, "x1": c.x0, "order": BASE_ORDER}
    return tuple(name for name, value in first.items() if getattr(c, name) != value)


TILE_RULES: tuple[Rule, ...] = (choices, problem_size, registers, function_size)
RULES: tuple[Rule, ...] = (*TILE_RULES, fixed, loop_order, l1_cache, one_at_a_time)


def dot_candidates(problem: DotProblem) -> list[Candidate]:
    """All that every rule accepts: first choices of every tile, then the variations."""
    found = [
        Candidate(x0, y0, r0, x1, y1, problem.k, order, False)
        for x0, y0 in problem.tiles
        for r0 in R0_CHOICES
        for x1, y1 in problem.blocks(x0, y0)
        for order in ORDERS
    ]
    accepted = [c for c in found if all(rule(c, problem)[0] for rule in RULES)]
    return sorted(accepted, key=lambda c: _rank(c, problem))


def _rank(c: Candidate, p: DotProblem) -> tuple[object, ...]:
    changed = variations(c, p)
    return (changed != (), _tile_rank((c.x0, c.y0), p), changed, c)


def _usage(c: Candidate, p: DotProblem) -> Usage:
    return Usage(LANES * vectors(c.x0, c.y0), block_bytes(c, p.k))


def _wider(p: DotProblem) -> Iterator[Candidate]:
    """Any columns up to eight, any rows."""
    low, high = (share * p.device.vector_registers for share in WIDE_REGISTER_RANGE)
    low = min(low, p.register_low * low)
    for x0, y0 in product((*range(1, 9), 12, 16), WIDE_Y0_CHOICES):
        if not low <= vectors(x0, y0) <= high:
            continue
        for r0, (x1, y1), order in product(R0_CHOICES, p.blocks(x0, y0), ORDERS):
            c = Candidate(x0, y0, r0, x1, y1, p.k, order, False)
            if all(rule(c, p)[0] for rule in (problem_size, function_size)):
                yield c


def dot_family(workload: Workload) -> str:
    return "dot"


def dot_features(c: Candidate, workload: Workload, device: DeviceProfile) -> Features:
    """Each sum is a vector, ``r0`` counts vectors."""
    m, k, n = workload.dims[-3:]
    blocked = c.y1 > c.y0
    streamed = 0 if blocked else (m if c.order == "nm" else n) * k * ELEMENT_BYTES
    return tile_features(c, (m, n), device)._replace(
        few_sums=max(0.0, 1 - c.x0 * c.y0 / 8),
        spilled=max(0.0, (vectors(c.x0, c.y0) + 1) / device.vector_registers - 1),
        over_l1=max(0.0, math.log2(block_bytes(c, k) / device.l1_bytes)),
        streamed=max(0.0, math.log2(max(1, 2 * streamed) / device.l2_bytes)),
        narrow_rows=partial(c.x0) if workload.epilogue else 0.0,
        block_rows=float(blocked),
    )
