"""Products of many rows with weights in 16, 8 or 4 bits: each panel is decoded once.

Parallel steps share the panels of B. A step writes one of its panels as float32 to a workspace
of its own, multiplies all rows of A with it, and goes on with the next. Decoding inside the tile
would repeat the work for every few rows. A panel of a thousand rows is 32 KiB, so it stays in a
cache.
"""

from __future__ import annotations

from dataclasses import replace

from nnjit_studio.compiler.ir.affine import LANES, Affine
from nnjit_studio.compiler.ir.loops import (
    BEGIN,
    END,
    AssignVector,
    Element,
    For,
    Let,
    Scheduled,
    Statement,
    StoreVector,
)
from nnjit_studio.compiler.ir.rewrite import int32, plus, times
from nnjit_studio.compiler.ir.tensor_ir import Buffer, Program, Var
from nnjit_studio.compiler.recognize.contraction import Contraction, Operand
from nnjit_studio.compiler.recognize.matmul import recognize
from nnjit_studio.compiler.recognize.quantised import recognize_blocks
from nnjit_studio.compiler.schedule.matmul import (
    PANEL,
    PARTS,
    TILE,
    K,
    Plan,
    plan_of,
    schedule_matmul,
    tile_here,
)
from nnjit_studio.records.candidate import Candidate

PANELS = "panels"
"""The workspace's name."""
PART = "$p"
WIDEST = 8
"""Columns that the workspace has room for."""


def with_panels(program: Program) -> Program:
    """The program with room for a decoded panel in each parallel step, where it needs one."""
    quantised = recognize_blocks(program)
    c = quantised.contraction if quantised else recognize(program)
    if c is None or c.m == 1 or _has_room(program):
        return program
    halves = c.b.dtype == "f16" and (c.packable or (c.along_k and not c.batch))
    if not (quantised or halves or c.along_bytes):
        return program
    elements = c.batches * _parts(c, LANES) * WIDEST * c.k
    room = Buffer(PANELS, "f32", (elements,), "workspace")
    return replace(program, buffers=(*program.buffers, room))


def decodes_once(program: Program, c: Contraction, candidate: Candidate) -> bool:
    """Whether a candidate of this product decodes panels ahead: where several tiles read them."""
    whole = candidate.r1 >= c.k and candidate.order == "nm" and (candidate.pack or c.along_k)
    return _has_room(program) and whole and c.m > candidate.y0 and candidate.x0 <= WIDEST


def schedule_halves(program: Program, c: Contraction, candidate: Candidate) -> Scheduled:
    """As :func:`schedule_matmul`; a weight in f16 is widened panel by panel."""
    if c.b.dtype != "f16" or not decodes_once(program, c, candidate):
        return schedule_matmul(program, c, candidate)
    plan = plan_of(program, c, candidate)
    return in_decoded_panels(program, plan, _widen(plan))


def in_decoded_panels(program: Program, plan: Plan, decode: list[Statement]) -> Scheduled:
    """The loops of a plan over all of K; ``decode`` writes the panel ``PANEL``: at :func:`place`,
    or column by column where the plan reads B along K."""
    c = plan.c
    parts, panels = _parts(c, plan.columns), -(-c.n // plan.columns)
    steps = (plan.columns, 1) if plan.pack else (1, c.k)
    decoded = replace(c, b=Operand(PANELS, 0, (0,) * len(c.batch), *steps))
    tile = tile_here(replace(plan, c=decoded, panel=PART))
    row_tiles = For(TILE, int32(0), int32(-(-c.m // plan.rows)), 1, tile)
    part = Var(PART) % parts if c.batch else Var(PART)
    begin, end = (times(plus(part, i), panels) // parts for i in (0, 1))
    body: list[Statement] = [For(PANEL, begin, end, 1, [*decode, row_tiles])]
    for axis in c.batch:  # a packable weight has one at most, of ranges of its columns
        body = [Let(axis.var, Var(PART) // parts, body)]
    names = [b.name for b in program.buffers]
    wanted = ((names.index(c.b.buffer), plan.columns),) if plan.pack else ()
    return Scheduled([For(PART, Var(BEGIN), Var(END), 1, body)], c.batches * parts, wanted)


def place(plan: Plan, terms: tuple[tuple[str, int], ...], row: int, column: int) -> Affine:
    """Where an element of the panel stands: ``terms`` and ``row`` count rows."""
    columns = plan.columns
    rows = tuple((var, step * columns) for var, step in terms)
    return Affine(((PART, plan.c.k * columns), *rows), row * columns + column)


def _widen(plan: Plan) -> list[Statement]:
    """A panel of halves."""
    c, columns = plan.c, plan.columns
    unroll = next(step for step in (4, 2, 1) if c.k % step == 0)
    begins = [(a.var, step * c.k) for a, step in zip(c.batch, c.b.batch, strict=True)]
    body: list[Statement] = []
    for row in range(unroll):
        for j in range(0, columns, LANES):
            at = Affine((*begins, (PANEL, columns * c.k), (K, columns)), row * columns + j)
            body += [
                AssignVector("wide", Element(c.b.buffer, at, LANES)),
                StoreVector("wide", PANELS, place(plan, ((K, 1),), row, j), LANES),
            ]
    return [For(K, int32(0), int32(c.k), unroll, body)]


def _has_room(program: Program) -> bool:
    return any(b.name == PANELS for b in program.buffers)


def _parts(c: Contraction, columns: int) -> int:
    """Parallel steps of a batch."""
    return max(1, min(PARTS // c.batches, -(-c.n // columns)))
