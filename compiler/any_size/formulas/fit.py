"""Formulas over open dimensions for numbers that are known at sample sizes.

The shapes of a model's tensors, at many sizes, tell its atoms: what a convolution leaves of a
width, what a Concat adds. The numbers of imported programs, at few sizes, are products of these.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.any_size.formulas.products import Products
from nnjit_studio.model.size import LARGEST, Dim, Size, least, most, size

Vector = tuple[int, ...]
"""One number for each sample."""
Slid = tuple[Vector, Vector, int, int, int]
"""Extents of a map, those that a window makes of it, its shift, its stride and its own extent."""
_SMALL = 64
"""A constant beside a product: what padding and positions add."""
_CONSTANTS = (0, _SMALL, 1 << 30)
"""The largest ones that are added, in the order in which formulas are looked for."""
_DIVISORS = (2, 3, 4, 5, 6, 8, 16, 32)
_DEGREE = 3
_MOST_ATOMS, _OF_WINDOWS = 80, 112
_OVER = 256


class Fit:
    """Formulas by vector; what is found serves as an atom of later ones.

    Parameters
    ----------
    samples
        The sizes of the samples, by the dimensions' names.
    slid
        What the model's windows make of extents: formulas that are known, where others are looked
        for.

    Attributes
    ----------
    found
        By vector; of what windows make of maps there are several where no sample tells them apart.
    places
        Shifts and strides of the windows.
    """

    def __init__(
        self,
        dims: Sequence[Dim],
        samples: Sequence[Mapping[str, int]],
        slid: Sequence[Slid] = (),
    ) -> None:
        self.samples = samples
        self.places = tuple(dict.fromkeys((shift, by) for _, _, shift, by, _ in slid if by > 1))
        self._slid = tuple(dict.fromkeys(slid))
        self.found = {tuple(s[d.name] for s in samples): [size(d)] for d in dims}

    @property
    def formulas(self) -> list[Size]:
        """All that were found."""
        return [formula for held in self.found.values() for formula in held]

    @property
    def seen(self) -> list[Size]:
        """What windows with strides see of maps, of which the last places may be left over; and
        signals with wide paddings."""
        strided = [each for each in self._slid if each[3] > 1]
        return [
            (formula - 1) * stride + own
            for _, after, _, stride, own in strided
            for formula in self.found.get(after, ())
        ] + [
            formula + pads
            for before, _, shift, stride, own in strided
            for formula in self.found.get(before, ())
            if (pads := own - stride + shift) > _SMALL
        ]

    def learn(self, vectors: Iterable[Vector]) -> None:
        """Take sizes of tensors, in order of execution, for atoms where a formula explains them."""
        looked_for = []
        for vector in vectors:
            if len(set(vector)) == 1:
                continue
            self._hold(vector, list(self._of_windows(vector)))
            if vector not in self.found:
                looked_for.append(vector)
                self._hold(vector, list(self._shapes(vector)))
        if any(len(held) > 1 for held in self.found.values()):  # which may have come later
            for vector in looked_for:
                self._hold(vector, list(self._shapes(vector)))

    def _hold(self, vector: Vector, made: Iterable[Size]) -> None:
        for formula in made:
            held = self.found.setdefault(vector, [])
            if all(_differ(formula, other) for other in held):
                held.append(formula)

    def _of_windows(self, vector: Vector) -> Iterator[Size]:
        """What windows make of the extents before them."""
        for before, after, shift, stride, _ in self._slid:
            for formula in self._before(before) if after == vector else ():
                made = (formula + shift) // stride
                if tuple(made.at(s) for s in self.samples) == vector:
                    yield made

    def _before(self, vector: Vector) -> Iterator[Size]:
        """Formulas of an extent, or of a size with anything added that is divided."""
        if vector in self.found:
            yield from tuple(self.found[vector])
            return
        for other, held in self.found.items():
            lines = [_line(np.array(vector), np.array(other), formula, LARGEST) for formula in held]
            if None not in lines:
                yield from filter(None, lines)
                return

    def _shapes(self, vector: Vector) -> Iterator[Size]:
        """What one operator makes of sizes before it, the same of all that samples have alike."""
        atoms = [(other, held) for other, held in self.found.items() if other != vector]
        v = np.array(vector)
        for other, held in atoms:
            lines = [_line(v, np.array(other), formula, LARGEST) for formula in held]
            if None not in lines:
                yield from filter(None, lines)
                return
        for (a, some), (b, others) in itertools.combinations_with_replacement(atoms, 2):
            pairs = list(itertools.product(some, others))
            if tuple(i + j for i, j in zip(a, b, strict=True)) == vector:
                yield from (x + y for x, y in pairs)
                return
            product = np.array(a) * np.array(b)
            if _line(v, product, size(0)) is not None:
                yield from filter(None, (_line(v, product, x * y) for x, y in pairs))
                return
        known = ((by, (shift,)) for shift, by in self.places)
        usual = ((n, (0, n - 1, *range(1, n - 1), *range(-1, -n, -1))) for n in _DIVISORS)
        for by, shifts in (*known, *usual):
            for (other, held), shift in itertools.product(reversed(atoms), shifts):
                if tuple((n + shift) // by for n in other) == vector:
                    yield from ((formula + shift) // by for formula in held)
                    return
        for other, held in atoms:  # what windows as large as an input leave of a map
            if len(sums := set(map(sum, zip(vector, other, strict=True)))) == 1:
                yield from (size(*sums) - formula for formula in held)
                return


class Numbers:
    """Formulas for the numbers of programs: a multiple of a product of atoms, plus a constant.

    Parameters
    ----------
    plain
        Atoms whose multiples go before all others: where samples leave no remainder, a part of a
        size is explained by what is cut of another one too.
    places
        Shifts and strides of the model's windows.
    told
        Formulas that explain the same number and no multiple of it.

    Attributes
    ----------
    guessed
        Whether a formula was found among so many that a further sample has to confirm it.
    """

    guessed = False

    def __init__(
        self,
        atoms: Mapping[Vector, Size],
        plain: Mapping[Vector, Size] | None = None,
        places: Sequence[tuple[int, int]] = (),
        most: int = _MOST_ATOMS,
        told: Mapping[Vector, Size] | None = None,
    ) -> None:
        self._places = places
        self._plain = Numbers(plain) if plain else None
        self._atoms = dict(list(atoms.items())[:most])
        self._given = dict(self._atoms)
        self._known: dict[Vector, Size | None] = {**atoms, **(told or {})}
        self._multiply()

    def _multiply(self) -> None:
        values = np.array(list(self._atoms), np.int64)
        self._products = [Products(values, np.arange(len(values))[:, None])]
        for _ in range(1, _DEGREE):
            self._products.append(self._products[-1].times(values))

    def learn(self, vectors: Iterable[Vector]) -> None:
        """Sizes with a little added, such as those of padded tensors, become atoms too."""
        for vector in dict.fromkeys(vectors):
            if len(set(vector)) > 1 and vector not in self._atoms:
                for other, formula in list(self._known.items()):
                    made = formula and _line(np.array(vector), np.array(other), formula)
                    if formula and made and (made - formula).constant is not None:
                        self._known[vector] = made
                        if len(self._atoms) < _MOST_ATOMS:
                            self._atoms[vector] = made
                        break
        self._multiply()

    def formula(self, vector: Vector) -> Size | None:
        """A formula for one number at all samples; None when nothing explains it."""
        if vector not in self._known:
            v = np.array(vector, np.int64)
            plain = self._plain._formula(v, (0,)) if self._plain else None
            found = plain or self._formula(v, _CONSTANTS) or self._seen(v)
            self._known[vector] = found or self._of_windows(vector) or self._chosen(v)
        return self._known[vector]

    def _of_windows(self, vector: Vector) -> Size | None:
        """A formula that no tensor's size told; an atom of later ones, as places are of scores."""
        found = self._windows._formula(np.array(vector, np.int64), (0,))
        self.guessed |= found is not None
        if found is not None and len(self._windows._atoms) < 2 * _MOST_ATOMS:
            self._windows._atoms[vector] = found
            self._windows._multiply()
        return found

    @cached_property
    def _windows(self) -> Numbers:
        """With what windows make of maps, where no sample told two such apart, and what strided
        ones of one element see: the last place of two is none."""
        atoms = dict(self._plain._atoms if self._plain else self._given)
        lines = [(v, f) for v, f in atoms.items() if len(f.dims) == 1]
        for v, f in lines:
            atoms.setdefault(tuple(2 * n - 1 for n in v), f * 2 - 1)
        seen: dict[Vector, Size] = {}
        unclear: set[Vector] = set()  # no sample tells which of two it is
        for (v, f), (shift, by) in itertools.product(lines, self._places):
            made, row = (f + shift) // by, tuple((n + shift) // by for n in v)
            if row not in atoms and _differ(seen.setdefault(row, made), made):
                unclear.add(row)
        atoms.update((row, f) for row, f in seen.items() if row not in unclear)
        return Numbers(atoms, most=_OF_WINDOWS)

    def _chosen(self, v: NDArray[np.int64]) -> Size | None:
        """The larger or the smaller of two sizes, where the samples show both."""
        for (a, x), (b, y) in itertools.combinations(self._atoms.items(), 2):
            for pick, formula in ((np.maximum, most), (np.minimum, least)):
                if np.array_equal(pick(a, b), v):
                    return formula(x, y)
        for a, x in self._atoms.items():  # no more than a number, where that is seen as well
            row = np.array(a, np.int64)
            by = max(1, int((v // np.maximum(row, 1)).max()))  # of each, such as bytes
            highest = int(v.max()) // by
            if (np.minimum(row, highest) * by == v).all() and (v == row * by).sum() > 1:
                self.guessed = True
                return least(x, highest) * by
        return None

    def _seen(self, v: NDArray[np.int64]) -> Size | None:
        """A formula ``factor * x * (stride * y + rest)``: what strided windows see of an unpadded
        map, of which the last places are left over at some sizes."""
        for row, x in self._atoms.items():
            if 0 in row:
                continue
            parts, left = np.divmod(v, np.array(row, np.int64))
            if left.any():
                continue
            factor = int(np.gcd.reduce(parts))
            # Through two points goes a line of any size.
            telling = ((o, y) for o, y in self._atoms.items() if len(set(o)) > 2)
            for other, y in telling:
                made = _line(parts // factor, np.array(other, np.int64), y) if factor else None
                if made is not None:
                    return x * made * factor
        return None

    def _formula(self, v: NDArray[np.int64], constants: Sequence[int]) -> Size | None:
        for constant in constants:
            for products in self._products:
                rows, factors = products.lines(v) if constant else products.multiples(v)
                rest = v[0] - factors * products.values[rows, 0]
                near = np.flatnonzero(abs(rest) <= constant)
                if len(near):
                    at = near[0]
                    product = self._product(products.parts[rows[at]])
                    return product * int(factors[at]) + int(rest[at])
        return None

    def cut_formula(
        self, vector: Vector, bases: Mapping[Vector, Size], divisors: Iterable[int]
    ) -> Size | None:
        """A formula for what is cut of a number that has one: a multiple of ``base // divisor``."""
        v = np.array(vector, np.int64)
        for (other, base), by in itertools.product(bases.items(), divisors):
            made = _line(v, np.array(other, np.int64) // by, base // by)
            if made is not None:
                return made
        return None

    def floored_formula(
        self, vector: Vector, bases: Sequence[Size], divisors: Iterable[int]
    ) -> Size | None:
        """A formula for what is cut of a size with anything added, as behind a padding."""
        known = {formula: np.array(row, np.int64) for row, formula in self._atoms.items()}
        v = np.array(vector, np.int64)
        for by, base in itertools.product(divisors, [b for b in bases if b in known]):
            for shift in range(by):
                cut = (known[base] + shift) // by
                if _line(v, cut, size(0)) is not None:
                    return _line(v, cut, (base + shift) // by)
        return None

    def behind_formula(
        self, vector: Vector, bases: Sequence[Size], divisors: Iterable[int]
    ) -> Size | None:
        """A formula for what is cut of a part that lies behind others: their sizes, and a multiple
        of its own ``base // divisor``."""
        known = {formula: np.array(row, np.int64) for row, formula in self._atoms.items()}
        parts, v = [b for b in bases if b in known], np.array(vector, np.int64)
        for first, last in itertools.combinations(range(len(parts)), 2):
            before, part = parts[first:last], parts[last]
            rest = v - sum(known[b] for b in before)
            for by in divisors:
                made = _line(rest, known[part] // by, part // by)
                if made is not None:
                    return sum(before, size(0)) + made
        return None

    def shifted_formula(self, vector: Vector, bases: Sequence[Size]) -> Size | None:
        """A formula ``a x y + b x + c y + d`` for two sizes: a product of both, each multiplied
        and with something added, such as the part of a padded map that strided windows see."""
        known = {formula: np.array(row, np.int64) for row, formula in self._atoms.items()}
        v, one = np.array(vector, np.int64), np.ones(len(vector), np.int64)
        for x, y in itertools.combinations([b for b in bases if b in known], 2):
            columns = np.stack([known[x] * known[y], known[x], known[y], one], 1)
            found = np.linalg.lstsq(columns.astype(np.float64), v.astype(np.float64), rcond=None)
            factors = np.rint(found[0]).astype(np.int64)
            if factors[0] and found[2] == len(factors) and (columns @ factors == v).all():
                a, b, c, d = factors.tolist()
                made: Size = x * y * a + x * b + y * c + d
                return made
        return None

    def quotient(self, values: Sequence[float]) -> tuple[Size, Size] | None:
        """Two sizes, or sizes less one, of which a float is the quotient at all samples: the scale
        of a map whose corners stay in place. One of them may be a number, as where a table is
        resized to a map."""
        near = {f - less: np.array(v) - less for v, f in self._atoms.items() for less in (0, 1)}
        wanted = np.array(values, np.float32)
        rows = np.array(list(near.values()), np.float64)
        above = np.rint(rows[:, 0] * wanted[0])
        fits = ((above[:, None] / np.maximum(rows, 1)).astype(np.float32) == wanted).all(1)
        if fits.any():
            at = int(np.flatnonzero(fits)[0])
            return size(int(above[at])), list(near)[at]
        for above, row in near.items():
            with np.errstate(divide="ignore", invalid="ignore"):
                fits = ((row / rows).astype(np.float32) == wanted).all(1)
            if fits.any():
                return above, list(near)[int(np.flatnonzero(fits)[0])]
        return None

    def _product(self, places: NDArray[np.intp]) -> Size:
        formulas = list(self._atoms.values())
        product = size(1)
        for place in places.tolist():
            product = product * formulas[place]
        return product


def _differ(a: Size, b: Size) -> bool:
    """Whether two formulas differ anywhere, for what windows leave over."""
    if a == b:
        return False
    paces = list(zip(sorted(a.dims | b.dims, key=str), itertools.count(1, 2), strict=False))
    drawn = ({d.name: d.step * (n * pace + _OVER) for d, pace in paces} for n in range(_OVER))
    return any(a.at(sizes) != b.at(sizes) for sizes in drawn)


def _line(
    v: NDArray[np.int64], x: NDArray[np.int64], formula: Size, most: int = _SMALL
) -> Size | None:
    """``factor * formula + constant`` for a constant of at most so much."""
    moved = np.flatnonzero(x != x[0])
    if not len(moved):
        return None
    at = moved[0]
    factor, rest = divmod(int(v[at] - v[0]), int(x[at] - x[0]))
    constant = int(v[0]) - factor * int(x[0])
    if rest or factor < 1 or abs(constant) > most or (factor * x + constant != v).any():
        return None
    return formula * factor + constant
