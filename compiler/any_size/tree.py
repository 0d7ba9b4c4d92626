"""The numbers in a tree of frozen dataclasses and tuples, in order: read out, and exchanged."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

Number = int | float
_T = TypeVar("_T")


def numbers(tree: Any) -> Iterator[Number]:
    """Every int and float of the tree, in a fixed order; truth values are none."""
    if isinstance(tree, tuple):
        for part in tree:
            yield from numbers(part)
    elif is_dataclass(tree):
        for name in _names(type(tree)):
            yield from numbers(getattr(tree, name))
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield tree


def with_numbers(tree: _T, values: Iterator[Number]) -> _T:
    """The tree with its numbers taken from an iterator, in the order of :func:`numbers`."""
    made: _T = _with_numbers(tree, values)
    return made


def _with_numbers(tree: Any, values: Iterator[Number]) -> Any:
    if isinstance(tree, tuple):
        return tuple([_with_numbers(part, values) for part in tree])
    if is_dataclass(tree):
        kind: Any = type(tree)
        return kind(*[_with_numbers(getattr(tree, name), values) for name in _names(kind)])
    if isinstance(tree, int | float) and not isinstance(tree, bool):
        return next(values)
    return tree


def template(tree: _T, places: Container[int]) -> Callable[[Mapping[int, Number]], _T]:
    """The tree as a function of its numbers at some places, in the order of :func:`numbers`; what
    has none of these is made once."""
    made = _template(tree, places, itertools.count())
    return made or (lambda values: tree)


def _template(
    tree: Any, places: Container[int], count: Iterator[int]
) -> Callable[[Mapping[int, Number]], Any] | None:
    """None where it stays as it is."""
    kind: Any = None
    if isinstance(tree, tuple):
        parts = tree
    elif is_dataclass(tree):
        kind = type(tree)
        parts = tuple(getattr(tree, name) for name in _names(kind))
    else:
        is_number = isinstance(tree, int | float) and not isinstance(tree, bool)
        if is_number and (place := next(count)) in places:
            return operator.itemgetter(place)
        return None
    pairs = [(_template(part, places, count), part) for part in parts]
    if not any(made for made, _ in pairs):
        return None
    if kind is None:
        return lambda values: tuple([made(values) if made else part for made, part in pairs])
    return lambda values: kind(*[made(values) if made else part for made, part in pairs])


def skeleton(tree: Any) -> Any:
    """What remains without the numbers: equal for trees that differ in numbers alone."""
    if isinstance(tree, tuple):
        return tuple([skeleton(part) for part in tree])
    if is_dataclass(tree):
        parts = (skeleton(getattr(tree, name)) for name in _names(type(tree)))
        return (type(tree).__name__, *parts)
    if isinstance(tree, int | float) and not isinstance(tree, bool):
        return type(tree).__name__
    return tree


_KNOWN: dict[type, tuple[str, ...]] = {}


def _names(kind: type) -> tuple[str, ...]:
    if kind not in _KNOWN:
        _KNOWN[kind] = tuple(f.name for f in fields(kind))
    return _KNOWN[kind]
