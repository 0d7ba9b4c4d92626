"""Sizes at which the WGSL of a kernel for any size is made."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

from nnjit_studio.compiler.any_size.kernels.samples import SMALLEST
from nnjit_studio.compiler.any_size.kernels.scalars import Sizes
from nnjit_studio.model.size import Dim, Size, as_function

_DRAWS = 8000
_SPREAD = {1: 4000, 2: 300, 3: 110}
"""How far above the smallest ones sizes are drawn, by the number of dimensions: indices of any of
them fit into 31 bits."""
_LARGEST_POWER = 3
_WITNESSES = 3
"""Of each dimension."""


def drawn_sizes(dims: Sequence[Dim], bases: Sequence[Size], behind: int, count: int) -> list[Sizes]:
    """Sizes that are as odd as may be, or one behind a multiple of as large a power of two as may
    be, all of them and what follows from them."""
    rng, spread = random.Random(0), _SPREAD.get(len(dims), 60)
    at = as_function(bases)
    scored: dict[tuple[int, ...], tuple[int, Sizes]] = {}
    for _ in range(_DRAWS):
        sizes = {}
        for d in dims:
            low = -(-max(d.low, SMALLEST) // d.step)
            sizes[d.name] = d.step * rng.randint(low, low + max(spread // d.step, 40))
        key = at(sizes)
        if len(set(sizes.values())) == len(sizes) and min(key, default=2) > behind:
            twos = sum(_power_of_two(n - behind) for n in key)
            scored.setdefault(key, (-twos if behind else twos, sizes))
    best = sorted(scored.values(), key=lambda each: each[0])
    return [sizes for _, sizes in best[:count]]


def even_sizes(dims: Sequence[Dim]) -> Iterator[Sizes]:
    """Sizes of which one is even, but no multiple of four: texts have no vectors there either."""
    rng = random.Random(0)
    for turned, _ in itertools.product(dims, range(_WITNESSES)):
        sizes = {}
        for d in dims:
            odd = 2 * (max(d.low, SMALLEST) // d.step + rng.randint(0, 40)) + 1
            sizes[d.name] = d.step * odd * (2 if d is turned else 1)
        yield sizes


def neighbours(dims: Sequence[Dim], bases: Sequence[Size]) -> Iterator[Sizes]:
    """Where sizes differ by a constant, such as a past and the keys with it: each dimension a
    multiple of four, and one before one. Else ``ceil(n / 4)`` may stand for ``ceil((n + 1) / 4)``,
    since of odd sizes and their neighbours no one is such a multiple."""
    if not any((a - b).constant for a, b in itertools.combinations(bases, 2)):
        return
    for turned, behind in itertools.product(dims, (0, 1)):
        sizes = {d.name: d.step * (2 * max(d.low, SMALLEST) + 7) for d in dims}
        sizes[turned.name] = turned.step * 4 * (max(turned.low, SMALLEST) + 4) - behind
        if not sizes[turned.name] % turned.step:
            yield sizes


def _power_of_two(n: int) -> int:
    """How often 2 divides a number, at most :data:`_LARGEST_POWER` times."""
    return min(_LARGEST_POWER, (n & -n).bit_length() - 1)
