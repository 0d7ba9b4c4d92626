"""The matmul whose operands both lie along the reduction: dot products, four steps at once.

``A @ B^T`` with B row-major: attention's scores read K as it is, and the head
of a language model reads the table of embeddings that its first step looks up.
A vector holds four steps of the reduction; a tile of rows x columns has an
accumulator for each output, whose lanes are summed at the end. A tile loads as
much for each multiply-add as the tiles of columns do.
"""

from __future__ import annotations

from nnjit_studio.compiler.affine import LANES, Affine
from nnjit_studio.compiler.contraction import Contraction
from nnjit_studio.compiler.schedule.epilogue import plan_epilogue
from nnjit_studio.compiler.schedule.loops import (
    AssignVector,
    Element,
    For,
    MultiplyAdd,
    PairSums,
    Scheduled,
    Statement,
)
from nnjit_studio.compiler.schedule.matmul import (
    PANEL,
    TILE,
    K,
    Plan,
    acc,
    finish,
    over_tiles,
    terms,
)
from nnjit_studio.compiler.schedule.rewrite import int32
from nnjit_studio.compiler.tensor_ir import Program
from nnjit_studio.space.candidate import Candidate

_ROWS, _COLUMNS, _COLUMNS_OF_ROW = 2, 4, 8  # more rows spill on sixteen vector registers
_UNROLL = 4


def lies_along_k(c: Contraction) -> bool:
    """Whether neighbouring steps of the reduction are neighbours in both operands."""
    return c.a.column == 1 and c.b.row == 1 and c.k >= LANES and c.n > 1


def schedule_dot(program: Program, c: Contraction) -> Scheduled:
    """The loops of the one tile that is used.

    Raises
    ------
    CompileError
        When no output can hold a sum that its epilogue cannot finish in registers.
    """
    rows = min(c.m, _ROWS)
    columns = _COLUMNS_OF_ROW if rows == 1 and c.n >= _COLUMNS_OF_ROW else _COLUMNS
    epilogue = plan_epilogue(program, c)
    plan = Plan(c, epilogue, columns, rows, _UNROLL, c.k, False, _tile)
    return over_tiles(program, plan, Candidate(columns, rows, _UNROLL, columns, rows, c.k))


def _tile(plan: Plan, rows: int, columns: int) -> list[Statement]:
    body: list[Statement] = [
        AssignVector(_sum(i, j), None) for i in range(rows) for j in range(columns)
    ]
    body += _reduce(plan, rows, columns)
    for i in range(rows):
        for first in range(0, columns, LANES):
            body += _lanes_summed(i, first, columns)
    return [*body, *finish(plan, rows, columns)]


def _sum(row: int, column: int) -> str:
    return f"sum{row}_{column}"


def _reduce(plan: Plan, rows: int, columns: int) -> list[Statement]:
    k = plan.c.k
    step = LANES * plan.unroll
    whole, fours = k // step * step, k // LANES * LANES
    body: list[Statement] = []
    if whole:
        steps = [
            s for u in range(plan.unroll) for s in _step(plan, rows, columns, LANES * u, LANES)
        ]
        body.append(For(K, int32(0), int32(whole), step, steps))
    if whole < fours:
        once = _step(plan, rows, columns, 0, LANES)
        body.append(For(K, int32(whole), int32(fours), LANES, once))
    if fours < k:
        rest = _step(plan, rows, columns, 0, k - fours)
        body.append(For(K, int32(fours), int32(k), LANES, rest))
    return body


def _step(plan: Plan, rows: int, columns: int, offset: int, lanes: int) -> list[Statement]:
    """Up to four steps of the reduction."""
    c = plan.c
    a_terms = terms(c, c.a, ((TILE, plan.rows * c.a.row), (K, 1)))
    b_terms = terms(c, c.b, ((PANEL, plan.columns * c.b.column), (K, 1)))
    body: list[Statement] = []
    for i in range(rows):
        index = Affine(a_terms, c.a.offset + i * c.a.row + offset)
        body.append(AssignVector(f"a{i}", Element(c.a.buffer, index, lanes)))
    for j in range(columns):
        index = Affine(b_terms, c.b.offset + j * c.b.column + offset)
        body.append(AssignVector("b", Element(c.b.buffer, index, lanes)))
        for i in range(rows):
            body.append(AssignVector(_sum(i, j), MultiplyAdd(f"a{i}", "b", _sum(i, j))))
    return body


def _lanes_summed(row: int, first: int, columns: int) -> list[Statement]:
    """Four accumulators as one vector of their sums."""
    body: list[Statement] = []
    parts = [_sum(row, j) if j < columns else "none" for j in range(first, first + LANES)]
    if "none" in parts:
        body.append(AssignVector("none", None))
    body.append(AssignVector("low", PairSums(parts[0], parts[1])))
    body.append(AssignVector("high", PairSums(parts[2], parts[3])))
    body.append(AssignVector(acc(row, first // LANES), PairSums("low", "high")))
    return body
