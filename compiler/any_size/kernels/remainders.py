"""The remainders that sizes can leave: those of tiles that no size leaves need no code."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.model.size import Apply, Dim, Size
from nnjit_studio.records.candidate import Candidate

_MOST = 1 << 16
"""Sizes that are looked at."""
_NOT_BLOCKED = 1 << 30
"""Depth of a reduction block that no size reaches."""


def remainders(selectors: Sequence[tuple[Size, int]]) -> set[tuple[int, ...]]:
    """All that sizes of the dimensions leave together, by the selectors' divisors.

    A size with floor divisions repeats its remainders with the product of all divisors, so a
    period of each dimension tells all of them; where it is too long to be looked at, all may come.

    Raises
    ------
    ModelError
        When a tile is cut of a minimum or maximum, which have no period.
    """
    dims = sorted({dim for value, _ in selectors for dim in value.dims}, key=str)
    ranges = [range(_period(dim, selectors)) for dim in dims]
    if math.prod(map(len, ranges)) > _MOST:
        return set(itertools.product(*(range(by) for _, by in selectors)))
    found = set()
    for steps in itertools.product(*ranges):
        sizes = {dim.name: dim.step * n for dim, n in zip(dims, steps, strict=True)}
        found.add(tuple(value.at(sizes) % by for value, by in selectors))
    return found


def _period(dim: Dim, selectors: Sequence[tuple[Size, int]]) -> int:
    """Steps of a dimension after which the remainders come again."""
    periods = [by * _divisor(value) for value, by in selectors if dim in value.dims]
    whole = math.lcm(*periods)
    return whole // math.gcd(whole, dim.step)


def _divisor(value: Size) -> int:
    """Product of all divisors in a size."""
    found = 1
    for monomial, _ in value.terms:
        for atom in monomial:
            if isinstance(atom, Apply):
                if atom.op != "floordiv":
                    raise refused(f"a tile is cut of a {atom.op} of sizes")
                found = math.lcm(found, _divisor(atom.a) * (atom.b.constant or 1))
    return found


def unblocked(tile: Candidate, products: Sequence[Contraction]) -> Candidate:
    """A tile without blocks along open axes: their remainders would be code of their own."""

    def varies(axis: str) -> bool:
        return len({getattr(product, axis) for product in products}) > 1

    return replace(
        tile,
        y1=tile.y0 if varies("m") else tile.y1,
        x1=tile.x0 if varies("n") else tile.x1,
        r1=_NOT_BLOCKED if varies("k") else tile.r1,
    )
