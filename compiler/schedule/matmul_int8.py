"""The templates of int8 matmuls: exact int32 sums, a word of four values along k a step.

Of 16-bit pairs, in any tier: four bytes of A fill an i16 vector twice, eight
bytes of B are two columns; one dot product adds two pairs of k to each
column's two lanes, which are added up behind the loop. All products and pair
sums fit: 255 * 128 * 2 is far from the i32 range, and i32 sums wrap as the
tensor IR says.

Of bytes, in the relaxed tier: its instruction multiplies 16 signed bytes of B, four
neighbours in k of four columns, with a word of A. Engines differ in what the highest bit of A
is: a sign; or 128, then A is moved by 128 into unsigned bytes, and what that adds to each
column's sum stands below its words. Or they add pairs of products in 16 bits, which is not exact: a
kernel asks the engine, and has 16-bit pairs too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nnjit_studio.compiler.ir.affine import LANES, Affine
from nnjit_studio.compiler.ir.loops import (
    Apply,
    Assign,
    AssignVector,
    ByteDot,
    Dot,
    Element,
    For,
    PairSums,
    Scheduled,
    Statement,
    When,
    Widened,
)
from nnjit_studio.compiler.ir.rewrite import int32
from nnjit_studio.compiler.ir.tensor_ir import (
    BYTE_DOT_FLIP,
    NO_FLIP,
    Binary,
    Call,
    Expr,
    Program,
    Var,
)
from nnjit_studio.compiler.recognize.contraction import nonzero, terms
from nnjit_studio.compiler.recognize.quantised import Quantised
from nnjit_studio.compiler.schedule.epilogue import acc, plan_epilogue
from nnjit_studio.compiler.schedule.matmul import (
    PANEL,
    TILE,
    WIDEST_PANEL,
    K,
    Plan,
    check_tile,
    finish,
    guessed_panel,
    over_tiles,
)
from nnjit_studio.errors import CompileError
from nnjit_studio.records.candidate import Candidate

WORD_BYTES = 4
HALVES = 2
"""Vectors of B, and sums, for four columns."""
_GUESSED_ROWS, _GUESSED_UNROLL = 5, 4
"""Beside ten accumulators stand two vectors of B, one of A and what is flipped in it."""

_FLIP = "$flip"
_PAIRS_AT_ONCE = 6
"""Vectors of results with two sums each, and parts of B and A beside them: they fit sixteen."""
_Sums = Callable[[Plan, int, int], list[Statement]]
"""Of a plan, rows and vectors: the tile's sums, in its accumulators."""


def schedule_int8(program: Program, quantised: Quantised, candidate: Candidate) -> Scheduled:
    """The loops of one candidate; ``r0`` counts words of four k.

    Raises
    ------
    CompileError
        When the candidate does not fit this contraction or is too large.
    """
    return _scheduled(program, quantised, candidate, _pair_sums)


def schedule_bytes(program: Program, quantised: Quantised, candidate: Candidate) -> Scheduled:
    """As :func:`schedule_int8` for the relaxed tier, by products of bytes where they are exact."""
    if program.buffer(quantised.contraction.a.buffer).dtype != "i8":
        return schedule_int8(program, quantised, candidate)

    def either(plan: Plan, rows: int, vectors: int) -> list[Statement]:
        exact = Binary("ne", Var(_FLIP), int32(NO_FLIP))
        return [When(exact, _byte_sums(plan, rows, vectors), _pair_sums(plan, rows, vectors))]

    scheduled = _scheduled(program, quantised, candidate, either)
    ask = Assign(((_FLIP, "i32"),), (Call(BYTE_DOT_FLIP, (int32(0),)),))
    return replace(scheduled, body=[ask, *scheduled.body])


