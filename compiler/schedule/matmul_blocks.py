"""The template of matmuls with weights of 4 or 8 bits in blocks: decoded once, or for a few rows.

Of few rows they are decoded in registers: a step takes a word for each column, eight or four
values along k; each is shifted to the low bits, masked, converted and scaled, then multiplied by an
element of A for every row. Of more, a panel of them is decoded ahead (:mod:`.decoded_panels`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nnjit_studio.compiler.ir.affine import LANES, Affine
from nnjit_studio.compiler.ir.loops import (
    Assign,
    AssignVector,
    Element,
    For,
    Let,
    MultiplyAdd,
    Scheduled,
    Statement,
    StoreVector,
)
from nnjit_studio.compiler.ir.rewrite import int32, plus, times
from nnjit_studio.compiler.ir.tensor_ir import Binary, Cast, Const, Expr, Load, Program, Var
from nnjit_studio.compiler.recognize.contraction import nonzero, terms
from nnjit_studio.compiler.recognize.quantised import Quantised
from nnjit_studio.compiler.schedule.decoded_panels import (
    PANELS,
    decodes_once,
    in_decoded_panels,
    place,
)
from nnjit_studio.compiler.schedule.default import in_order
from nnjit_studio.compiler.schedule.epilogue import COLUMN, acc, plan_epilogue
from nnjit_studio.compiler.schedule.matmul import (
    PANEL,
    TILE,
    K,
    Plan,
    finish,
    float_tile,
    over_tiles,
)
from nnjit_studio.compiler.schedule.matmul_int8 import check, guessed, rows_stride
from nnjit_studio.errors import CompileError
from nnjit_studio.records.candidate import Candidate

BLOCK = "$block"
_GUESSED_ROWS, _GUESSED_DEPTH = 6, 8  # decoded words serve six rows


def guess_blocks(quantised: Quantised) -> Candidate | None:
    return guessed(quantised, _GUESSED_ROWS, _GUESSED_DEPTH // quantised.per_word)


def schedule_blocks(program: Program, quantised: Quantised, candidate: Candidate) -> Scheduled:
    """The loops of one candidate; ``r0`` counts words.

    Raises
    ------
    CompileError
        When the candidate does not fit this contraction or is too large.
    """
    c, per_word = quantised.contraction, quantised.per_word
    per_block = quantised.block // per_word
    unroll, vectors = candidate.r0, candidate.x0 // LANES
    check(candidate, quantised, unroll * per_word * vectors * (candidate.y0 + 4))
    if per_block % unroll:
        raise CompileError(
            f"r0={unroll} words are no part of a block of {per_block}.", "Use a divisor of it."
        )
    if decodes_once(program, c, candidate):
        return _decoded_once(program, quantised, candidate)

    def tile(plan: Plan, rows: int, columns: int) -> list[Statement]:
        vectors = -(-columns // LANES)
        grid = [(i, j) for i in range(rows) for j in range(vectors)]
        zero: list[Statement] = [AssignVector(acc(i, j), None) for i, j in grid]
        body = _block_values(quantised, columns)
        step = _steps(plan, quantised, rows, vectors, unroll)
        words = For(K, int32(0), int32(per_block), unroll, step)
        body += [words] if c.m > 1 else _scaled_once(words, vectors)
        blocks = For(BLOCK, int32(0), int32(c.k // quantised.block), 1, body)
        return [*zero, blocks, *finish(plan, rows, columns)]

    epilogue = plan_epilogue(program, c, quantised.total)
    plan = Plan(c, epilogue, candidate.x0, candidate.y0, unroll, c.k, True, tile)
    tiles = over_tiles(program, plan, candidate)
    if quantised.row is None:
        return tiles
    # Once a call of the kernel, so on every thread: all of them write the same.
    ahead = in_order(replace(program, stages=quantised.row.stages))
    return replace(tiles, body=[*ahead, *tiles.body])


def _scaled_once(words: Statement, vectors: int) -> list[Statement]:
    """A block of one row: what its words add up to is scaled, not each decoded value."""
    parts = range(vectors)
    return [
        *(AssignVector(_part(j), None) for j in parts),
        words,
        *(AssignVector(acc(0, j), MultiplyAdd(_part(j), f"scale{j}", acc(0, j))) for j in parts),
    ]


def _part(j: int) -> str:
    return f"part{j}"


def _decoded_once(program: Program, quantised: Quantised, candidate: Candidate) -> Scheduled:
    """A step of the product takes half of the values of ``r0`` words."""
    c, columns = quantised.contraction, candidate.x0
    per_word = quantised.per_word
    unroll = per_word // 2 * candidate.r0
    epilogue = plan_epilogue(program, c, quantised.total)
    plan = Plan(c, epilogue, columns, candidate.y0, unroll, c.k, True, float_tile)
    vectors = columns // LANES
    words: list[Statement] = []
    for j in range(vectors):
        index = Affine(_words(plan, quantised), LANES * j)
        words.append(AssignVector(f"word{j}", Element(c.b.buffer, index, LANES), "i32"))
    for r in range(per_word):
        for j in range(vectors):
            words.append(Assign(((f"B{j}", "f32"),), (_decoded(quantised, j, r),), COLUMN))
            at = place(plan, ((BLOCK, quantised.block), (K, per_word)), r, LANES * j)
            words.append(StoreVector(f"B{j}", PANELS, at, LANES))
    block: list[Statement] = [
        *_block_values(quantised, columns),
        For(K, int32(0), int32(quantised.block // per_word), 1, words),
    ]
    blocks = For(BLOCK, int32(0), int32(c.k // quantised.block), 1, block)
    decode: list[Statement] = [Let(COLUMN, times(Var(PANEL), columns), [blocks])]
    return in_decoded_panels(program, plan, decode)


def _words(plan: Plan, quantised: Quantised) -> tuple[tuple[str | Expr, int], ...]:
    """Where the words of a panel's block stand."""
    columns, per_block = plan.columns, quantised.block // quantised.per_word
    inner = (PANEL, columns * quantised.words), (BLOCK, columns * per_block), (K, columns)
    return nonzero((*_batches(quantised, quantised.words), *inner))


