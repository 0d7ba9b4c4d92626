"""The matmul template: register tiles, driven by a candidate (NNJIT paper, section 5).

Loops, outermost first, for order ``nm`` (``mn`` swaps the two sides):
batch and blocks of panels (parallel), blocks of the reduction, blocks of row
tiles, panels, row tiles, then the tile: the reduction unrolled by r0 around
y0 x (x0 / 4) accumulators. Remainders of m and n are tiles of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nnjit_studio.compiler.ir.affine import LANES, Affine
from nnjit_studio.compiler.ir.loops import (
    BEGIN,
    END,
    Add,
    AssignVector,
    Element,
    For,
    Let,
    MultiplyAdd,
    Scheduled,
    Statement,
    When,
)
from nnjit_studio.compiler.ir.rewrite import int32, plus, times
from nnjit_studio.compiler.ir.tensor_ir import Binary, Expr, Program, Var
from nnjit_studio.compiler.recognize.contraction import Contraction, nonzero, terms
from nnjit_studio.compiler.schedule.epilogue import COLUMN, ROW, Epilogue, acc, plan_epilogue
from nnjit_studio.errors import CompileError
from nnjit_studio.records.candidate import ORDERS, Candidate

MAX_TILE_OPERATIONS = 400
"""SIMD operations of one unrolled step; beyond that, optimising compilers become slow."""

BUSY_ACCUMULATORS = 8
"""Independent sums that keep two multiply-add units busy at a latency of four cycles."""

WIDEST_PANEL = 16
"""The engine keeps room for panels of this width (docs/protocol.md, memory of the engine)."""

_GUESSED_COLUMNS, _GUESSED_ROWS = 8, 6
"""Twelve accumulators: they fit sixteen vector registers."""
GUESSED_UNROLL = 4
_PAGE = 1024  # of memory, in f32
_FEW_ROWS = 2  # whose sums of sixteen columns fit sixteen vector registers
PARTS = 24
"""Parallel steps, about, where each has a workspace: enough for any number of threads."""

PANEL, TILE, PANELS, TILES, K, K_BLOCK = "$panel", "$tile", "$panels", "$tiles", "$k", "$kblock"


@dataclass(frozen=True)
class Plan:
    """Sizes that follow from a contraction and a candidate; ``tile`` makes one tile."""

    c: Contraction
    epilogue: Epilogue
    columns: int  # of a tile
    rows: int
    unroll: int
    depth: int  # of a reduction block, K if it is not blocked
    pack: bool
    tile: Callable[[Plan, int, int], list[Statement]]
    panel: str = PANEL  # what counts the panels in B's buffer
    begins: tuple[str, ...] = ()  # variables: where rows of A begin whose stride is a parameter

    @property
    def blocked(self) -> bool:
        return self.depth < self.c.k

    @property
    def places(self) -> int:
        """Parts of the reduction that the first of open rows read at once, in pages of their own: a
        processor reads ahead in each (a busy Xeon: 1.7 times as fast at six rows, 1.3 at 12)."""
        open_rows = self.c.open and self.c.m > 1 and self.pack and self.panel == PANEL
        whole = open_rows and self.c.b.dtype == "f32"
        return min(GUESSED_UNROLL, self.columns * self.c.k // _PAGE) if whole else 0

    def together(self, rows: int) -> int:
        """Panels that a tile reads side by side where a run has no other rows: fewer loads of A (a
        busy Xeon: 0.95 times as long for one row, 0.90 for two from K = 256 on; 1.1 at K = 64)."""
        if self.places < 2 or self.blocked or rows > _FEW_ROWS or rows == self.rows:
            return 1
        count = min(WIDEST_PANEL // self.columns, max(1, self.c.n // self.columns))
        vectors = rows * count * self.columns // LANES
        return count if self.epilogue.raw or self.epilogue.inline(vectors) else 1


def schedule_matmul(program: Program, contraction: Contraction, candidate: Candidate) -> Scheduled:
    """The loops of one candidate.

    Raises
    ------
    CompileError
        When the candidate does not fit this contraction or is too large.
    """
    return over_tiles(program, plan_of(program, contraction, candidate), candidate)


def guess_matmul(c: Contraction) -> Candidate:
    """One good tile, whatever the device.

    Tuning finds settings that are tens of percent faster on a given device; the default schedule of
    a sum of products is five to ten times slower.
    """
    rows, columns = min(c.m, _GUESSED_ROWS), guessed_panel(c)
    unroll = min(c.k, GUESSED_UNROLL)
    return Candidate(columns, rows, unroll, columns, rows, c.k, "nm", c.packable)


def guessed_panel(c: Contraction) -> int:
    """Columns of a tile; a row vector reads B once: wide panels are long runs of it."""
    columns = min(WIDEST_PANEL if c.m == 1 else _GUESSED_COLUMNS, -(-c.n // LANES) * LANES)
    return LANES if WIDEST_PANEL % columns else columns


def over_tiles(program: Program, plan: Plan, candidate: Candidate) -> Scheduled:
    """The loops around the tiles, in the candidate's order and blocks."""
    c = plan.c
    outer, body = in_blocks(plan, candidate)
    extent = outer.blocks
    body = [Let(outer.block, _modulo(Var("$p"), outer.blocks, bool(c.batch)), body)]
    for axis in reversed(c.batch):
        position = Var("$p") // extent if extent > 1 else Var("$p")
        extent *= axis.extent
        body = [Let(axis.var, _modulo(position, axis.extent, axis is not c.batch[0]), body)]
    body = [For("$p", Var(BEGIN), Var(END), 1, body)]
    names = [b.name for b in program.buffers]
    chosen = ((names.index(c.b.buffer), plan.columns),) if plan.pack else ()
    return Scheduled(body, extent, chosen)


