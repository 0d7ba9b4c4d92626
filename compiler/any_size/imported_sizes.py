"""The sizes at which a model is imported."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Sequence, Set

from nnjit_studio.compiler.any_size.formulas.fit import Vector
from nnjit_studio.compiler.any_size.inputs import Sizes
from nnjit_studio.errors import ModelError
from nnjit_studio.model.size import LARGEST, Dim, Size, as_function

IMPORTS = 4
"""Three decide a formula, the fourth may refuse it."""
EVEN = 2
"""Even sizes behind odd ones."""
_DRAWN, _OWN_DRAWN, _BEST = 80, 64, 12
_SCALES = (1, 2, 4, 8, 16, 32, 64)
_APART = 8
_WIDE_SCALES = (128, 256, 512, 1024)
"""Of a dimension of which windows with wide strides see too few places at all others."""


def sizes_to_import(
    dims: Sequence[Dim],
    atoms: Sequence[Size],
    example: Sizes,
    odd: bool = False,
    but: Set[int] = frozenset(),
    seed: int = 1,
    unlike: bool = False,
) -> list[dict[str, int]]:
    """Sizes at which no atom is 1 or always the same, and at which formulas that differ are told
    apart. The last ones are large: what is one column of small sizes, and other code therefore, may
    be several there. With ``odd`` these are odd, and even ones follow, without which
    ``2 floordiv(n + 1, 2)`` is ``n + 1``. With ``unlike`` what follows from one dimension is rather
    not what follows from another, where two ranges of a grid would be one."""
    rng = random.Random(seed)
    whole = as_function(atoms)
    own = [as_function(a for a in atoms if {d.name for d in a.dims} == {dim.name}) for dim in dims]
    least = [_least_scale(dim, at, rng) for dim, at in zip(dims, own, strict=True)]
    # The larger of two sizes is each of them somewhere, but where windows want larger ones of one.
    both = itertools.combinations(range(len(dims)), 2)
    compared = [
        (a, b) for a, b in both if max(least[a], least[b]) < _APART * min(least[a], least[b])
    ]
    best: tuple[int, list[dict[str, int]]] | None = None
    for scale in _SCALES:
        ways = [
            _telling(dim, at, example[dim.name], _at_most(scale, first), odd, rng)
            for dim, at, first in zip(dims, own, least, strict=True)
        ]
        for _ in range(_DRAWN):
            columns = [rng.choice(mine) for mine in ways]
            drawn = [
                {dim.name: n for dim, n in zip(dims, sizes, strict=True)}
                for sizes in zip(*columns, strict=True)
            ]
            rows = list(zip(*map(whole, drawn), strict=True))
            apart = all(len(set(sizes.values())) == len(sizes) for sizes in drawn)
            if not apart or not all(but.isdisjoint(row) for row in rows) or _is_one(rows):
                continue
            alike = _alike_rows(rows) + sum(
                len({x < y for x, y in zip(columns[a], columns[b], strict=True)}) == 1
                for a, b in compared
            )
            alike += sum(_meeting(own, sizes) for sizes in drawn) if unlike else 0
            # Of two or three places there is often other code.
            alike += sum(n < 4 for sizes in columns for n in sizes)
            if best is None or alike < best[0]:
                best = alike, drawn
            if not alike:
                return drawn
    if best is None:
        raise ModelError("No sizes were found to import the model at.", "Fix its sizes with --dim.")
    return best[1]


def _meeting(own: Sequence[Callable[[Sizes], Vector]], sizes: Sizes) -> int:
    """How many sizes follow from two dimensions each."""
    found = [set(at(sizes)) for at in own]
    return sum(len(a & b) for a, b in itertools.combinations(found, 2))


def _at_most(scale: int, least: int) -> int:
    return max(min(scale * least, _SCALES[-1]), least)


def _telling(
    dim: Dim,
    at: Callable[[Sizes], Vector],
    example: int,
    scale: int,
    odd: bool,
    rng: random.Random,
) -> list[list[int]]:
    """Of sizes of one dimension that are drawn, those that tell most of its formulas apart."""
    drawn = [_drawn(dim, example, scale, odd, rng) for _ in range(_OWN_DRAWN)]
    return sorted(drawn, key=lambda sizes: _alike_rows(_rows(dim, at, sizes)))[:_BEST]


def _least_scale(dim: Dim, at: Callable[[Sizes], Vector], rng: random.Random) -> int:
    """The first at which a few draws of a dimension tell of each formula more than a line."""
    for scale in (*_SCALES, *_WIDE_SCALES):
        ways = (_rows(dim, at, _drawn(dim, 0, scale, False, rng)) for _ in range(_BEST))
        if any(not _is_one(rows) and all(len(set(row)) > 2 for row in rows) for rows in ways):
            return scale
    return _SCALES[0]


def _rows(dim: Dim, at: Callable[[Sizes], Vector], sizes: Iterable[int]) -> list[Vector]:
    return list(zip(*(at({dim.name: n}) for n in sizes), strict=True))


def _is_one(rows: Iterable[Vector]) -> bool:
    """Whether one of the rows is 1 somewhere, or always the same."""
    return any(min(row) < 2 or len(set(row)) == 1 for row in rows)


def _alike_rows(rows: Sequence[Vector]) -> int:
    """How many pairs of rows are a multiple of each other plus a constant, as all are where rows
    have two numbers: through two points goes a line of any size."""
    steps = [[n - row[0] for n in row[1:]] for row in rows]
    pairs = itertools.combinations(steps, 2)
    lines = sum(all(p * y[0] == q * x[0] for p, q in zip(x, y, strict=True)) for x, y in pairs)
    return lines + sum(len(set(row)) < 3 for row in rows)


def _drawn(dim: Dim, example: int, scale: int, odd: bool, rng: random.Random) -> list[int]:
    """Sizes of a dimension, the last one far from that at hand."""
    sizes = [_random_size(dim, scale, rng) for _ in range(IMPORTS - 1)]
    sizes.append(_far_size(dim, example, scale, rng))
    if odd:
        evens = [_size_of_kind(dim, n, 0) for n in sizes[-EVEN:]]
        sizes = [*(_size_of_kind(dim, n, 1) for n in sizes), *evens]
    return sizes


def _random_size(dim: Dim, scale: int, rng: random.Random) -> int:
    """A size of a dimension, at most some eight times a scale above the smallest ones."""
    most = dim.high // dim.step
    first = min(max(-(-dim.low // dim.step), 2 * scale), most)
    return dim.step * rng.randint(first, min(first + 6 * scale + 4, most))


def _size_of_kind(dim: Dim, n: int, odd: int) -> int:
    """An odd number of steps, or an even one, where the range has one."""
    beside = (n, n + dim.step, n - dim.step)
    return next((m for m in beside if dim.takes(m) and m // dim.step % 2 == odd), n)


def _far_size(dim: Dim, example: int, scale: int, rng: random.Random) -> int:
    """A size above that at hand, twice it where the scale allows that, or in the upper quarter of
    a range that ends."""
    at = example // dim.step
    first = at + max(2, at // 4)
    most = max(first + 1, 2 * at)
    if dim.high < LARGEST:
        most, least = dim.high // dim.step, -(-dim.low // dim.step)
        first = max(most - (most - least) // 4, min(least + 2, most))
        return dim.step * rng.randint(first, most)
    return max(dim.step * rng.randint(first, most), _random_size(dim, scale, rng))
