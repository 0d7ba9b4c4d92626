"""How often a loop runs."""

from __future__ import annotations

from nnjit_studio.foreign_wasm.offload.lift.refusal import Refused
from nnjit_studio.foreign_wasm.offload.lift.terms import WRAP, Atom, Compare, Linear, Value, number

MOST = 1 << 31


def trip_count(condition: Value, counter: Atom, ranges: list[tuple[Linear, int, int]]) -> int:
    """Iterations of a loop that goes on while a condition holds at its end.

    Parameters
    ----------
    ranges
        Gets the forms that must not wrap, with their bounds.

    Raises
    ------
    Refused
        When the number is not a constant.
    """
    if isinstance(condition, Linear):
        condition = Compare("ne", condition, number(0))
    if not isinstance(condition, Compare):
        raise Refused("dynamic-trip-count")
    a, b, name = condition.a, condition.b, condition.name
    if name == "ne":
        last = _equal(_line(a.plus(b, -1), counter))
    elif name == "eq":
        last = 0 if _equal(_line(a.plus(b, -1), counter)) != 0 else None
    else:
        last = _crossing(name, *_lines(a, b, counter, name, ranges))
    if last is None or last >= MOST:
        raise Refused("dynamic-trip-count")
    return last + 1


def _line(value: Linear, counter: Atom) -> tuple[int, int]:
    """Start and step of a value that depends on the counter alone."""
    if any(atom != counter for atom, _ in value.terms):
        raise Refused("dynamic-trip-count")
    return value.constant, value.of_atom(counter)


def _lines(
    a: Linear, b: Linear, counter: Atom, name: str, ranges: list[tuple[Linear, int, int]]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Two values without what they have in common, the counters of loops around."""
    common = Linear(tuple(t for t in a.terms if t in b.terms and t[0] != counter))
    if any(atom.kind != "iter" for atom, _ in common.terms):
        raise Refused("dynamic-trip-count")
    if common.terms:
        low, high = (0, WRAP) if name.endswith("u") else (-WRAP // 2, WRAP // 2)
        ranges += [(a, low, high), (b, low, high)]
    return _line(a.plus(common, -1), counter), _line(b.plus(common, -1), counter)


def _equal(line: tuple[int, int]) -> int | None:
    """The first iteration in which a value is 0."""
    start, step = line
    if start == 0:
        return 0
    if step == 0:
        return None
    ways = ((-start) % WRAP, step % WRAP) if step > 0 else (start % WRAP, (-step) % WRAP)
    return ways[0] // ways[1] if ways[0] % ways[1] == 0 else None


def _crossing(name: str, a: tuple[int, int], b: tuple[int, int]) -> int | None:
    """The first iteration in which a comparison of order fails."""
    word, _, kind = name.partition("_")
    if word in ("gt", "ge"):
        a, b, word = b, a, "lt" if word == "gt" else "le"
    (first, up), (limit, down) = (_ranged(line, kind) for line in (a, b))
    gap, closing = limit - first + (word == "le"), up - down
    if gap <= 0:
        return 0
    if closing <= 0:
        return None
    last = -(-gap // closing)
    low, high = (0, WRAP) if kind == "u" else (-WRAP // 2, WRAP // 2)
    ends = (first + up * last, limit + down * last)
    return last if all(low <= end < high for end in ends) else None


def _ranged(line: tuple[int, int], kind: str) -> tuple[int, int]:
    start, step = line
    return (start % WRAP if kind == "u" else start), step
