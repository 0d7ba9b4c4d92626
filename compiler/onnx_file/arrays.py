"""Arrays of ONNX tensors; large external data is mapped from its file, not read into the model.

A protobuf message never gives memory back, so weights that were read into it would stay
in addition to the importer's own copy until the end.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from nnjit_studio.compiler.onnx_file.external import tensor_bytes

MAPPED_BYTES = 1 << 20
"""From here on external data stays in its file."""


def load_external(tensors: list[TensorProto], folder: Path) -> None:
    """Read the small external tensors; note for the large ones where their file is.

    The caller has checked that every location lies in the folder.
    """
    for tensor in tensors:
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        if _mappable(tensor):
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = str((folder / entry.value).resolve())
        else:
            read_external(tensor, folder)


def load_mapped(model: onnx.ModelProto) -> None:
    """Read what :func:`load_external` left in its file, for those who need a whole model."""
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            array = array_of(tensor)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def array_of(tensor: TensorProto) -> NDArray[Any]:
    """The tensor's values; read-only where they are mapped."""
    if tensor.data_location != TensorProto.EXTERNAL:
        array: NDArray[Any] = numpy_helper.to_array(tensor)
        return array
    entry = {e.key: e.value for e in tensor.external_data}
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type)).newbyteorder("<")
    return np.asarray(
        np.memmap(entry["location"], dtype, "r", int(entry.get("offset", 0)), tuple(tensor.dims))
    )


def _mappable(tensor: TensorProto) -> bool:
    plain = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.INT32,
             TensorProto.INT8, TensorProto.UINT8)  # fmt: skip
    if tensor.data_type not in plain:
        return False
    size = helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize * math.prod(tensor.dims)
    length = next((int(e.value) for e in tensor.external_data if e.key == "length"), size)
    return bool(size >= MAPPED_BYTES and length == size)


def read_external(tensor: TensorProto, folder: Path) -> None:
    """Read an external tensor into the model.

    onnx's own reader refuses files that have a second name (a hard link) or are links in the
    folder, as caches of downloads and copies of models have them.
    """
    entry = {e.key: e.value for e in tensor.external_data}
    with (folder / entry["location"]).open("rb") as file:
        file.seek(int(entry.get("offset", 0)))
        tensor.raw_data = file.read(int(entry.get("length", tensor_bytes(tensor))))
    tensor.data_location = TensorProto.DEFAULT
    del tensor.external_data[:]
