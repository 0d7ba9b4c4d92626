"""A kernel to be compiled for any size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from nnjit_studio.compiler.any_size.kernels.compiled import At
from nnjit_studio.model.size import Size


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
    extents = [a.extent for a in axes if isinstance(a.extent, Size)]
    told = dict.fromkeys(_sizes(stages))
    buffers = tuple(b.shape for program in symbolic for b in program.buffers)
    return Part(name, at, extents or list(told), list(_sizes(buffers)), list(told), symbolic)


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
