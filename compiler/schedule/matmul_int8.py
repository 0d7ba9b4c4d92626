"""The template of int8 matmuls: exact int32 sums of products of 16-bit pairs.

A step takes a word of each operand, four values along k. Four bytes of A fill
an i16 vector twice, eight bytes of B are two columns; one dot product adds two
pairs of k to each column's two lanes, which are added up behind the loop. All
products and pair sums fit: 255 * 128 * 2 is far from the i32 range, and i32
sums wrap as the tensor IR says.
"""

from __future__ import annotations

from nnjit_studio.compiler.ir.affine import LANES, Affine
from nnjit_studio.compiler.ir.loops import (
    AssignVector,
    Dot,
    For,
    PairSums,
    Scheduled,
    Statement,
    Widened,
)
from nnjit_studio.compiler.ir.rewrite import int32
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.recognize.quantised import Quantised
from nnjit_studio.compiler.schedule.epilogue import plan_epilogue
from nnjit_studio.compiler.schedule.matmul import (
    PANEL,
    TILE,
    WIDEST_PANEL,
    K,
    Plan,
    acc,
    check_tile,
    finish,
    guessed_panel,
    nonzero,
    over_tiles,
    terms,
)
from nnjit_studio.errors import CompileError
from nnjit_studio.records.candidate import Candidate

WORD_BYTES = 4
HALVES = 2
"""Vectors of B, and sums, for four columns."""
_GUESSED_ROWS, _GUESSED_UNROLL = 3, 2  # a sum has two registers


def schedule_int8(program: Program, quantised: Quantised, candidate: Candidate) -> Scheduled:
    """The loops of one candidate; ``r0`` counts words of four k.

    Raises
    ------
    CompileError
        When the candidate does not fit this contraction or is too large.
    """
    unroll = min(candidate.r0, quantised.words)
    vectors = candidate.x0 // LANES
    operations = unroll * HALVES * (vectors + candidate.y0 * (1 + 2 * vectors))
    check(candidate, quantised, operations)

    def tile(plan: Plan, rows: int, columns: int) -> list[Statement]:
        vectors = -(-columns // LANES)
        sums = [_sum(i, j, h) for i in range(rows) for j in range(vectors) for h in range(HALVES)]
        zero: list[Statement] = [AssignVector(name, None, "i32") for name in sums]
        whole = quantised.words // unroll * unroll
        reduce: list[Statement] = [
            For(K, int32(0), int32(whole), unroll, _steps(plan, rows, vectors, unroll)),
            For(K, int32(whole), int32(quantised.words), 1, _steps(plan, rows, vectors, 1)),
        ]
        gather: list[Statement] = [
            AssignVector(acc(i, j), PairSums(_sum(i, j, 0), _sum(i, j, 1)), "i32")
            for i in range(rows)
            for j in range(vectors)
        ]
        return [*zero, *reduce, *gather, *finish(plan, rows, columns)]

    c = quantised.contraction
    epilogue = plan_epilogue(program, c, quantised.total)
    plan = Plan(c, epilogue, candidate.x0, candidate.y0, unroll, c.k, True, tile)
    return over_tiles(program, plan, candidate)


def guess_int8(quantised: Quantised) -> Candidate | None:
    return guessed(quantised, _GUESSED_ROWS, _GUESSED_UNROLL)


def guessed(quantised: Quantised, rows: int, unroll: int) -> Candidate | None:
    """A tile of at most so many rows; None of batches."""
    c = quantised.contraction
    rows, columns = min(c.m, rows), guessed_panel(c)
    return None if c.batch else Candidate(columns, rows, unroll, columns, rows, c.k, "nm", True)


def check(candidate: Candidate, quantised: Quantised, operations: int) -> None:
    """Refuse what the templates of quantised weights cannot do.

    Raises
    ------
    CompileError
        With the setting that does not fit.
    """
    n, columns = quantised.contraction.n, candidate.x0
    fits = -(-n // columns) * columns <= -(-n // WIDEST_PANEL) * WIDEST_PANEL
    if columns % LANES or not fits:
        raise CompileError(
            f"x0={columns} is no width for panels of {n} columns.",
            f"Use a multiple of {LANES} that divides {WIDEST_PANEL}.",
        )
    if not candidate.pack or candidate.r1 < quantised.contraction.k:
        raise CompileError(
            "Quantised weights are read from panels, over all of K at once.",
            f"Choose pack=1 and r1={quantised.contraction.k}.",
        )
    check_tile(candidate, operations)


def _sum(row: int, vector: int, half: int) -> str:
    return f"sum{row}_{vector}_{half}"


def _steps(plan: Plan, rows: int, vectors: int, count: int) -> list[Statement]:
    c, columns = plan.c, plan.columns
    a_terms = terms(c, c.a, ((TILE, rows_stride(plan)), (K, WORD_BYTES * c.a.column)))
    b_terms = nonzero(((PANEL, columns * c.k), (K, columns * WORD_BYTES)))
    body: list[Statement] = []
    for step in range(count):
        for j in range(vectors):
            for h in range(HALVES):
                at = (step * columns + LANES * j + LANES // HALVES * h) * WORD_BYTES
                wide = Widened(c.b.buffer, Affine(b_terms, at), False)
                body.append(AssignVector(f"b{j}_{h}", wide, "i32"))
        for i in range(rows):
            at = c.a.offset + i * c.a.row + step * WORD_BYTES * c.a.column
            body.append(AssignVector("a", Widened(c.a.buffer, Affine(a_terms, at), True), "i32"))
            for j in range(vectors):
                for h in range(HALVES):
                    name = _sum(i, j, h)
                    body.append(AssignVector(name, Dot("a", f"b{j}_{h}", name), "i32"))
    return body


def rows_stride(plan: Plan) -> int:
    """Elements of A between two row tiles."""
    return plan.rows * plan.c.a.row
