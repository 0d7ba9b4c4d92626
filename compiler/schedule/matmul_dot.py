"""The template of matmuls whose operands both lie along the reduction: dot products.

``A @ B^T`` with B row-major: attention's scores read K as it is, and the head
of a language model reads the table of embeddings that its first step looks up.
A vector holds four steps of the reduction; a tile of y0 rows x x0 columns has
an accumulator for each output, whose lanes are summed at the end, four outputs
at once. ``r0`` counts vectors. The shorter side of the tile stays in registers
for a step, the other is loaded one by one; its space counts them so
(:mod:`nnjit_studio.space.wasm.dot`).
"""

from __future__ import annotations

from nnjit_studio.compiler.ir.affine import LANES, Affine, linear_expr
from nnjit_studio.compiler.ir.dtypes import BYTES
from nnjit_studio.compiler.ir.loops import (
    Assign,
    AssignVector,
    Element,
    For,
    Let,
    MultiplyAdd,
    PairSums,
    Scheduled,
    Statement,
    StoreVector,
)
from nnjit_studio.compiler.ir.rewrite import int32, plus, times
from nnjit_studio.compiler.ir.tensor_ir import Binary, Cast, Const, Expr, Load, Program, Var
from nnjit_studio.compiler.recognize.contraction import Contraction, terms
from nnjit_studio.compiler.schedule.decoded_panels import (
    PANELS,
    PART,
    decodes_once,
    in_decoded_panels,
)
from nnjit_studio.compiler.schedule.epilogue import COLUMN, acc, plan_epilogue
from nnjit_studio.compiler.schedule.matmul import (
    GUESSED_UNROLL,
    PANEL,
    TILE,
    K,
    Plan,
    check_tile,
    finish,
    over_tiles,
)
from nnjit_studio.errors import CompileError
from nnjit_studio.records.candidate import Candidate

_GUESSED_ROWS, _GUESSED_COLUMNS, _GUESSED_COLUMNS_OF_ROW = 2, 6, 8


def schedule_dot(program: Program, c: Contraction, candidate: Candidate) -> Scheduled:
    """The loops of one candidate; rows of halves or bytes are widened once where several tiles read
    them.

    Raises
    ------
    CompileError
        As :func:`plan_of_dot`.
    """
    plan = plan_of_dot(program, c, candidate)
    if c.b.dtype != "f32" and decodes_once(program, c, candidate):
        return in_decoded_panels(program, plan, _widen(plan))
    return over_tiles(program, plan, candidate)


