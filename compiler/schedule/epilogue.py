"""The epilogue of a matmul: on the accumulators, or in a second sweep over the tile.

A short epilogue runs on the accumulators before they are stored. A long one
(an error function for each of 12 accumulators would be hundreds of operations)
runs as a loop over the tile just stored, which is still in L1; so do tiles
whose last vector is not full, and sums that several reduction blocks add to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnjit_studio.compiler.ir.affine import LANES, Affine, affine, loads, stride, walk
from nnjit_studio.compiler.ir.lanes import Lanes
from nnjit_studio.compiler.ir.loops import For, Put, Statement, StoreVector, When
from nnjit_studio.compiler.ir.rewrite import plus, substitute, substitute_store
from nnjit_studio.compiler.ir.tensor_ir import (
    POLYNOMIALS,
    Binary,
    Call,
    Expr,
    Load,
    Program,
    Select,
    Store,
    Var,
)
from nnjit_studio.compiler.recognize.contraction import ACCUMULATOR, Contraction
from nnjit_studio.errors import CompileError

ROW, COLUMN = "$m", "$n"
"""First row and column of a tile, as the schedule names them."""

_INLINE_COST = 160
_INLINE_COST_AT_MOST = 640
"""The limit where no output can hold sums until a sweep (u8, i8): the kernel is long, but keeps its
tile."""


def acc(row: int, vector: int, stream: int = 0) -> str:
    """Name of an accumulator."""
    return f"acc{row}_{vector}" + (f"_{stream}" if stream else "")


@dataclass(frozen=True)
class Epilogue:
    """How one contraction's sums become its outputs."""

    contraction: Contraction
    raw: Store | None
    """The store whose buffer can hold unfinished sums, None if none can."""
    step: int | None
    """Stride of ``raw`` along n."""
    plain: bool
    """The sum itself is the result."""
    lanes: bool
    """Every store can be done by four columns at once."""
    cost: int
    """Rough number of operations on each accumulator."""

    def inline(self, accumulators: int) -> bool:
        """Whether it may run on that many accumulators in registers."""
        limit = _INLINE_COST if self.raw else _INLINE_COST_AT_MOST
        return self.lanes and self.cost * accumulators <= limit

    def raw_index(self, row: int, column: int, lane: int = 0) -> Affine:
        """Where the sum of a tile's row and column is kept until it is finished.

        Raises
        ------
        CompileError
            When no output can hold it.
        """
        if self.raw is None:
            raise CompileError(
                "No output of this kernel can hold unfinished sums: each is read by the "
                "epilogue or is not float32.",
                "Choose a candidate whose r1 covers K, or the default schedule.",
            )
        return affine(substitute(self.raw.index, self._point(row, column + lane)))

    def _point(self, row: int, column: int) -> dict[str, Expr]:
        c = self.contraction
        return {c.m_var: plus(Var(ROW), row), c.n_var: plus(Var(COLUMN), column)}

    def store_lane(self, local: str, lane: int, row: int, column: int) -> Statement:
        """One lane of an accumulator as it is, to a place of its own."""
        index = self.raw_index(row, column)
        assert self.raw is not None
        return StoreVector(local, self.raw.buffer, index, 1, lane)

    def store_raw(self, local: str, row: int, column: int, lanes: int) -> list[Statement]:
        """The first ``lanes`` of an accumulator as they are."""
        index = self.raw_index(row, column)
        assert self.raw is not None
        buffer = self.raw.buffer
        if self.step == 1:
            return [StoreVector(local, buffer, index, lanes)]
        return [
            StoreVector(local, buffer, self.raw_index(row, column, lane), 1, lane)
            for lane in range(lanes)
        ]

    def store_inline(self, locals: Sequence[str], row: int) -> Statement:
        """Finished results of one row of full accumulators.

        One statement, so that neighbouring stores have no load between them:
        only then does an engine pack them.
        """
        stores = []
        for j, local in enumerate(locals):
            point = {**self._point(row, LANES * j), ACCUMULATOR: Var(local)}
            stores += [substitute_store(s, point) for s in self.contraction.epilogue]
        return Put(tuple(stores), COLUMN)

    def sweep(self, rows: int, columns: int) -> list[Statement]:
        """The epilogue over a tile whose sums stand in ``raw``."""
        if self.plain:
            return []
        c = self.contraction
        self.raw_index(0, 0)
        assert self.raw is not None
        held: dict[str, Expr] = {ACCUMULATOR: Load(self.raw.buffer, self.raw.index)}
        stores = tuple(Store(s.buffer, s.index, substitute(s.value, held)) for s in c.epilogue)
        vectors = columns // LANES if self.lanes else 0
        places = ({c.n_var: plus(Var(COLUMN), LANES * j)} for j in range(vectors))
        whole = tuple(substitute_store(s, place) for place in places for s in stores)
        body: list[Statement] = [Put(whole, COLUMN)] if whole else []
        if vectors * LANES < columns:
            begin, end = plus(Var(COLUMN), LANES * vectors), plus(Var(COLUMN), columns)
            body.append(For(c.n_var, begin, end, 1, [Put(stores)]))
        return [For(c.m_var, Var(ROW), plus(Var(ROW), rows), 1, body)]

    def finish(self, rows: int, widths: Sequence[int], last: Expr | None = None) -> list[Statement]:
        """Epilogue and stores of a tile: on its accumulators, or in a sweep over what was stored.

        ``last`` tells whether sums are whole; without it they are.
        """
        grid = [(i, j) for i in range(rows) for j in range(len(widths))]
        full = last is None and all(width == LANES for width in widths)
        if full and not self.plain and self.inline(len(grid)):
            vectors = range(len(widths))
            return [self.store_inline([acc(i, j) for j in vectors], i) for i in range(rows)]
        stores: list[Statement] = [
            statement
            for i, j in grid
            for statement in self.store_raw(acc(i, j), i, LANES * j, widths[j])
        ]
        sweep = self.sweep(rows, sum(widths))
        return [*stores, *([When(last, sweep, [])] if sweep and last is not None else sweep)]


def plan_epilogue(
    program: Program, contraction: Contraction, total: Store | None = None
) -> Epilogue:
    """The part of the plan that no candidate changes.

    Parameters
    ----------
    total
        Where the sum itself stands, in the buffer that gives its dtype; without
        it the sum is float32 and is kept in a float32 output if it has to be.
    """
    stores = contraction.epilogue
    read = {load.buffer for s in stores for e in (s.value, s.index) for load in loads(e)}
    raw = total or next(
        (s for s in stores if s.buffer not in read and program.buffer(s.buffer).dtype == "f32"),
        None,
    )
    known = {a.var: (0, a.extent - 1) for a in contraction.batch}
    known[contraction.m_var] = 0, contraction.m - 1
    known[contraction.n_var] = 0, contraction.n - 1
    dtype = program.buffer(total.buffer).dtype if total else "f32"
    lanes = Lanes(program, known, {ACCUMULATOR: dtype})
    return Epilogue(
        contraction,
        raw,
        stride(raw.index, contraction.n_var) if raw else None,
        len(stores) == 1 and stores[0].value == Var(ACCUMULATOR),
        all(lanes.store(s, contraction.n_var) for s in stores),
        sum(_cost(e) for s in stores for e in walk(s.value)),
    )


def _cost(expr: Expr) -> int:
    if isinstance(expr, Call):
        return 25 if expr.fn in POLYNOMIALS else 1
    if isinstance(expr, Binary):
        return 60 if expr.op == "pow" else 1
    return int(isinstance(expr, (Load, Select)))
