"""Attention as one kernel for any number of queries and keys: its tile, and what chooses it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from nnjit_studio.compiler.any_size.formulas.fit import Numbers
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.ir.loops import Scheduled
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.recognize.attention import Attention
from nnjit_studio.compiler.schedule.attention_open import (
    OpenTile,
    guess_open,
    schedule_open,
    with_open_workspace,
)
from nnjit_studio.compiler.schedule.matmul import PARTS
from nnjit_studio.compiler.templates import match
from nnjit_studio.model import DTYPE_BYTES
from nnjit_studio.model.size import Size, as_function, least, size

QUERIES, KEYS = "queries", "keys"


@dataclass(frozen=True)
class OpenAttention:
    """Of an attention at several sizes: what is the same at all of them."""

    tile: OpenTile
    selectors: dict[str, tuple[Size, int]]
    """By ``queries`` or ``keys``, what is 0 where there are fewer than the tile has."""
    few: dict[str, int]
    """What a tile has then: a part of any number of them."""
    heads: Size
    keys: Size
    depth: int
    """Of keys that are turned, or 0."""

    @cached_property
    def units(self) -> tuple[Size, ...]:
        """Of a row of scores: what it has room for, and full vectors. Where sizes leave two or
        three keys alone, one is the other and one more, so that they have to be looked at in this
        order."""
        return (self.keys + (self._unit - 1)) // self._unit, self.keys // LANES

    @property
    def workspace(self) -> Size:
        """Bytes of the scores and turned keys of all parallel steps."""
        rows, row = self.tile.values.y1, self.units[0] * self._unit
        steps = self.heads * (self.tile.parts * DTYPE_BYTES["f32"])
        return steps * (row * (rows + self.depth) + rows)

    @property
    def _unit(self) -> int:
        return self.tile.keys if self.depth else LANES

    @property
    def cuts(self) -> tuple[int, int]:
        """By which keys and queries are cut."""
        return self.tile.keys, self.tile.values.y1

    def takes(self, sizes: Mapping[str, int]) -> bool:
        """Whether its code at these sizes is that of all: loops over keys that are left, of
        vectors and of single ones, have several turns, and no product by a number of vectors is
        a shift."""
        if self.keys.constant is not None:
            return True
        keys, row = self._lengths(sizes)
        vectors, rest = divmod(keys, LANES)
        return rest > 1 and vectors % LANES > 1 and row.bit_count() > 1

    @cached_property
    def _lengths(self) -> Callable[[Mapping[str, int]], tuple[int, ...]]:
        return as_function((self.keys, self.units[0]))

    def prepared(self, program: Program) -> Program:
        """The program at one of the sizes, with its workspace."""
        return with_open_workspace(program, _attention(program), self.tile)

    def loops(self, program: Program, small: Collection[str]) -> Scheduled:
        """Of such a program; ``small`` are the selectors that are 0."""
        rows = self.few[QUERIES] if QUERIES in small else self.tile.values.y1
        keys = self.few[KEYS] if KEYS in small else self.tile.keys
        return schedule_open(program, _attention(program), self.tile.cut(rows, keys))


def open_attention(
    name: str, programs: Sequence[Program], numbers: Numbers
) -> OpenAttention | None:
    """One attention at several sizes; None where the programs are none.

    Raises
    ------
    ModelError
        When a number of queries, keys or heads has no formula.
    """
    matches = [match(program) for program in programs]
    found = [m.subject for m in matches if m and isinstance(m.subject, Attention)]
    if len(found) < len(programs):
        return None

    def formula(values: Sequence[int]) -> Size:
        made = size(values[0]) if len(set(values)) == 1 else numbers.formula(tuple(values))
        if made is None:
            raise refused(f"a size of {name} has no formula")
        return made

    counts = {QUERIES: formula([a.queries for a in found]), KEYS: formula([a.keys for a in found])}
    heads = formula([a.batch for a in found])
    # Heads alone tell the parts: a batch may be as small as one.
    parts = max(1, PARTS // _factor(heads))
    tile = guess_open(found[0], parts, [a for a, n in counts.items() if n.constant is not None])
    selectors, few = {}, {}
    for axis, of_tile in ((QUERIES, tile.values.y1), (KEYS, tile.keys)):
        few[axis] = math.gcd(_factor(counts[axis]), of_tile)
        fits = least(counts[axis] // of_tile, 1)
        if few[axis] < of_tile and fits.constant is None:
            selectors[axis] = fits, 2
    depth = found[0].depth if tile.turns(found[0]) else 0
    return OpenAttention(tile, selectors, few, heads, counts[KEYS], depth)


def _attention(program: Program) -> Attention:
    found = match(program)
    assert found and isinstance(found.subject, Attention)
    return found.subject


def _factor(count: Size) -> int:
    """What any number of them is a multiple of."""
    return math.gcd(*(factor for _, factor in count.terms))
