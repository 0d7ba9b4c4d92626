"""Arrays for a model's inputs: drawn, held constant, or read from a file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.errors import UserError
from nnjit_studio.model import GivenShapes
from nnjit_studio.model.feeds import plain, read_arrays
from nnjit_studio.model.survey import InputPort, Survey
from nnjit_studio.workbench.inputs import roles

Arrays = dict[str, NDArray[Any]]
Sizes = Mapping[str, int]
MOST_BYTES = 1 << 30
"""Of all inputs together."""


def shape_of(port: InputPort, sizes: Sizes) -> tuple[int, ...]:
    """The shape of an input, with a number for each open dimension."""
    return tuple(d if isinstance(d, int) else sizes[d] for d in port.dims or ())


def nbytes(survey: Survey, sizes: Sizes) -> int:
    """Of all inputs at these sizes."""
    each = (math.prod(shape_of(p, sizes)) * np.dtype(p.dtype).itemsize for p in survey.inputs)
    return sum(each)


def drawn(survey: Survey, sizes: Sizes, constants: Mapping[str, float], seed: int = 0) -> Arrays:
    """Inputs of these sizes: constants as given, other integers one, floats in [-1, 1).

    Raises
    ------
    UserError
        When they would take too much memory, or hold text.
    """
    texts = [p.name for p in survey.inputs if p.dtype == "object"]
    if texts:
        raise UserError(f"The input {texts[0]!r} holds text, which the engine has no type for.")
    if (total := nbytes(survey, sizes)) > MOST_BYTES:
        raise UserError(f"The inputs would take {total / 2**30:.1f} GiB.", "Choose smaller sizes.")
    rng = np.random.default_rng(seed)
    arrays: Arrays = {}
    for port in survey.inputs:
        shape = shape_of(port, sizes)
        if port.name in constants:
            arrays[port.name] = np.full(shape, constants[port.name], port.dtype)
        else:
            arrays[port.name] = plain(shape, np.dtype(port.dtype), rng)
    return arrays


def fed(survey: Survey, shapes: GivenShapes, given: Mapping[str, NDArray[Any]] | None) -> Arrays:
    """Inputs of a file: those given, else drawn at the sizes that the user named.

    Raises
    ------
    UserError
        When a size is open.
    """
    given = given or {}
    ports = [
        replace(port, dims=shapes.shapes.get(port.name, port.dims))
        for port in survey.inputs
        if port.name not in given
    ]
    rest = replace(survey, inputs=tuple(ports))
    unknown = [dim for dim in rest.open_dims if dim not in shapes.dims]
    unknown += [port.name for port in ports if port.dims is None]
    if unknown:
        raise UserError(
            f"The size {unknown[0]!r} of {survey.path.name} is open.",
            f"Give it with --dim {unknown[0]}=NUMBER, or give the arrays with --inputs.",
        )
    constants = {each.name: each.first for each in roles.constants_of(rest)}
    return {**drawn(rest, shapes.dims, constants), **given}


def read_npz(path: Path, survey: Survey) -> Arrays:
    """The arrays of a file by the inputs' names, as far as it has them.

    Raises
    ------
    UserError
        When it cannot be read, or an array does not fit its input.
    """
    held = read_arrays(path)
    found = {p.name: held[p.name] for p in survey.inputs if p.name in held}
    if not found:
        wanted = ", ".join(p.name for p in survey.inputs)
        raise UserError(f"{path.name} has {', '.join(held) or 'nothing'}, but no {wanted}.")
    return {name: _fitting(array, survey, name) for name, array in found.items()}


def _fitting(array: NDArray[Any], survey: Survey, name: str) -> NDArray[Any]:
    port = next(p for p in survey.inputs if p.name == name)
    dims = port.dims
    fits = dims is None or (
        len(dims) == array.ndim
        and all(isinstance(d, str) or d == n for d, n in zip(dims, array.shape, strict=True))
    )
    if not fits or not array.size:
        wanted = ", ".join("any" if isinstance(d, str) else str(d) for d in dims or ())
        raise UserError(f"The array {name} is {list(array.shape)}, the model wants [{wanted}].")
    if np.dtype(port.dtype).kind != array.dtype.kind:
        raise UserError(f"The array {name} holds {array.dtype}, the model wants {port.dtype}.")
    return array.astype(port.dtype)


def sizes_of(arrays: Arrays, survey: Survey) -> dict[str, int]:
    """What arrays say of the open dimensions.

    Raises
    ------
    UserError
        When two of them disagree.
    """
    sizes: dict[str, int] = {}
    for port in survey.inputs:
        if port.name not in arrays:
            continue
        for dim, n in zip(port.dims or (), arrays[port.name].shape, strict=False):
            if isinstance(dim, str) and sizes.setdefault(dim, n) != n:
                raise UserError(f"The arrays disagree on {dim}: {sizes[dim]} and {n}.")
    return sizes