def _scheduled(
    program: Program, quantised: Quantised, candidate: Candidate, sums: _Sums
) -> Scheduled:
    unroll = min(candidate.r0, quantised.words)
    vectors = candidate.x0 // LANES
    operations = unroll * HALVES * (vectors + candidate.y0 * (1 + vectors))
    check(candidate, quantised, operations)

    def tile(plan: Plan, rows: int, columns: int) -> list[Statement]:
        return [*sums(plan, rows, -(-columns // LANES)), *finish(plan, rows, columns)]

    c = quantised.contraction
    epilogue = plan_epilogue(program, c, quantised.total)
    plan = Plan(c, epilogue, candidate.x0, candidate.y0, unroll, c.k, True, tile)
    return over_tiles(program, plan, candidate)


def _pair_sums(plan: Plan, rows: int, vectors: int) -> list[Statement]:
    """A few vectors of columns at a time: a sum has two registers here."""
    at_once = max(1, _PAIRS_AT_ONCE // rows)
    return [
        statement
        for first in range(0, vectors, at_once)
        for statement in _pairs(plan, rows, range(first, min(vectors, first + at_once)))
    ]


def _pairs(plan: Plan, rows: int, vectors: range) -> list[Statement]:
    grid = [(i, j) for i in range(rows) for j in vectors]
    return [
        *(AssignVector(_sum(i, j, h), None, "i32") for i, j in grid for h in range(HALVES)),
        *_over_words(plan, lambda count: _pair_steps(plan, rows, vectors, count)),
        *(AssignVector(acc(i, j), PairSums(_sum(i, j, 0), _sum(i, j, 1)), "i32") for i, j in grid),
    ]


def _byte_sums(plan: Plan, rows: int, vectors: int) -> list[Statement]:
    """They begin with what flipped bytes of A add to them."""
    flip, none = "flip", "none"
    start: list[Statement] = [
        Assign(((flip, "i32"),), (Var(_FLIP),), K),
        AssignVector(none, None, "i32"),
        AssignVector("flipped", Apply("i32x4.lt_s", (flip, none)), "i32"),
    ]
    for j in range(vectors):
        at = Affine(_panel_terms(plan), (plan.c.k * plan.columns + LANES * j * WORD_BYTES))
        start.append(AssignVector("b", Element(plan.c.b.buffer, at, LANES), "i32"))
        added = Apply("v128.and", ("b", "flipped"))
        start += [AssignVector(acc(i, j), added, "i32") for i in range(rows)]
    return [*start, *_over_words(plan, lambda count: _byte_steps(plan, rows, vectors, count))]


def _over_words(plan: Plan, steps: Callable[[int], list[Statement]]) -> list[Statement]:
    words, unroll = plan.c.k // WORD_BYTES, plan.unroll
    whole = words // unroll * unroll
    return [
        For(K, int32(0), int32(whole), unroll, steps(unroll)),
        For(K, int32(whole), int32(words), 1, steps(1)),
    ]


def guess_int8(quantised: Quantised) -> Candidate | None:
    return guessed(quantised, _GUESSED_ROWS, _GUESSED_UNROLL)


def guessed(quantised: Quantised, rows: int, unroll: int) -> Candidate | None:
    """A tile of at most so many rows; None of batches that the template does not take."""
    c = quantised.contraction
    rows, columns = min(c.m, rows), guessed_panel(c)
    if not quantised.tunable("f32"):
        return None
    return Candidate(columns, rows, unroll, columns, rows, c.k, "nm", True)


def check(candidate: Candidate, quantised: Quantised, operations: int) -> None:
    """Refuse what the templates of quantised weights cannot do.

    Raises
    ------
    CompileError
        With the setting that does not fit.
    """
    n, columns = quantised.contraction.n, candidate.x0
    fits = -(-n // columns) * columns <= -(-n // WIDEST_PANEL) * WIDEST_PANEL
    fits = fits and not (quantised.contraction.batch and n % columns)
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


def _pair_steps(plan: Plan, rows: int, vectors: range, count: int) -> list[Statement]:
    c, columns = plan.c, plan.columns
    b_terms = (*_panel_terms(plan), (K, columns * WORD_BYTES))
    body: list[Statement] = []
    for step in range(count):
        for j in vectors:
            for h in range(HALVES):
                at = (step * columns + LANES * j + LANES // HALVES * h) * WORD_BYTES
                wide = Widened(c.b.buffer, Affine(b_terms, at), False)
                body.append(AssignVector(f"B{j}_{h}", wide, "i32"))
        for i in range(rows):
            wide = Widened(c.a.buffer, _word_of_a(plan, i, step), True)
            body.append(AssignVector("a", wide, "i32"))
            for j in vectors:
                for h in range(HALVES):
                    name = _sum(i, j, h)
                    body.append(AssignVector(name, Dot("a", f"B{j}_{h}", name), "i32"))
    return body


def _byte_steps(plan: Plan, rows: int, vectors: int, count: int) -> list[Statement]:
    c, columns = plan.c, plan.columns
    b_terms = (*_panel_terms(plan), (K, columns * WORD_BYTES))
    body: list[Statement] = []
    for step in range(count):
        for j in range(vectors):
            at = Affine(b_terms, (step * columns + LANES * j) * WORD_BYTES)
            body.append(AssignVector(f"B{j}", Element(c.b.buffer, at, LANES), "i32"))
        for i in range(rows):
            word = Element(c.a.buffer, _word_of_a(plan, i, step), 0)
            body.append(AssignVector("word", word, "i32"))
            body.append(AssignVector("a", Apply("v128.xor", ("word", "flip")), "i32"))
            for j in range(vectors):
                name = acc(i, j)
                body.append(AssignVector(name, ByteDot(f"B{j}", "a", name), "i32"))
    return body


def _panel_terms(plan: Plan) -> tuple[tuple[str | Expr, int], ...]:
    """Of its words and of the row below them."""
    return nonzero(((PANEL, plan.columns * (plan.c.k + WORD_BYTES)),))


def _word_of_a(plan: Plan, row: int, step: int) -> Affine:
    a = plan.c.a
    a_terms = terms(plan.c, a, ((TILE, rows_stride(plan)), (K, WORD_BYTES * a.column)))
    return Affine(a_terms, a.offset + row * a.row + step * WORD_BYTES * a.column)


def rows_stride(plan: Plan) -> int:
    """Elements of A between two row tiles."""
    return plan.rows * plan.c.a.row
