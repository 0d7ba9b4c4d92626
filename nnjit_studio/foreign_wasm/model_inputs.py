"""Inputs of a model for the page of somebody's runtime: our importer has no part in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from nnjit_studio.compiler.onnx_file.check import load_model
from nnjit_studio.errors import ModelError, UserError
from nnjit_studio.model import NUMPY_DTYPES, TensorSpec
from nnjit_studio.model.given_shapes import GivenShapes
from nnjit_studio.support.limits import seconds_for
from nnjit_studio.support.readers import Ended, spread

TYPES = ("float32", "float64", "int64", "int32", "uint8", "int8", "bool")
"""What pages have arrays for, as runtimes and NumPy name it."""
_DTYPES = {
    onnx.helper.np_dtype_to_tensor_dtype(dtype): name
    for name, dtype in NUMPY_DTYPES.items()
    if dtype.name in TYPES
}


def read_model(path: Path, whole: Path | None = None) -> list[onnx.ValueInfoProto]:
    """The inputs of a stranger's model, as its file has them: a process with limits reads it.

    Parameters
    ----------
    whole
        Where the model is written as one file, with its external data; None for nowhere.

    Raises
    ------
    ModelError
        When it cannot be read, or not within the limits.
    Stopped
    """
    nbytes = path.stat().st_size if path.is_file() else 0
    try:
        (ports,) = spread(partial(_read, whole), [path], seconds_for(nbytes))
    except Ended as e:
        raise ModelError(f"Reading {path.name!r} {e}.", e.hint) from e
    return ports


def _read(whole: Path | None, path: Path) -> list[onnx.ValueInfoProto]:
    model = load_model(path)
    if whole is not None:
        whole.write_bytes(model.SerializeToString())
    weights = {tensor.name for tensor in model.graph.initializer}
    return [port for port in model.graph.input if port.name not in weights]


def input_specs(ports: Iterable[onnx.ValueInfoProto], shapes: GivenShapes) -> list[TensorSpec]:
    """What a model takes, from its inputs.

    Raises
    ------
    ModelError
        When the shape of one is open, or no values are drawn for its type.
    """
    return [_spec(port, shapes) for port in ports]


def written(feeds: Mapping[str, NDArray[Any]], folder: Path) -> list[dict[str, Any]]:
    """Each input as a file of numbers in the folder, and what a page is told of it.

    Raises
    ------
    UserError
        When an input has a type that is not passed on.
    """
    told = []
    for number, (name, data) in enumerate(feeds.items()):
        if data.dtype.name not in TYPES:
            raise UserError(
                f"The input {name!r} has the type {data.dtype}, which is not passed on.",
                f"Use {', '.join(TYPES)}.",
            )
        file = f"input{number}.bin"
        (folder / file).write_bytes(np.ascontiguousarray(data).tobytes())
        told.append({"name": name, "type": data.dtype.name, "dims": list(data.shape), "file": file})
    return told


def _spec(value: onnx.ValueInfoProto, shapes: GivenShapes) -> TensorSpec:
    tensor = value.type.tensor_type
    if tensor.elem_type not in _DTYPES:
        kind = onnx.TensorProto.DataType.Name(tensor.elem_type)
        raise ModelError(f"The input {value.name!r} is {kind}, for which no values are drawn.")
    dims = shapes.shapes.get(value.name) or shapes.hints.get(value.name)
    if dims is None:
        dims = tuple(_dim(value.name, dim, shapes) for dim in tensor.shape.dim)
    return TensorSpec(value.name, tuple(dims), _DTYPES[tensor.elem_type])


def _dim(name: str, dim: onnx.TensorShapeProto.Dimension, shapes: GivenShapes) -> int:
    size: int = dim.dim_value or shapes.dims.get(dim.dim_param, 0)
    if size < 1:
        raise ModelError(
            f"The dimension {dim.dim_param or '?'!r} of the input {name!r} is open.",
            f"Give it with --dim {dim.dim_param or 'NAME'}=NUMBER, or --inputs.",
        )
    return size
