"""Sizes at which the WGSL of a kernel for any size is made."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from functools import lru_cache

from nnjit_studio.compiler.any_size.kernels.samples import SMALLEST
from nnjit_studio.compiler.any_size.kernels.scalars import Sizes
from nnjit_studio.model.size import Dim, Size, as_function

_DRAWS = 8000
_SPREAD = {1: 4000, 2: 300, 3: 110}
"""How far above the smallest ones sizes are drawn, by the number of dimensions: indices of any of
them fit into 31 bits."""
_TWOS = (3, 0, 1, 0, 2, 0, 1, 0)
"""How often 2 divides a number, at most three times, by its remainder by eight."""
_WITNESSES = 3
"""Of each dimension."""


@lru_cache(maxsize=64)
def drawn_sizes(
    dims: tuple[Dim, ...], bases: tuple[Size, ...], behind: int, count: int
) -> tuple[Sizes, ...]:
    """Sizes that are as odd as may be, or one behind a multiple of as large a power of two as may
    be, all of them and what follows from them."""
    at = as_function(bases)
    scored: dict[tuple[int, ...], tuple[int, Sizes]] = {}
    for sizes in _draws(dims):
        key = at(sizes)
        if key not in scored and min(key, default=2) > behind:
            twos = sum([_TWOS[(n - behind) % len(_TWOS)] for n in key])
            scored[key] = -twos if behind else twos, sizes
    best = sorted(scored.values(), key=lambda each: each[0])
    return tuple(sizes for _, sizes in best[:count])


@lru_cache(maxsize=8)
def _draws(dims: tuple[Dim, ...]) -> list[Sizes]:
    """Sizes of which no two are equal; the same for all kernels."""
    rng, spread = random.Random(0), _SPREAD.get(len(dims), 60)
    drawn: list[Sizes] = []
    for _ in range(_DRAWS):
        sizes = {}
        for d in dims:
            low = -(-max(d.low, SMALLEST) // d.step)
            sizes[d.name] = d.step * rng.randint(low, low + max(spread // d.step, 40))
        if len(set(sizes.values())) == len(sizes):
            drawn.append(sizes)
    return drawn


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