def in_blocks(plan: Plan, candidate: Candidate) -> tuple[_Side, list[Statement]]:
    """The outer side, and the loops over the tiles of one of its blocks."""
    c = plan.c
    panels, tiles = -(-c.n // plan.columns), -(-c.m // plan.rows)
    panels_in_block = min(panels, max(1, -(-candidate.x1 // plan.columns)))
    tiles_in_block = min(tiles, max(1, -(-candidate.y1 // plan.rows)))
    n_side = _Side(PANELS, PANEL, panels, panels_in_block)
    m_side = _Side(TILES, TILE, tiles, tiles_in_block)
    outer, inner = (n_side, m_side) if candidate.order == "nm" else (m_side, n_side)

    body = inner.within(tile_here(plan))
    body = outer.within(body)
    body = [For(inner.block, int32(0), int32(inner.blocks), 1, body)]
    if plan.blocked:
        body = [For(K_BLOCK, int32(0), int32(-(-c.k // plan.depth)), 1, body)]
    return outer, body


def _modulo(value: Expr, extent: int, wraps: bool) -> Expr:
    return value % extent if wraps else value


@dataclass(frozen=True)
class _Side:
    """One of the two outer dimensions in units of tiles, cut into blocks of tiles."""

    block: str
    var: str
    count: int
    in_block: int

    @property
    def blocks(self) -> int:
        return -(-self.count // self.in_block)

    def within(self, body: list[Statement]) -> list[Statement]:
        """The loop over the tiles of one block."""
        begin = times(Var(self.block), self.in_block)
        if self.in_block == 1:
            return [Let(self.var, begin, body)]
        end: Expr = plus(begin, self.in_block)
        if self.count % self.in_block:
            end = Binary("min", end, int32(self.count))
        if self.blocks == 1:
            begin, end = int32(0), int32(self.count)
        return [For(self.var, begin, end, 1, body)]


def check_tile(candidate: Candidate, operations: int) -> None:
    """Refuse an unknown order, and a body that engines compile badly.

    Raises
    ------
    CompileError
        When there are too many SIMD operations.
    """
    if candidate.order not in ORDERS:
        raise CompileError(f"order={candidate.order} is unknown.", "Use nm or mn.")
    if operations > MAX_TILE_OPERATIONS:
        raise CompileError(
            f"The tile {candidate.y0}x{candidate.x0} with r0={candidate.r0} is {operations} "
            "SIMD operations.",
            f"Stay at or below {MAX_TILE_OPERATIONS}.",
        )


def plan_of(program: Program, c: Contraction, candidate: Candidate) -> Plan:
    """Sizes of a candidate.

    Raises
    ------
    CompileError
        When it does not fit this contraction or is too large.
    """
    columns, rows = candidate.x0, candidate.y0
    unroll = min(candidate.r0, c.k)
    vectors = columns // LANES
    if columns % LANES or columns < LANES:
        raise CompileError(
            f"x0={columns} is not a multiple of {LANES}.", "Vectors hold four columns."
        )
    check_tile(candidate, unroll * (vectors + rows + vectors * rows))
    if candidate.pack and not c.packable:
        raise CompileError("B is not a packable weight.", "Choose pack=0.")
    if candidate.pack and -(-c.n // columns) * columns > -(-c.n // WIDEST_PANEL) * WIDEST_PANEL:
        raise CompileError(
            f"Panels of {columns} columns need more room than the weight of {c.n} columns has.",
            f"Choose an x0 that divides {WIDEST_PANEL}, or pack=0.",
        )
    if candidate.pack and c.batch and c.n % columns:
        raise CompileError(
            f"Panels of {columns} columns run across the {c.n} columns of a batch.",
            f"Choose an x0 that divides {c.n}, or pack=0.",
        )
    if not candidate.pack and c.b.column != 1:
        raise CompileError(
            f"The columns of B stand {c.b.column} elements apart.",
            "Only pack=1 or the default schedule can read it.",
        )
    depth = -(-candidate.r1 // unroll) * unroll
    epilogue = plan_epilogue(program, c)
    plan = Plan(c, epilogue, columns, rows, unroll, min(depth, c.k), candidate.pack, float_tile)
    if plan.blocked and plan.epilogue.step != 1:
        raise CompileError(
            "Partial sums need a float32 output that the epilogue does not read and that is "
            "contiguous along n.",
            "Choose r1 >= K.",
        )
    return plan


def tile_here(plan: Plan) -> list[Statement]:
    """The tile at PANEL and TILE, whichever of the at most four sizes it has."""
    c = plan.c
    row_tiles, row_rest = divmod(c.m, plan.rows)
    panels, column_rest = divmod(c.n, plan.columns)

    def by_rows(columns: int) -> list[Statement]:
        full = plan.tile(plan, plan.rows, columns) if row_tiles else []
        rest = plan.tile(plan, row_rest, columns) if row_rest else []
        return _when_before(TILE, row_tiles, full, rest)

    full = by_rows(plan.columns) if panels else []
    rest = by_rows(column_rest) if column_rest else []
    body = _when_before(PANEL, panels, full, rest)
    body = [Let(COLUMN, times(Var(PANEL), plan.columns), body)]
    return [Let(ROW, times(Var(TILE), plan.rows), body)]


def _when_before(
    var: str, count: int, full: list[Statement], rest: list[Statement]
) -> list[Statement]:
    if not full or not rest:
        return full or rest
    return [When(Binary("lt", Var(var), int32(count)), full, rest)]


def float_tile(plan: Plan, rows: int, columns: int) -> list[Statement]:
    """One tile; of a run of few rows together with those beside it, which then have none."""
    alone, count = _tile(plan, rows, columns), plan.together(rows)
    if count < 2 or columns < plan.columns:
        return alone
    first = Binary("eq", Var(PANEL) % count, int32(0))
    several: Statement = When(first, _tile(plan, rows, count * columns), [])
    panels = plan.c.n // columns
    if panels % count:
        before = Binary("lt", Var(PANEL), int32(panels // count * count))
        several = When(before, [several], alone)
    return [When(Binary("eq", Var(TILE), int32(0)), [several], alone)]


def _tile(plan: Plan, rows: int, columns: int) -> list[Statement]:
    """Start, reduce, finish."""
    epilogue = plan.epilogue
    widths = [min(LANES, columns - j) for j in range(0, columns, LANES)]
    grid = [(i, j) for i in range(rows) for j in range(len(widths))]
    streams = _streams(plan, len(grid))
    others: list[Statement] = [
        AssignVector(acc(i, j, s), None) for s in range(1, streams) for i, j in grid
    ]
    zero: list[Statement] = [AssignVector(acc(i, j), None) for i, j in grid]
    start = zero
    if plan.blocked:
        assert epilogue.raw is not None
        buffer = epilogue.raw.buffer
        again: list[Statement] = [
            AssignVector(acc(i, j), Element(buffer, epilogue.raw_index(i, LANES * j), widths[j]))
            for i, j in grid
        ]
        start = [When(Binary("eq", Var(K_BLOCK), int32(0)), zero, again)]
    gather: list[Statement] = [
        AssignVector(acc(i, j), Add(acc(i, j), acc(i, j, s)))
        for s in range(1, streams)
        for i, j in grid
    ]
    return [
        *start,
        *others,
        *_reduce(plan, rows, widths, streams),
        *gather,
        *finish(plan, rows, columns),
    ]


def finish(plan: Plan, rows: int, columns: int) -> list[Statement]:
    """The statements that turn a tile's accumulators into results."""
    widths = [min(LANES, columns - j) for j in range(0, columns, LANES)]
    at = Binary("eq", Var(K_BLOCK), int32(-(-plan.c.k // plan.depth) - 1))
    return plan.epilogue.finish(rows, widths, at if plan.blocked else None)


def _streams(plan: Plan, accumulators: int) -> int:
    """Interleaved sums over k of a tile too small to hide the latency of its multiply-adds."""
    return max(1, min(plan.unroll, BUSY_ACCUMULATORS // accumulators))


def _reduce(plan: Plan, rows: int, widths: list[int], streams: int) -> list[Statement]:
    """The reduction of one block: unrolled by r0, then the remainder one by one."""
    k = plan.c.k
    if not plan.blocked:
        # A row vector waits for memory: read at several places 1.2 times as fast, 1.8 in halves.
        distance = k // plan.unroll if plan.c.m == 1 and plan.pack else 1
        near = _turns(plan, rows, widths, streams, (plan.unroll, distance))
        if plan.places < 2:
            return near
        far = _turns(plan, rows, widths, streams, (plan.places, k // plan.places))
        # Later tiles find the panel in a cache, from which many rows of A at many places drive it.
        return [When(Binary("eq", Var(TILE), int32(0)), far, near)] if rows == plan.rows else far
    whole = k // plan.unroll * plan.unroll
    main, rest = (_steps(plan, rows, widths, count, streams) for count in (plan.unroll, 1))
    begin = times(Var(K_BLOCK), plan.depth)
    end = Binary("min", plus(begin, plan.depth), int32(whole))
    loops: list[Statement] = [For(K, begin, end, plan.unroll, main)]
    if whole < k:
        last = Binary("eq", Var(K_BLOCK), int32(-(-k // plan.depth) - 1))
        loops.append(When(last, [For(K, int32(whole), int32(k), 1, rest)], []))
    return loops


def _turns(
    plan: Plan, rows: int, widths: list[int], streams: int, turn: tuple[int, int]
) -> list[Statement]:
    """A whole reduction; a turn is so many steps, so far apart."""
    (count, distance), k = turn, plan.c.k
    whole = k // count * count
    main = _steps(plan, rows, widths, count, streams, distance)
    end, step = (distance, 1) if distance > 1 else (whole, count)
    loops: list[Statement] = [For(K, int32(0), int32(end), step, main)]
    rest = _steps(plan, rows, widths, 1, streams)
    return [*loops, For(K, int32(whole), int32(k), 1, rest)] if whole < k else loops


def _steps(
    plan: Plan, rows: int, widths: list[int], count: int, streams: int, distance: int = 1
) -> list[Statement]:
    """``count`` steps of the reduction, ``distance`` apart."""
    c = plan.c
    a_terms = terms(c, c.a, ((TILE, plan.rows * c.a.row), (K, c.a.column)))
    if plan.pack:
        # A batch that is a range of columns begins with a panel of its own.
        batch = ((a.var, step * c.k) for a, step in zip(c.batch, c.b.batch, strict=True))
        b_terms = nonzero((*batch, (plan.panel, plan.columns * c.k), (K, plan.columns)))
        b_step, b_offset = plan.columns, 0
        widths = [LANES] * len(widths)  # panels are padded with zeros
    else:
        b_terms = terms(c, c.b, ((PANEL, plan.columns), (K, c.b.row)))
        b_step, b_offset = c.b.row, c.b.offset
    body: list[Statement] = []
    for step in range(count):
        for j, width in enumerate(widths):
            panel, column = divmod(LANES * j, plan.columns)  # the next panel is K rows on
            column += panel * plan.columns * c.k
            index = Affine(b_terms, b_offset + step * distance * b_step + column)
            body.append(AssignVector(f"B{j}", Element(c.b.buffer, index, width)))
        for i in range(rows):
            row = 0 if plan.begins else i * c.a.row
            a_offset = c.a.offset + row + step * distance * c.a.column
            index = Affine((*a_terms, *((var, 1) for var in plan.begins[i : i + 1])), a_offset)
            body.append(AssignVector("a", Element(c.a.buffer, index, 0)))
            for j in range(len(widths)):
                name = acc(i, j, step % streams)
                body.append(AssignVector(name, MultiplyAdd("a", f"B{j}", name)))
    return body
