"""The numbers in a tree of frozen dataclasses and tuples, in order: read out, and exchanged."""

from __future__ import annotations

from collections.abc import Iterator
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
