"""A kernel to be compiled for any size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from nnjit_studio.compiler.any_size.kernels.compiled import At
from nnjit_studio.model.size import Apply, Size, size


@dataclass(frozen=True)
class Part:
    """A kernel to be compiled."""

    name: str
    at: At
    extents: list[Size]
    """Of its loops."""
    shapes: list[Size]
    """Of its tensors."""
    told: list[Size]
    """What its stages say: the last place of an axis, distances."""
    symbolic: tuple[Any, ...]
    """Its programs, with formulas in the place of numbers."""


def part_of(name: str, at: At, *symbolic: Any) -> Part:
    """A kernel of programs with formulas in the place of numbers."""
    stages = tuple(stage for program in symbolic for stage in program.stages)
    axes = (axis for stage in stages for axis in stage.axes)
    parts = dict(pair for program in symbolic for pair in _joined(program.buffers))
    whole = [a.extent for a in axes if isinstance(a.extent, Size)]
    extents = [part for extent in whole for part in parts.get(extent, (extent,))]
    told = dict.fromkeys(_sizes(stages))
    buffers = tuple(b.shape for program in symbolic for b in program.buffers)
    return Part(name, at, extents or list(told), list(_sizes(buffers)), list(told), symbolic)


def _joined(buffers: Sequence[Any]) -> Iterator[tuple[Size, tuple[Size, ...]]]:
    """What tensors of one rank are together along an axis, and the extents of each that are open:
    a loop over all of it is cut where one ends, and each part may end with a remainder."""
    inputs = [b.shape for b in buffers if b.role == "input"]
    outputs = [b.shape for b in buffers if b.role == "output"]
    if len(outputs) == 1 < len(inputs) and len({*map(len, inputs), len(outputs[0])}) == 1:
        for whole, *each in zip(*outputs, *inputs, strict=True):
            if isinstance(whole, Size) and sum(map(size, each), size(0)) == whole:
                yield whole, tuple(n for n in each if isinstance(n, Size))


def _sizes(tree: Any) -> Iterator[Size]:
    """Of the stages of a program: in extents, or in what an index adds."""
    if isinstance(tree, Size):
        yield tree
    elif isinstance(tree, tuple):
        for part in tree:
            yield from _sizes(part)
    elif is_dataclass(tree):
        for field in fields(tree):
            yield from _sizes(getattr(tree, field.name))


def bounded(part: Part) -> tuple[Part, Size, int] | None:
    """Of a kernel with as many turns as a size, but no more than a number, the same with turns of
    the size, which that is, and the number; None of others.

    Below the number its code is other code than at it.
    """
    atoms = {a for e in part.extents for monomial, _ in e.terms for a in monomial}
    found = [a for a in atoms if isinstance(a, Apply) and a.op == "min"]
    if len(found) != 1:
        return None
    (least,) = found
    sides = (least.a, least.b) if least.a.constant is not None else (least.b, least.a)
    number, whole = sides[0].constant, sides[1]
    if number is None:
        return None
    extents = [_with(extent, least, whole) for extent in part.extents]
    return replace(part, extents=list(dict.fromkeys(extents))), whole, number


def _with(value: Size, atom: Apply, whole: Size) -> Size:
    """A size in which another one is in the place of an atom."""
    total = size(0)
    for monomial, coefficient in value.terms:
        product = size(coefficient)
        for each in monomial:
            product = product * (whole if each == atom else Size((((each,), 1),)))
        total = total + product
    return total
