"""The templates of int8 matmuls: exact int32 sums, a word of four values along k a step.

Of 16-bit pairs, in any tier: four bytes of A fill an i16 vector twice, eight
bytes of B are two columns; one dot product adds two pairs of k to each
column's two lanes, which are added up behind the loop. All products and pair
sums fit: 255 * 128 * 2 is far from the i32 range, and i32 sums wrap as the
tensor IR says.

Of bytes, in the relaxed tier: its instruction multiplies 16 bytes of A with as
many of 7 bits, one word for each of four columns. B is split for it into what
is above zero and what is below, ``B = P - N``, each with sums of its own; both
have 7 bits where no value of B is -128. An engine whose processor has no such
instruction takes three, twice: 16-bit pairs are 1.5 times as fast there
(measured in V8 on an EPYC), so a kernel asks the engine and has both.
"""

from __future__ import annotations

from collections.abc import Callable

from nnjit_studio.compiler.ir.affine import LANES, Affine
from nnjit_studio.compiler.ir.loops import (
    Apply,
    AssignVector,
    ByteDot,
    Dot,
    Element,
    For,
    PairSums,
    Scheduled,
    Statement,
    VectorValue,
    When,
    Widened,
)
from nnjit_studio.compiler.ir.rewrite import int32
from nnjit_studio.compiler.ir.tensor_ir import BYTE_DOTS_SATURATE, Call, Program
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
_GUESSED_ROWS, _GUESSED_COLUMNS, _GUESSED_UNROLL = 6, 4, 2
"""A sum has two registers: twelve accumulators, and parts of B and A beside them."""


_Steps = Callable[[Plan, int, int, int], list[Statement]]
_Total = Callable[[str, str], VectorValue]
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
    signed = program.buffer(quantised.contraction.a.buffer).dtype == "i8"
    if not (signed and quantised.symmetric):
        return schedule_int8(program, quantised, candidate)

    def either(plan: Plan, rows: int, vectors: int) -> list[Statement]:
        bytes_ = _sums(plan, rows, vectors, _byte_steps, _difference)
        saturates = Call(BYTE_DOTS_SATURATE, (int32(0),))
        return [When(saturates, _pair_sums(plan, rows, vectors), bytes_)]

    return _scheduled(program, quantised, candidate, either)


def _scheduled(
    program: Program, quantised: Quantised, candidate: Candidate, sums: _Sums
) -> Scheduled:
    unroll = min(candidate.r0, quantised.words)
    vectors = candidate.x0 // LANES
    operations = unroll * HALVES * (vectors + candidate.y0 * (1 + 2 * vectors))
    check(candidate, quantised, operations)

    def tile(plan: Plan, rows: int, columns: int) -> list[Statement]:
        return [*sums(plan, rows, -(-columns // LANES)), *finish(plan, rows, columns)]

    c = quantised.contraction
    epilogue = plan_epilogue(program, c, quantised.total)
    plan = Plan(c, epilogue, candidate.x0, candidate.y0, unroll, c.k, True, tile)
    return over_tiles(program, plan, candidate)


def _pair_sums(plan: Plan, rows: int, vectors: int) -> list[Statement]:
    return _sums(plan, rows, vectors, _steps, PairSums)


def _sums(plan: Plan, rows: int, vectors: int, steps: _Steps, total: _Total) -> list[Statement]:
    names = [_sum(i, j, h) for i in range(rows) for j in range(vectors) for h in range(HALVES)]
    words, unroll = plan.c.k // WORD_BYTES, plan.unroll
    whole = words // unroll * unroll
    return [
        *(AssignVector(name, None, "i32") for name in names),
        For(K, int32(0), int32(whole), unroll, steps(plan, rows, vectors, unroll)),
        For(K, int32(whole), int32(words), 1, steps(plan, rows, vectors, 1)),
        *(
            AssignVector(acc(i, j), total(_sum(i, j, 0), _sum(i, j, 1)), "i32")
            for i in range(rows)
            for j in range(vectors)
        ),
    ]


def guess_int8(quantised: Quantised) -> Candidate | None:
    columns = _GUESSED_COLUMNS if quantised.contraction.m > 1 else None
    return guessed(quantised, _GUESSED_ROWS, _GUESSED_UNROLL, columns)


def guessed(
    quantised: Quantised, rows: int, unroll: int, columns: int | None = None
) -> Candidate | None:
    """A tile of at most so many rows; None of batches."""
    c = quantised.contraction
    rows, columns = min(c.m, rows), columns or guessed_panel(c)
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


def _byte_steps(plan: Plan, rows: int, vectors: int, count: int) -> list[Statement]:
    c, columns = plan.c, plan.columns
    a_terms = terms(c, c.a, ((TILE, rows_stride(plan)), (K, WORD_BYTES * c.a.column)))
    b_terms = nonzero(((PANEL, columns * c.k), (K, columns * WORD_BYTES)))
    body: list[Statement] = [AssignVector("none", None, "i32")]
    for step in range(count):
        for j in range(vectors):
            at = Affine(b_terms, (step * columns + LANES * j) * WORD_BYTES)
            body += [
                AssignVector("b", Element(c.b.buffer, at, LANES), "i32"),
                AssignVector("above", Apply("i8x16.max_s", ("b", "none")), "i32"),
                AssignVector("below", Apply("i8x16.sub_sat_s", ("above", "b")), "i32"),
            ]
            for i in range(rows):
                at = Affine(a_terms, c.a.offset + i * c.a.row + step * WORD_BYTES * c.a.column)
                body.append(AssignVector("a", Element(c.a.buffer, at, 0), "i32"))
                for h, part in enumerate(("above", "below")):
                    name = _sum(i, j, h)
                    body.append(AssignVector(name, ByteDot("a", part, name), "i32"))
    return body


def _difference(above: str, below: str) -> VectorValue:
    return Apply("i32x4.sub", (above, below))


def rows_stride(plan: Plan) -> int:
    """Elements of A between two row tiles."""
    return plan.rows * plan.c.a.row
