"""Numbers of a kernel at several sizes at once, so that its loops are lowered one time for all.

Loops of different sizes that differ in numbers alone become one tree, in which a :class:`Several`
stands where they differ. The lowering computes with it as with a number; where it asks something
that one size answers otherwise than another, there is no code for all of them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import repeat
from typing import Any, NoReturn


class Differs(Exception):
    """What is asked of numbers at several sizes has no one answer; ``fewest`` are the sizes that
    give another one than most, where they are known."""

    def __init__(self, fewest: frozenset[int] = frozenset()) -> None:
        super().__init__()
        self.fewest = fewest


class Several:
    """A whole number at several sizes, which is not the same at all of them."""

    __slots__ = ("values",)

    def __init__(self, values: tuple[int, ...]) -> None:
        self.values = values

    def __hash__(self) -> int:
        return hash(self.values)

    def __neg__(self) -> Any:
        return several(map(operator.neg, self.values))

    def __str__(self) -> str:
        return "_".join(map(str, self.values))  # a part of names

    def bit_length(self) -> Any:
        """Of the number at each size."""
        return several(n.bit_length() for n in self.values)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __bool__(self) -> bool:
        return _one(map(bool, self.values))

    def _alone(self) -> NoReturn:
        """Nothing takes it for the number of one size."""
        raise Differs

    __index__ = __int__ = __float__ = _alone


def _each(compute: Callable[[Any, Any], int], turned: bool = False) -> Callable[[Any, Any], Any]:
    def made(self: Several, other: Any) -> Any:
        others = other.values if type(other) is Several else repeat(other)
        pair = (others, self.values) if turned else (self.values, others)
        return several(map(compute, *pair))

    return made


def _all(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def made(self: Several, other: Any) -> bool:
        others = other.values if type(other) is Several else repeat(other)
        return _one(map(compare, self.values, others))

    return made


for _name in ("add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift"):
    setattr(Several, f"__{_name}__", _each(getattr(operator, f"__{_name}__")))
    setattr(Several, f"__r{_name}__", _each(getattr(operator, f"__{_name}__"), turned=True))
for _name in ("lt", "le", "eq", "ne", "gt", "ge"):
    setattr(Several, f"__{_name}__", _all(getattr(operator, _name)))


def _one(answers: Iterable[bool]) -> bool:
    given = tuple(answers)
    if given.count(given[0]) < len(given):
        rare = 2 * sum(given) < len(given)
        raise Differs(frozenset(i for i, answer in enumerate(given) if answer == rare))
    return given[0]


def several(values: Iterable[int]) -> Any:
    """Numbers at several sizes as one; a number where they are equal."""
    given = tuple(values)
    return given[0] if given.count(given[0]) == len(given) else Several(given)


def at(value: Any, sample: int) -> Any:
    """A number, or what it is at one of the sizes."""
    return value.values[sample] if type(value) is Several else value


def merged(trees: Sequence[Any]) -> Any:
    """One tree of several that differ in whole numbers alone.

    Parameters
    ----------
    trees
        Dataclasses, lists, tuples, texts and numbers.

    Raises
    ------
    Differs
        When they differ in more.
    """
    known: dict[tuple[int, ...], Any] = {}

    def visit(nodes: Sequence[Any]) -> Any:
        first = nodes[0]
        kind = type(first)
        if any(type(node) is not kind for node in nodes):
            raise Differs
        if issubclass(kind, (str, bool, float)) or first is None:
            if any(node != first for node in nodes):
                raise Differs
            return first
        if kind is int:
            return several(nodes)
        key = tuple(map(id, nodes))
        if key not in known:
            known[key] = children(kind, nodes)
        return known[key]

    def children(kind: Any, nodes: Sequence[Any]) -> Any:
        if is_dataclass(kind):
            parts = [[getattr(node, name) for node in nodes] for name in _names(kind)]
            return kind(*map(visit, parts))
        if not issubclass(kind, (list, tuple)) or len(set(map(len, nodes))) > 1:
            raise Differs
        made = [visit(each) for each in zip(*nodes, strict=True)]
        if kind is list:
            return made
        return tuple(made) if kind is tuple else kind(*made)  # a named one takes its parts

    return visit(trees)


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
