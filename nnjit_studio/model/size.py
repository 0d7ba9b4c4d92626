"""Sizes that stay open: sums of products of dimensions, in one canonical form.

A :class:`Size` is a polynomial with whole coefficients over atoms: dimensions with their
ranges, and floor divisions, minima and maxima of other sizes. Equal forms are equal sizes;
what is not decided by form may be decided by interval arithmetic over the ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, total_ordering

LARGEST = 1 << 30
"""Of a dimension that nobody bounds."""


@dataclass(frozen=True)
class Dim:
    """An open dimension: a name and its range, inclusive; sizes are multiples of ``step``."""

    name: str
    low: int = 1
    high: int = LARGEST
    step: int = 1

    def takes(self, n: int) -> bool:
        """Whether it may have this size."""
        return self.low <= n <= self.high and n % self.step == 0

    @property
    def text(self) -> str:
        """The range in words."""
        every = f", a multiple of {self.step}" if self.step > 1 else ""
        return (
            f"{self.low} to {self.high}{every}"
            if self.high < LARGEST
            else (f"{self.low} or more{every}")
        )

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Apply:
    """``floordiv`` of a size by a positive number, ``min`` or ``max`` of two sizes."""

    op: str
    a: Size
    b: Size

    def __str__(self) -> str:
        return f"{self.op}({self.a}, {self.b})"


Atom = Dim | Apply
Monomial = tuple[Atom, ...]


@total_ordering
@dataclass(frozen=True)
class Size:
    """A sum of ``coefficient * product of atoms``, ordered; the empty product is the constant."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    def __add__(self, other: Size | int) -> Size:
        return _sum((*self.terms, *size(other).terms))

    def __sub__(self, other: Size | int) -> Size:
        return self + size(other) * -1

    def __mul__(self, other: Size | int) -> Size:
        return _sum(
            (tuple(sorted((*a, *b), key=str)), x * y)
            for a, x in self.terms
            for b, y in size(other).terms
        )

    def __floordiv__(self, divisor: int) -> Size:
        """Rounds down. What the divisor divides leaves the division, and divisions of
        divisions become one."""
        if divisor < 1:
            raise ValueError(f"a size is divided by {divisor}")
        whole = _sum((m, c // divisor) for m, c in self.terms if c % divisor == 0)
        rest = _sum((m, c) for m, c in self.terms if c % divisor)
        found = rest.constant
        if found is not None:
            return whole + found // divisor
        shift = dict(rest.terms).get((), 0)
        inner = (rest - shift).terms
        if len(inner) == 1 and inner[0][1] == 1 and len(inner[0][0]) == 1:
            atom = inner[0][0][0]
            if isinstance(atom, Apply) and atom.op == "floordiv":
                by = atom.b.constant or 1
                return whole + (atom.a + shift * by) // (by * divisor)
        low, high = rest.bounds()
        if low // divisor == high // divisor:
            return whole + low // divisor
        return whole + _of(Apply("floordiv", rest, size(divisor)))

    def __lt__(self, other: Size) -> bool:
        return str(self) < str(other)  # any order will do, if it is one

    @property
    def constant(self) -> int | None:
        """The number, where it is one."""
        if not self.terms:
            return 0
        return self.terms[0][1] if self.terms[0][0] == () and len(self.terms) == 1 else None

    @property
    def dims(self) -> frozenset[Dim]:
        """The dimensions that it depends on."""
        found: set[Dim] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                found |= {atom} if isinstance(atom, Dim) else atom.a.dims | atom.b.dims
        return frozenset(found)

    @property
    def is_rounded(self) -> bool:
        """Whether anything in it is a floor division, or the smaller or larger of two."""
        return any(isinstance(atom, Apply) for monomial, _ in self.terms for atom in monomial)

    def divided(self) -> Iterator[tuple[Dim, int]]:
        """Dimensions of which it has parts that are divided, and by what."""
        for atom in (atom for monomial, _ in self.terms for atom in monomial):
            if isinstance(atom, Apply):
                yield from (*atom.a.divided(), *atom.b.divided())
                if atom.op == "floordiv":
                    yield from ((dim, atom.b.constant or 1) for dim in atom.a.dims)

    def at(self, sizes: Mapping[str, int]) -> int:
        """The number at the sizes of its dimensions, by name."""
        return self._at(sizes)

    @cached_property
    def _at(self) -> Callable[[Mapping[str, int]], int]:
        """Made once: a bundle's export asks the same size thousands of times."""
        return eval(f"lambda sizes: {_code(self)}")  # type: ignore[no-any-return]

    def bounds(self) -> tuple[int, int]:
        """No size in the ranges of the dimensions is below the first or above the second."""
        low = high = 0
        for monomial, c in self.terms:
            a = b = c
            for atom in monomial:
                x, y = _atom_bounds(atom)
                corners = (a * x, a * y, b * x, b * y)
                a, b = min(corners), max(corners)
            low, high = low + min(a, b), high + max(a, b)
        return low, high

    def at_most(self, other: Size | int) -> bool:
        """Whether it is proven to be no larger, at any sizes."""
        difference = size(other) - self
        return difference.bounds()[0] >= 0 or _without_divisions(difference).bounds()[0] >= 0

    def __str__(self) -> str:
        parts = [
            "*".join([*([str(c)] if c != 1 or not m else []), *map(str, m)]) for m, c in self.terms
        ]
        return " + ".join(parts) or "0"


def size(value: Size | Dim | int) -> Size:
    """A number or a dimension as a size."""
    if isinstance(value, Size):
        return value
    return _of(value) if isinstance(value, Dim) else _sum([((), value)])


def as_function(sizes: Iterable[Size]) -> Callable[[Mapping[str, int]], tuple[int, ...]]:
    """What :meth:`Size.at` says of each, as one function: for who asks ten thousand times."""
    return eval(f"lambda sizes: ({''.join(f'{_code(each)}, ' for each in sizes)})")  # type: ignore[no-any-return]


def as_test(remainders: Iterable[tuple[Size, int, int]]) -> Callable[[Mapping[str, int]], bool]:
    """Whether sizes, divided by the first number, leave the second one; as one function, too."""
    tests = " and ".join(f"{_code(each)} % {by} == {rest}" for each, by, rest in remainders)
    return eval(f"lambda sizes: {tests or True}")  # type: ignore[no-any-return]


def _code(value: Size | Atom) -> str:
    """An expression of Python over the mapping ``sizes``."""
    if isinstance(value, Dim):
        return f"sizes[{value.name!r}]"
    if isinstance(value, Apply):
        a, b = _code(value.a), _code(value.b)
        return f"({a} // {b})" if value.op == "floordiv" else f"{value.op}({a}, {b})"
    terms = ("*".join([str(c), *map(_code, monomial)]) for monomial, c in value.terms)
    return f"({' + '.join(terms) or '0'})"


def least(a: Size | int, b: Size | int) -> Size:
    """The smaller of two sizes."""
    return _choice("min", size(a), size(b), Size.at_most)


def most(a: Size | int, b: Size | int) -> Size:
    """The larger of two sizes."""
    return _choice("max", size(a), size(b), lambda a, b: size(b).at_most(a))


def _choice(op: str, a: Size, b: Size, first: Callable[[Size, Size], bool]) -> Size:
    if first(a, b):
        return a
    if first(b, a):
        return b
    return _of(Apply(op, *sorted((a, b))))


def _of(atom: Atom) -> Size:
    return Size((((atom,), 1),))


def _sum(terms: Iterable[tuple[Monomial, int]]) -> Size:
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    ordered = sorted(total.items(), key=lambda term: (len(term[0]), str(term[0])))
    return Size(tuple((m, c) for m, c in ordered if c))


def _without_divisions(value: Size) -> Size:
    """A size that is negative wherever the value is: ``x - q < q * (x // q) <= x``."""
    for monomial, c in value.terms:
        atom = monomial[0] if len(monomial) == 1 else None
        if isinstance(atom, Apply) and atom.op == "floordiv":
            by = atom.b.constant or 1
            rest = (value - _of(atom) * c) * by
            return _without_divisions(rest + (atom.a if c < 0 else atom.a - (by - 1)) * c)
    return value


def _atom_bounds(atom: Atom) -> tuple[int, int]:
    if isinstance(atom, Dim):
        return atom.low, atom.high
    (a, b), (c, d) = atom.a.bounds(), atom.b.bounds()
    if atom.op == "floordiv":
        return a // c, b // c
    return (min(a, c), min(b, d)) if atom.op == "min" else (max(a, c), max(b, d))