def _batches(quantised: Quantised, rows: int) -> Iterator[tuple[str, int]]:
    """Where the columns of a batch begin, in a matrix of so many rows."""
    c = quantised.contraction
    return ((a.var, step * rows) for a, step in zip(c.batch, c.b.batch, strict=True))


def _block_values(quantised: Quantised, columns: int) -> list[Statement]:
    """Scales, and zero points where they are no constant, of a tile's columns."""
    body: list[Statement] = []
    for j in range(-(-columns // LANES)):
        at = _group_index(quantised, LANES * j)
        scale: Expr = Load(quantised.scale, at)
        if quantised.unit != 1.0:
            scale = scale * quantised.unit
        body.append(Assign(((f"scale{j}", "f32"),), (scale,), COLUMN))
        if isinstance(quantised.zero, str):
            zero = Cast(Load(quantised.zero, at), "f32")
            body.append(Assign(((f"zero{j}", "f32"),), (zero,), COLUMN))
    return body


def _group_index(quantised: Quantised, column: int) -> Expr:
    row = times(Var(BLOCK), quantised.group_stride)
    for var, step in _batches(quantised, 1):
        row = row + times(Var(var), step)
    return row + plus(Var(COLUMN), column)


def _steps(
    plan: Plan, quantised: Quantised, rows: int, vectors: int, count: int
) -> list[Statement]:
    c, columns, block, per_word = plan.c, plan.columns, quantised.block, quantised.per_word
    a_inner = (TILE, rows_stride(plan)), (BLOCK, block * c.a.column)
    a_terms = terms(c, c.a, (*a_inner, (K, per_word * c.a.column)))
    b_terms = _words(plan, quantised)
    body: list[Statement] = []
    for step in range(count):
        for j in range(vectors):
            index = Affine(b_terms, step * columns + LANES * j)
            body.append(AssignVector(f"word{j}", Element(c.b.buffer, index, LANES), "i32"))
        for r in range(per_word):
            for j in range(vectors):
                value = _decoded(quantised, j, r, scaled=c.m > 1)
                body.append(Assign(((f"B{j}", "f32"),), (value,), COLUMN))
            for i in range(rows):
                k = step * per_word + r
                index = Affine(a_terms, c.a.offset + i * c.a.row + k * c.a.column)
                body.append(AssignVector("a", Element(c.a.buffer, index, 0)))
                for j in range(vectors):
                    name = acc(i, j) if c.m > 1 else _part(j)
                    body.append(AssignVector(name, MultiplyAdd("a", f"B{j}", name)))
    return body


def _decoded(quantised: Quantised, j: int, r: int, scaled: bool = True) -> Expr:
    word: Expr = Var(f"word{j}")
    low = Binary("shr", word, int32(quantised.bits * r)) if r else word
    value = Cast(Binary("bitand", low, int32((1 << quantised.bits) - 1)), "f32")
    held = isinstance(quantised.zero, str)
    zero = Var(f"zero{j}") if held else Const(float(quantised.zero), "f32")
    moved = value - zero
    return moved * Var(f"scale{j}") if scaled else moved
