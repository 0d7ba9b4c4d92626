"""Whether the points of a nest may run in any order on memory as it was before the nest.

Accesses from the same base are compared exactly, by the integers that their affine difference
takes; what starts at different bases is compared when the loop is called, by address.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nnjit_studio.foreign_wasm.offload.lift.refusal import Refused
from nnjit_studio.foreign_wasm.offload.lift.terms import Atom, Linear

WIDTH = 4
"""Bytes of a float32: accesses closer than that overlap."""

_MOST_WAYS = 64
Span = tuple[int, int, int]
"""A coefficient, and the smallest and largest number that it is multiplied by."""


def check_order(
    stores: Sequence[tuple[Linear, int]],
    loads: Iterable[tuple[Linear, int]],
    trips: dict[Atom, int],
) -> None:
    """Refuse a nest in which an access may meet what another iteration stores.

    Parameters
    ----------
    stores, loads
        Addresses, each with its place in the order of accesses within an iteration.
    """
    for i, (store, order) in enumerate(stores):
        if meets(_between(store, store, trips), 0, apart=True):
            raise Refused("aliasing")
        for other, _ in stores[:i]:
            if _same_base(store, other) and _may_meet(store, other, trips):
                raise Refused("aliasing")
        for load, when in loads:
            if load == store:
                if when > order:
                    raise Refused("recurrence")
            elif _same_base(store, load) and _may_meet(store, load, trips):
                raise Refused("aliasing")


def _same_base(a: Linear, b: Linear) -> bool:
    return a.of_kind("entry") == b.of_kind("entry")


def _may_meet(a: Linear, b: Linear, trips: dict[Atom, int]) -> bool:
    return meets(_between(a, b, trips), a.constant - b.constant)


def _between(a: Linear, b: Linear, trips: dict[Atom, int]) -> list[Span]:
    """The difference of two addresses in two iterations, less the constant."""
    of_a, of_b = dict(a.of_kind("iter").terms), dict(b.of_kind("iter").terms)
    spans: list[Span] = []
    for atom in of_a.keys() | of_b.keys():
        most, x, y = trips[atom] - 1, of_a.get(atom, 0), of_b.get(atom, 0)
        if x == y:
            spans.append((x, -most, most))
        else:
            spans += [(x, 0, most)] * bool(x) + [(-y, 0, most)] * bool(y)
    return spans


def meets(spans: list[Span], constant: int, apart: bool = False) -> bool:
    """Whether ``constant + sum(coefficient * number)`` can be closer to 0 than ``WIDTH``.

    Parameters
    ----------
    apart
        Leave out that all numbers are 0.
    """
    ordered = sorted((s for s in spans if s[1] != s[2] or s[1]), key=lambda s: -abs(s[0]))
    return _meets(ordered, constant, apart, [_MOST_WAYS])


def _meets(spans: list[Span], constant: int, apart: bool, ways: list[int]) -> bool:
    if not spans:
        return not apart and abs(constant) < WIDTH
    ways[0] -= 1
    if ways[0] < 0:
        return True
    (c, low, high), rest = spans[0], spans[1:]
    reach = [sorted((k * a, k * b)) for k, a, b in rest]
    least = constant + sum(r[0] for r in reach) - (WIDTH - 1)
    most = constant + sum(r[1] for r in reach) + WIDTH - 1
    if c < 0:
        c, low, high = -c, -high, -low
    first, last = max(low, -(most // c)), min(high, -least // c)
    return any(
        _meets(rest, constant + c * n, apart and n == 0, ways) for n in range(first, last + 1)
    )


def reach(address: Linear, trips: Mapping[Atom, int]) -> tuple[int, int]:
    """The first byte and the one behind the last, from the base on."""
    moves = [c * (trips[atom] - 1) for atom, c in address.of_kind("iter").terms]
    low = address.constant + sum(min(m, 0) for m in moves)
    return low, address.constant + sum(max(m, 0) for m in moves) + WIDTH
