"""Formulas for the numbers of a kernel's code, which is compiled at a few sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from nnjit_studio.compiler.any_size.formulas.fit import Numbers, Vector
from nnjit_studio.compiler.any_size.kernels.functions import Constant, float_of
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.model.open_plan import Scalar
from nnjit_studio.model.size import Size

DIVISORS = (2, 4, 8, 16, 1024)
"""By which schedules cut: strides, lanes, panels, turns of vectors, blocks of a parallel loop."""
_CUTS = (4, 8, 16, 32, 64, 128)
"""By which counts and bytes are divided to whole vectors, turns and lines."""

_EACH = (2, 4, 8)
"""Places that a thread of a GPU takes."""

Sizes = Mapping[str, int]
Row = Sequence[Constant]
"""One constant of the code at all samples."""


def vector_of(value: Size, samples: Sequence[Sizes]) -> Vector:
    """A size at all samples."""
    return tuple(value.at(sizes) for sizes in samples)


def atoms_of(
    samples: Sequence[Sizes],
    bases: Sequence[Size],
    shapes: Sequence[Size],
    divisors: Iterable[int],
    told: Sequence[Size] = (),
) -> Numbers:
    """What the numbers of a kernel are made of: its sizes, cut and with one added; what is ``told``
    explains the same number alone."""
    atoms: dict[Vector, Size] = {}
    cut = [(b, by) for by in sorted(set(divisors)) for b in bases]
    made = [b // by for b, by in cut] + [(b + (by - 1)) // by for b, by in cut]
    # The last window of a convolution begins before the end: bounds count one row less.
    beside = [b + shift for shift in (-1, 1) for b in bases]
    plain = dict.fromkeys((*bases, *shapes))
    for value in (*plain, *beside, *made):
        vector = vector_of(value, samples)
        if len(set(vector)) > 1:
            atoms.setdefault(vector, value)
    # The last place of an axis is no other number, and nothing is a multiple of it.
    exact = {vector_of(value, samples): value for value in told}
    return Numbers(atoms, {v: a for v, a in atoms.items() if a in plain}, told=exact)


def bases_of(rows: Sequence[Row], atoms: Numbers) -> dict[Vector, Size]:
    """The whole numbers that have a formula: counts of turns are cut of them."""
    found = ((vector, atoms.formula(vector)) for vector in _changing(rows))
    return {vector: formula for vector, formula in found if formula is not None}


def parts_of(rows: Sequence[Row], bases: Mapping[Vector, Size]) -> Iterator[Size]:
    """Counts of a GPU's threads that take a few places each of what has a formula, rounded up: of
    two axes that are walked as one, whose product is no tensor's size."""
    for vector in (v for v in _changing(rows) if v not in bases):
        for (base, formula), by in itertools.product(bases.items(), _EACH):
            if vector == tuple(-(-n // by) for n in base):
                yield (formula + (by - 1)) // by
                break


def _changing(rows: Sequence[Row]) -> list[Vector]:
    """The whole numbers that are not the same at all samples."""
    vectors = {tuple(int(v) for _, v in row) for row in rows if row[0][0] == "i32"}
    return sorted(vector for vector in vectors if len(set(vector)) > 1)


def scalar_of(
    name: str, row: Row, atoms: Numbers, bases: Mapping[Vector, Size], whole: Sequence[Size]
) -> Scalar | None:
    """The parameter that a constant becomes; None where it stays one.

    Parameters
    ----------
    bases
        Of :func:`bases_of`.
    whole
        Dimensions and extents: products of two of them are looked at with something added to each.

    Raises
    ------
    ModelError
        When it has no formula.
    """
    kind, values = row[0][0], [value for _, value in row]
    if len(set(values)) == 1:
        return None
    if kind in ("f32", "v128"):
        floats = [v if kind == "f32" else float_of(int(v)) for v in values]
        for way in ("float", "inverse"):
            numbers = [v if way == "float" else 1 / v if v else math.inf for v in floats]
            if all(abs(n) < 2**31 and abs(n - round(n)) < 1e-3 * abs(n) for n in numbers):
                formula = atoms.formula(tuple(map(round, numbers)))
                if formula is not None:
                    return Scalar(way, formula)
        pair = atoms.quotient(floats)
        if pair is not None:
            return Scalar("quotient", *pair)
    if kind != "f32":
        vector = tuple(map(int, values))
        # What a window with a stride sees of an extent ends in one place or the next.
        strides = sorted({by for value in whole for _, by in value.divided()} - {*_CUTS})
        formula = (
            atoms.formula(vector)
            or atoms.cut_formula(vector, bases, _CUTS)
            or atoms.floored_formula(vector, whole, (*_CUTS, *strides))
            or atoms.shifted_formula(vector, whole)
            or atoms.behind_formula(vector, whole, _CUTS)
        )
        if formula is not None:
            return Scalar("int", formula)
    raise refused(f"a number of {name} has no formula: {', '.join(map(str, values))}")
