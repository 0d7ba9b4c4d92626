"""What the axes of a model's inputs are: numbers, dimensions by name, sums of dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.errors import UserError

_FEW = 4
"""Dimensions of one size of which every combination is tried."""
_IMAGE = 4
"""Axes of an image, or more."""
Feeds = Mapping[str, NDArray[Any]]
Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Sum:
    """A size that follows from others: a mask covers a past and what is new."""

    names: tuple[str, ...]
    more: int

    def at(self, sizes: Sizes) -> int:
        return sum(sizes[name] for name in self.names) + self.more

    def __str__(self) -> str:
        return " + ".join((*self.names, *([str(self.more)] if self.more else [])))


Axis = int | str | Sum
Axes = Mapping[str, tuple[Axis, ...]]
"""By input."""


def size_at(axis: Axis, sizes: Sizes) -> int:
    if isinstance(axis, Sum):
        return axis.at(sizes)
    return axis if isinstance(axis, int) else sizes[axis]


def input_shapes(inputs: Axes, sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Of all inputs at sizes of the dimensions."""
    return {name: tuple(size_at(axis, sizes) for axis in axes) for name, axes in inputs.items()}


def stretched(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """As large an array of the elements of one, repeated: floats each time from one place further
    on, because a kernel that takes one row for another is right where rows are alike."""
    made = np.resize(array, shape)
    if array.dtype.kind == "f" and array.size > 1:
        place = np.arange(made.size)
        made = array.reshape(-1)[(place + place // array.size) % array.size].reshape(shape)
    return made


def signals_of(inputs: Axes, feeds: Feeds) -> set[str]:
    """Dimensions of floats along which these may be a signal: behind a batch, and in no image."""
    known = [(axes, feeds[name]) for name, axes in inputs.items() if name in feeds]
    images = {axis for axes, array in known if array.ndim >= _IMAGE for axis in axes}
    floats = (axes for axes, array in known if array.dtype.kind == "f")
    return {axis for axes in floats for axis in axes[1:] if isinstance(axis, str)} - images


Along = Mapping[str, tuple[str, int]]
"""Inputs that hold lengths, with another one and its axis that these are counted along."""


def may_be_lengths(inputs: Axes, feeds: Feeds) -> Iterator[tuple[str, str, int]]:
    """Inputs of a whole number for each element of a batch, and open axes of others, the longest
    first."""
    for name, axes in inputs.items():
        if name in feeds and len(axes) == 1 and feeds[name].dtype.kind == "i":
            found = [
                (-feeds[other].shape[axis], other, axis)
                for other, theirs in inputs.items()
                if other in feeds and len(theirs) > 1 and theirs[0] == axes[0]
                for axis in range(1, len(theirs))
                if isinstance(theirs[axis], str)
            ]
            yield from ((name, other, axis) for _, other, axis in sorted(found))


def lengths_of(inputs: Axes, feeds: Feeds) -> Along:
    """Those of which the largest is at most as long as an axis, and half of it or more."""
    found: dict[str, tuple[str, int]] = {}
    for name, other, axis in may_be_lengths(inputs, feeds):
        n, most = feeds[other].shape[axis], int(feeds[name].max(initial=0))
        if max(2, most) <= n <= 2 * most:
            found[name] = other, axis  # the shortest such axis
    return found


def replaced(inputs: Axes, by: Mapping[str, Axis]) -> dict[str, tuple[Axis, ...]]:
    """The inputs with other axes in the place of dimensions."""
    return {name: tuple(_replaced(axis, by) for axis in axes) for name, axes in inputs.items()}


def _replaced(axis: Axis, by: Mapping[str, Axis]) -> Axis:
    if not isinstance(axis, Sum):
        return by.get(axis, axis) if isinstance(axis, str) else axis
    parts = [by.get(name, name) for name in axis.names]
    sums = [part if isinstance(part, Sum) else Sum((str(part),), 0) for part in parts]
    names = tuple(name for part in sums for name in part.names)
    return Sum(names, axis.more + sum(part.more for part in sums))


def sizes_of(inputs: Axes, feeds: Feeds) -> dict[str, int]:
    """The sizes of the dimensions that arrays have.

    Raises
    ------
    UserError
        When an array is missing, has another rank, or two disagree on a dimension.
    """
    sizes: dict[str, int] = {}
    for name, axes in inputs.items():
        if name not in feeds:
            raise UserError(
                f"The input {name!r} is missing.", f"The model's inputs are {', '.join(inputs)}."
            )
        shape = feeds[name].shape
        if len(shape) != len(axes):
            raise UserError(
                f"The input {name!r} has {len(shape)} dimensions, the model wants {len(axes)}.",
                "Correct the array.",
            )
        for axis, n in zip(axes, shape, strict=True):
            if n < 1:
                raise UserError(f"The input {name!r} is empty.", "Every size is at least 1.")
            if isinstance(axis, str):
                sizes.setdefault(axis, n)
    for name, axes in inputs.items():
        shape = feeds[name].shape
        for axis, n in zip(axes, shape, strict=True):
            if n != size_at(axis, sizes):
                raise UserError(
                    f"The input {name!r} has the shape {list(shape)}, "
                    f"but {axis} is {size_at(axis, sizes)}.",
                    "Give arrays whose sizes agree.",
                )
    return sizes


def apart(inputs: Axes, feeds: Feeds) -> dict[str, tuple[Axis, ...]]:
    """The inputs with a dimension of its own at each axis whose name has several sizes."""
    found: dict[Axis, set[int]] = {}
    for name, axes in inputs.items():
        for axis, n in zip(axes, feeds[name].shape, strict=False):
            found.setdefault(axis, set()).add(n)
    return {
        name: tuple(
            f"{name}.{i}" if isinstance(axis, str) and len(found.get(axis, ())) > 1 else axis
            for i, axis in enumerate(axes)
        )
        for name, axes in inputs.items()
    }


def sum_of(
    stuck: Sequence[str], example: Sizes, runs: Callable[[Sizes], bool]
) -> dict[str, str | Sum]:
    """The largest dimension that others grow with, which are stuck alone, as their sum; equal ones
    of these are one."""
    for whole in sorted(example, key=lambda name: -example[name]):
        parts: dict[str, tuple[str, ...]] = {}
        up = {**example, whole: example[whole] + 1}
        for group in _alike([name for name in stuck if name != whole], example):
            known = any(name in held for held in parts.values() for name in group)
            more = dict.fromkeys(group, example[group[0]] + 1)
            # What grows alone, such as a table whose rows are named by indices, hangs on no other.
            if not known and runs({**up, **more}) and not runs({**example, **more}):
                parts[group[0]] = group
        made = Sum(tuple(parts), example[whole] - sum(map(example.__getitem__, parts)))
        far = dict(example)
        for i, group in enumerate(parts.values(), 2):
            far.update((name, example[name] + i) for name in group)
        if parts and made.more >= 0 and runs({**far, whole: made.at(far)}):
            one = made if made.more or len(parts) > 1 else made.names[0]
            return {whole: one, **{n: first for first, group in parts.items() for n in group[1:]}}
    return {}


def _alike(names: Sequence[str], example: Sizes) -> Iterator[tuple[str, ...]]:
    """Names of one size, a few of them first."""
    for n in sorted({example[name] for name in names}):
        group = [name for name in names if example[name] == n]
        few = range(1, len(group)) if len(group) <= _FEW else (1,)
        for count in dict.fromkeys((*few, len(group))):
            yield from combinations(group, count)
