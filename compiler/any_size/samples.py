"""Which sizes a kernel is compiled at: their loops end in every way that code has to know."""

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
_TILE = 8
"""Most tiles divide maps of multiples of it."""
_REMAINDERS = (10, 11, 13, 14, 15, 9)
"""Of a turn of an unrolled loop of vectors: single vectors and single elements are left."""


def drawn_size(dim: Dim, low: int, wide: int, rng: random.Random) -> int:
    return dim.step * rng.randint(low, low + max(_SPREAD // dim.step, TURN, 3 * low) * wide)


def remain(extents: Sequence[int], turn: int, stage: int) -> bool:
    """Whether loops end with a remainder: another one each turn, then any, then perhaps none."""
    rests = [n % TURN for n in extents]
    if stage == 0:
        places = (turn + i for i in range(len(rests)))
        return rests == [_REMAINDERS[place % len(_REMAINDERS)] for place in places]
    return stage > 1 or all(rest > LANES and rest % LANES for rest in rests)


def is_more(extent: Size, other: Size) -> bool:
    """Whether one is the other with something added, such as a padded width."""
    more = (extent - other).constant
    return more is not None and more > 0


def divided(extents: Sequence[int], turn: int, stage: int) -> bool:
    """Whether tiles divide a map each third turn, as long as that is found: else a count of tiles
    is taken for that of whole ones and one. Strides that are a power of two are shifts."""
    whole = turn % 3 or all(n % _TILE == 0 for n in extents)
    return stage > 1 or (bool(whole) and all(n & (n - 1) for n in extents))
