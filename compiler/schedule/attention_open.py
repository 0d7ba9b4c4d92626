"""Attention in one kernel where the numbers of queries and keys are known at a run alone.

The blocks are those of :mod:`.attention`. No tile is a remainder: the last one overlaps the one
before, in queries as in keys, and computes the same once more.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.ir.loops import BEGIN, END, For, Let, Scheduled, Statement
from nnjit_studio.compiler.ir.rewrite import int32, plus, times
from nnjit_studio.compiler.ir.tensor_ir import Binary, Expr, Program, Var
from nnjit_studio.compiler.recognize.attention import Attention
from nnjit_studio.compiler.schedule.attention import (
    BLOCK,
    DOT_COLUMNS,
    FIRST,
    MOST_TURNS,
    PANEL,
    PART,
    Block,
    Room,
    bound,
    with_room,
)
from nnjit_studio.compiler.schedule.matmul import guessed_panel
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.space.wasm.attention import first_guess

_SCORES = "$scores"
_TURNED_FOR = 6
"""Queries of a block for which keys are turned."""


@dataclass(frozen=True)
class _OpenRoom(Room):
    """The scales of all steps, then the scores and turned keys of each, from the variable
    ``_SCORES`` on: each number of the code is a multiple of one size, which has a formula."""

    @property
    def scales(self) -> int:
        """How many there are."""
        return self.steps * self.rows

    @property
    def first(self) -> Expr:
        return Var(_SCORES)

    @property
    def step(self) -> int:
        return self.rows * self.row + self.keys

    @property
    def first_key(self) -> Expr:
        return times(Var(PART), self.step) + self.rows * self.row + self.first

    @property
    def elements(self) -> int:
        return self.scales + self.steps * self.step

    def score(self, row: Expr, key: Expr) -> Expr:
        return super().score(row, key) + self.first

    def scale(self, row: Expr) -> Expr:
        return times(Var(PART), self.rows) + row


@dataclass(frozen=True)
class OpenTile:
    """Settings that are the same at all sizes."""

    values: Candidate
    """Of the product with V; its ``y1`` queries are a block."""
    keys: int
    """Keys of a tile of scores."""
    parts: int
    """Parallel steps of a head."""

    def room(self, a: Attention) -> _OpenRoom:
        """The workspace at some sizes."""
        return _OpenRoom(a, self.parts, self.values.y1, self.turns(a))

    def turns(self, a: Attention) -> bool:
        """Whether it wants panels of keys that lie along the head."""
        return a.scores.along_k and self.keys == PANEL and self.values.y1 >= _TURNED_FOR

    def cut(self, rows: int, keys: int) -> OpenTile:
        """The tile of fewer queries and keys."""
        values = replace(self.values, y0=min(self.values.y0, rows), y1=rows)
        return replace(self, values=values, keys=keys)


def guess_open(a: Attention, parts: int, fixed: Collection[str]) -> OpenTile:
    """Settings for many sizes, of which ``a`` is one.

    Parameters
    ----------
    fixed
        Which of ``queries`` and ``keys`` are the same at all sizes.
    """
    many = 1 << 10
    queries = a.queries if "queries" in fixed else many
    keys = a.keys if "keys" in fixed else many
    tile = first_guess(queries, keys, a.depth)
    width = guessed_panel(replace(a.scores, m=2, n=keys))
    if a.scores.along_k:
        turned = tile.y1 >= _TURNED_FOR and parts <= MOST_TURNS
        width = PANEL if turned else DOT_COLUMNS
    # As many keys at a time as a vector has, so that as many are left of both.
    tile = replace(tile, r0=min(LANES, keys), r1=1 << 30)
    return OpenTile(tile, min(width, keys), parts)


def schedule_open(program: Program, a: Attention, tile: OpenTile) -> Scheduled:
    """The loops of a tile that is no larger than the queries and keys.

    Raises
    ------
    CompileError
        When the tile does not fit.
    """
    rows, parts = tile.values.y1, tile.parts
    room = tile.room(a)
    block = Block(program, a, rows, room, open=True)
    head: Expr = Var(PART) // parts if parts > 1 else Var(PART)
    body: list[Statement] = [
        *bound(a.scores.batch, a.score_steps, head, block.in_panels(tile.keys)),
        *block.weights(),
        *bound(a.values.batch, a.value_steps, head, block.values(tile.values)),
    ]
    first = Binary("min", times(Var(BLOCK), rows), int32(a.queries - rows))
    # The last block goes with the one before, whose rows it repeats: no other thread has these.
    others, part = -(-a.queries // rows) - 1, Var(PART) % parts
    begin: Expr = int32(0)
    end: Expr = int32(others + 1)
    if parts > 1:
        begin = times(part, others) // parts
        next_part = plus(part, 1)
        end = times(next_part, others) // parts + next_part // parts
    body = block.over_blocks(begin, end, head, [Let(FIRST, first, body)])
    body = [For(PART, Var(BEGIN), Var(END), 1, body)]
    return Scheduled([Let(_SCORES, int32(room.scales), body)], room.steps)


def with_open_workspace(program: Program, a: Attention, tile: OpenTile) -> Program:
    """The program with room for the scores of one block in each parallel step."""
    return with_room(program, tile.room(a))
