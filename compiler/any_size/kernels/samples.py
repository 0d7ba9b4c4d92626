"""Conditions on the sizes that a kernel is compiled at, so that its formulas hold at all others."""

from __future__ import annotations

import random
from collections.abc import Sequence

from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.model.size import Dim, Size

TURN = 16
"""Elements of an unrolled turn of a loop of vectors."""
SMALLEST = 34
"""Sizes are drawn from here on: all loops over them run, unrolled ones too."""
_SPREAD = 360
"""How far above the smallest ones sizes are drawn, at least."""
_TILE = 8
"""Most tiles divide maps of multiples of it."""
_REMAINDERS = (10, 11, 13, 14, 15, 9)
"""Of a turn of an unrolled loop of vectors: single vectors and single elements are left."""


def drawn_size(dim: Dim, low: int, wide: int, rng: random.Random) -> int:
    """A size of a dimension from ``low`` steps on, out of ``wide`` times the usual range."""
    return dim.step * rng.randint(low, low + max(_SPREAD // dim.step, TURN, 3 * low) * wide)


def leaves_remainders(extents: Sequence[int], turn: int, stage: int) -> bool:
    """Whether loops end with a remainder: another one each turn, then any, then perhaps none."""
    rests = [n % TURN for n in extents]
    if stage == 0:
        places = (turn + i for i in range(len(rests)))
        return rests == [_REMAINDERS[place % len(_REMAINDERS)] for place in places]
    return stage > 1 or all(rest > LANES and rest % LANES for rest in rests)


def is_padded(extent: Size, other: Size) -> bool:
    """Whether one is the other with something added, such as a padded width."""
    more = (extent - other).constant
    return more is not None and more > 0


def has_whole_tiles(extents: Sequence[int], turn: int, stage: int) -> bool:
    """Whether the map is a whole number of tiles, which every third sample has to be: the others do
    not tell ``ceil(n / tile)`` from ``n // tile + 1``. No extent is a power of two either, because
    products by these are shifts, which is other code. Late stages take anything."""
    whole = turn % 3 or all(n % _TILE == 0 for n in extents)
    return stage > 1 or (bool(whole) and all(n & (n - 1) for n in extents))