def _widen(plan: Plan) -> list[Statement]:
    """The columns that a panel has, each along K."""
    c, column = plan.c, "$column"
    body: list[Statement] = []
    for begin, end in ((0, c.k // LANES * LANES), (c.k // LANES * LANES, c.k)):
        lanes = min(LANES, end - begin)
        at = Affine(((PANEL, plan.columns * c.b.column), (column, c.b.column), (K, 1)), c.b.offset)
        to = Affine(((PART, plan.columns * c.k), (column, c.k), (K, 1)), 0)
        copy: list[Statement] = [
            _steps_of_b(c, "wide", at, lanes),
            StoreVector("wide", PANELS, to, lanes),
        ]
        body += [For(K, int32(begin), int32(end), LANES, copy)] if lanes > 0 else []
    left = int32(c.n) - times(Var(PANEL), plan.columns)
    return [For(column, int32(0), Binary("min", left, int32(plan.columns)), 1, body)]


def plan_of_dot(program: Program, c: Contraction, candidate: Candidate) -> Plan:
    """Sizes of a candidate.

    Raises
    ------
    CompileError
        When the candidate does not fit this contraction or is too large, or no
        output can hold a sum that its epilogue cannot finish in registers.
    """
    rows, columns, unroll = candidate.y0, candidate.x0, candidate.r0
    if candidate.pack:
        raise CompileError("B is read along the reduction, never from panels.", "Choose pack=0.")
    if candidate.r1 < c.k:
        raise CompileError(
            f"r1={candidate.r1} cuts the reduction of {c.k}; dot products are summed at once.",
            "Choose r1 >= K.",
        )
    check_tile(candidate, unroll * (rows * columns + rows + columns))
    return Plan(c, plan_epilogue(program, c), columns, rows, unroll, c.k, False, _tile)


def guess_dot(c: Contraction) -> Candidate:
    """One good tile, of 15 registers at most; an epilogue works on whole vectors of results."""
    rows = min(c.m, _GUESSED_ROWS)
    columns = LANES if c.labels else _GUESSED_COLUMNS
    columns = _GUESSED_COLUMNS_OF_ROW if rows == 1 else columns
    columns = columns if columns <= c.n else LANES
    return Candidate(columns, rows, GUESSED_UNROLL, columns, rows, c.k, "nm", False)


def _tile(plan: Plan, rows: int, columns: int) -> list[Statement]:
    body: list[Statement] = [
        AssignVector(_sum(i, j), None) for i in range(rows) for j in range(columns)
    ]
    far = columns == plan.columns and _columns_far_apart(plan)
    body += _reduce(plan, rows, columns, plan.c.n // columns if far else 1)
    for i in range(rows):
        for first in range(0, columns, LANES):
            body += _lanes_summed(i, first, columns)
    return [*body, *(_finish_far(plan) if far else finish(plan, rows, columns))]


def _columns_far_apart(plan: Plan) -> bool:
    """Whether a tile's columns are one of each of x0 parts of N, not neighbours.

    A row vector waits for memory. A few short rows next to each other end before a processor
    reads ahead of them; rows far apart are long streams (measured on a Xeon: 1.5 times as
    fast, 2.5 times where B is made of halves).
    """
    return plan.c.m == 1 and not plan.c.batch


def _finish_far(plan: Plan) -> list[Statement]:
    """Columns one by one: the sum to its place, and the epilogue there."""
    c, epilogue = plan.c, plan.epilogue
    far = c.n // plan.columns
    body: list[Statement] = []
    for j in range(plan.columns):
        column = Let(COLUMN, plus(Var(PANEL), j * far), [])
        column.body.append(epilogue.store_lane(acc(0, j // LANES), j % LANES, 0, 0))
        column.body += epilogue.sweep(1, 1)
        body.append(column)
    return body


def _sum(row: int, column: int) -> str:
    return f"sum{row}_{column}"


def _reduce(plan: Plan, rows: int, columns: int, far: int) -> list[Statement]:
    """The sums of a tile whose columns are ``far`` apart."""
    k = plan.c.k
    step = LANES * plan.unroll
    whole, fours = k // step * step, k // LANES * LANES
    body: list[Statement] = []
    if whole:
        steps = [
            s for u in range(plan.unroll) for s in _step(plan, rows, columns, far, LANES * u, LANES)
        ]
        body.append(For(K, int32(0), int32(whole), step, steps))
    if whole < fours:
        once = _step(plan, rows, columns, far, 0, LANES)
        body.append(For(K, int32(whole), int32(fours), LANES, once))
    if fours < k:
        rest = _step(plan, rows, columns, far, 0, k - fours)
        body.append(For(K, int32(fours), int32(k), LANES, rest))
    return body


def _step(
    plan: Plan, rows: int, columns: int, far: int, offset: int, lanes: int
) -> list[Statement]:
    """Up to four steps of the reduction."""
    c = plan.c
    a_terms = terms(c, c.a, ((TILE, plan.rows * c.a.row), (K, 1)))
    panel = c.b.column * (1 if far > 1 else plan.columns)
    b_terms = terms(c, c.b, ((plan.panel, panel), (K, 1)))

    def load_a(i: int, name: str) -> Statement:
        index = Affine(a_terms, c.a.offset + i * c.a.row + offset)
        return AssignVector(name, Element(c.a.buffer, index, lanes))

    def load_b(j: int, name: str) -> Statement:
        index = Affine(b_terms, c.b.offset + j * far * c.b.column + offset)
        return _steps_of_b(c, name, index, lanes)

    body: list[Statement] = []
    if plan.rows <= plan.columns:
        body += [load_a(i, f"a{i}") for i in range(rows)]
        for j in range(columns):
            body.append(load_b(j, "b"))
            body += [_add_product(f"a{i}", "b", _sum(i, j)) for i in range(rows)]
    else:
        body += [load_b(j, f"B{j}") for j in range(columns)]
        for i in range(rows):
            body.append(load_a(i, "a"))
            body += [_add_product("a", f"B{j}", _sum(i, j)) for j in range(columns)]
    return body


def _steps_of_b(c: Contraction, name: str, at: Affine, lanes: int) -> Statement:
    """Steps of the reduction in one column of B, as float32."""
    if c.b.dtype not in BYTES:
        return AssignVector(name, Element(c.b.buffer, at, lanes))
    form = at.constant, {var: step for var, step in at.terms if isinstance(var, str)}
    wide: Expr = Cast(Load(c.b.buffer, linear_expr(form)), "f32")
    value = wide - Const(c.b.zero, "f32") if c.b.zero else wide
    return Assign(((name, "f32"),), (value,), K)


def _add_product(a: str, b: str, total: str) -> Statement:
    return AssignVector(total, MultiplyAdd(a, b, total))


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
