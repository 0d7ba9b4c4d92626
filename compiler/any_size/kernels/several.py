"""Numbers of a kernel at several sizes at once, so that it is compiled one time for all.

Where its program has a :class:`Several`, schedule and lowering compute with it as with a number;
where they ask something that one size answers otherwise than another, there is no code for all.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, NoReturn


class Differs(Exception):
    """What is asked of numbers at several sizes has no one answer."""


class Several:
    """A whole number at several sizes, which is not the same at all of them."""

    __slots__ = ("values",)

    def __init__(self, values: tuple[int, ...]) -> None:
        self.values = values

    def __hash__(self) -> int:
        return hash(self.values)

    def __neg__(self) -> Any:
        return several(map(operator.neg, self.values))

    def __abs__(self) -> Any:
        return several(map(abs, self.values))

    def __str__(self) -> str:
        return "_".join(map(str, self.values))  # a part of names

    def bit_length(self) -> Any:
        """Of the number at each size."""
        return several(n.bit_length() for n in self.values)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

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


for _name in (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
):
    setattr(Several, f"__{_name}__", _each(getattr(operator, f"__{_name}__")))
    setattr(Several, f"__r{_name}__", _each(getattr(operator, f"__{_name}__"), turned=True))
for _name in ("lt", "le", "eq", "ne", "gt", "ge"):
    setattr(Several, f"__{_name}__", _all(getattr(operator, _name)))


def _one(answers: Iterable[bool]) -> bool:
    given = set(answers)
    if len(given) > 1:
        raise Differs
    return given.pop()


def several(values: Iterable[int]) -> Any:
    """Numbers at several sizes as one; a number where they are equal."""
    given = tuple(values)
    return given[0] if given.count(given[0]) == len(given) else Several(given)


def at(value: Any, sample: int) -> Any:
    """A number, or what it is at one of the sizes."""
    return value.values[sample] if type(value) is Several else value


def first(value: Any) -> Any:
    """A number, or what it is at the first of the sizes."""
    return at(value, 0)
