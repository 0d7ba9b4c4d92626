"""Values for the inputs of a model that is open: drawn anew, one number, or an array of a file."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.errors import UserError
from nnjit_studio.model import NUMPY_DTYPES, TensorSpec
from nnjit_studio.model.feeds import read_arrays
from nnjit_studio.model.survey import InputPort
from nnjit_studio.workbench.inputs.values import MOST_BYTES

Array = NDArray[Any]
INDEX_BOUND = 2
"""Drawn whole numbers are below it: a larger one may be no valid index."""


def port_of(spec: TensorSpec) -> InputPort:
    """An input of an open model as one of a file, at the sizes that it is open with."""
    return InputPort(spec.name, str(NUMPY_DTYPES[spec.dtype]), spec.shape)


def random(port: InputPort, seed: int) -> Array:
    """Floats in [-1, 1), whole numbers 0 or 1; of one seed and name always the same.

    Returns
    -------
    numpy.ndarray
        Of the port's shape and dtype.
    """
    rng = np.random.default_rng([seed, *port.name.encode()])
    shape, dtype = _shape(port), np.dtype(port.dtype)
    if dtype.kind == "f":
        return np.asarray(rng.uniform(-1, 1, shape), dtype)
    return np.asarray(rng.integers(0, INDEX_BOUND, shape), dtype)


def filled(port: InputPort, number: float) -> Array:
    """One number everywhere.

    Raises
    ------
    UserError
        When the dtype does not hold it.
    """
    dtype = np.dtype(port.dtype)
    whole = dtype.kind in "iub"
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None
    fits = limits is None or limits.min <= number <= limits.max
    if not fits or (whole and number != int(number)):
        raise UserError(f"{port.name} holds {dtype}: {number:g} is none.")
    return np.full(_shape(port), number, dtype)


def from_file(path: Path, port: InputPort) -> Array:
    """The array of a .npy file, or that of the input's name (or the only one) of an .npz file.

    Raises
    ------
    UserError
        When it cannot be read, or its shape or kind is not the input's.
    """
    if zipfile.is_zipfile(path):
        held = read_arrays(path)
        array = next(iter(held.values())) if len(held) == 1 else held.get(port.name)
        if array is None:
            raise UserError(
                f"{path.name} has no array {port.name}.", "Name the array as the input."
            )
        return fitting(array, port)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UserError(f"{path.name} is too large.", "Give a smaller array.")
        return fitting(np.asarray(np.load(path, allow_pickle=False)), port)
    except (OSError, ValueError, EOFError) as e:
        raise UserError(
            f"{path.name} holds no arrays.", "Write it with numpy.save or numpy.savez."
        ) from e


def fitting(array: Array, port: InputPort) -> Array:
    """The array in the input's dtype.

    Raises
    ------
    UserError
        When its shape or its kind of numbers is not the input's.
    """
    dtype, wanted = np.dtype(port.dtype), list(_shape(port))
    if list(array.shape) != wanted:
        raise UserError(
            f"The array for {port.name} is {list(array.shape)}, the model is open with {wanted}.",
            "Open the model with the array's sizes, or give one of these.",
        )
    if dtype.kind != array.dtype.kind and not (dtype.kind == "f" and array.dtype.kind in "iu"):
        raise UserError(f"The array for {port.name} holds {array.dtype}, the model wants {dtype}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UserError(f"The array for {port.name} has values that are not finite.")
    return np.ascontiguousarray(array, dtype)


def described(array: Array) -> str:
    """``-0.998 to 1, mean 0.003``, for the eye of who gave it."""
    if not array.size:
        return "empty"
    low, high = array.min(), array.max()
    return f"{low:.3g} to {high:.3g}, mean {np.mean(array, dtype=np.float64):.3g}"


def unfit(specs: Iterable[TensorSpec], arrays: dict[str, Array]) -> str:
    """The first input whose array is missing or has another shape or dtype; empty for none."""
    for spec in specs:
        array = arrays.get(spec.name)
        if array is None or array.shape != spec.shape or array.dtype != NUMPY_DTYPES[spec.dtype]:
            return spec.name
    return ""


def _shape(port: InputPort) -> tuple[int, ...]:
    return tuple(d for d in port.dims or () if isinstance(d, int))
