"""Smaller inputs: shapes that the file allows, and the inputs at hand in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.model import TensorSpec

Dims = Mapping[str, Sequence[int | str]]
"""Of inputs as the file has them: a number, or the name of an open one."""
STEP = 32
"""Sizes of pictures are whole multiples: most networks halve them five times."""
LEAST = 8
"""An open axis of fewer elements is no size: a batch, a state."""
LEAST_SIDE = 64
"""A side of a picture that is shorter stays: a line of text is as high as its network wants it."""


def smaller_shapes(dims: Dims, inputs: Sequence[TensorSpec]) -> dict[str, tuple[int, ...]]:
    """About half the elements: pictures at 3/4 of their sides, text and sound at 1/2.

    Empty where the file fixes every size. Axes of one name stay equal.
    """
    now = {
        axis: size
        for spec in inputs
        for axis, size in zip(dims.get(spec.name, ()), spec.shape, strict=False)
        if isinstance(axis, str) and size >= LEAST
    }
    many = any(sum(axis in now for axis in dims.get(spec.name, ())) > 1 for spec in inputs)
    if many:
        now = {axis: size for axis, size in now.items() if size >= LEAST_SIDE}
    new = {axis: _smaller(size, 0.75 if many else 0.5) for axis, size in now.items()}
    shapes = {
        spec.name: tuple(
            new.get(axis, size) if isinstance(axis, str) else size
            for axis, size in zip(dims[spec.name], spec.shape, strict=True)
        )
        for spec in inputs
        if len(dims.get(spec.name, ())) == len(spec.shape)
    }
    if all(shapes.get(spec.name, spec.shape) == spec.shape for spec in inputs):
        return {}
    return shapes


def _smaller(size: int, share: float) -> int:
    whole = int(size * share)
    return max(STEP, whole // STEP * STEP) if size > STEP else max(1, whole)


def resized(
    feeds: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, NDArray[Any]]:
    """Inputs in smaller shapes: numbers of pictures and sound evenly picked, text cut short."""
    return {name: _resized(array, shapes.get(name, array.shape)) for name, array in feeds.items()}


def _resized(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    for axis, size in enumerate(shape):
        if size < array.shape[axis]:
            places = np.arange(size)
            if array.dtype.kind == "f":
                places = (places * array.shape[axis]) // size
            array = np.take(array, places, axis=axis)
    return array
