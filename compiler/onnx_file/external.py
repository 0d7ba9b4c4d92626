"""Weights in files of their own: what an untrusted model may point to, and how large it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import onnx

from nnjit_studio.compiler.onnx_file.order import subgraphs
from nnjit_studio.errors import ModelError

_BITS = {onnx.TensorProto.INT4: 4, onnx.TensorProto.UINT4: 4}
_EXPORT = "Export it again."


def tensors_of(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of a graph, those of its subgraphs included."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t
            yield from attribute.tensors
        for inner in subgraphs(node):
            yield from tensors_of(inner)


def tensor_bytes(tensor: onnx.TensorProto) -> int:
    """Bytes of a tensor's values, by its type and dimensions alone."""
    try:
        item = int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    except (KeyError, TypeError):
        item = 1
    return int(math.prod(tensor.dims)) * _BITS.get(tensor.data_type, 8 * item) // 8


def widened_bytes(tensor: onnx.TensorProto) -> int:
    """Bytes of the values that the file really holds, those of few bits as 32-bit floats."""
    external = tensor.data_location == onnx.TensorProto.EXTERNAL
    held = tensor_bytes(tensor) if external else int(tensor.ByteSize())
    return max(held, min(4 * int(math.prod(tensor.dims)), 8 * held))


def check_external_data(model: onnx.ModelProto, path: Path) -> None:
    """Refuse external data outside the model's folder, missing, or too short.

    Of a model that is a link, links beside it may lead to the folder of its own file: so Hugging
    Face's cache lays out what it downloads.

    Raises
    ------
    ModelError
    """
    folder, origin = path.parent.resolve(), path.resolve().parent
    for tensor in tensors_of(model.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _check(tensor, folder, origin)


def _check(tensor: onnx.TensorProto, folder: Path, origin: Path) -> None:
    entry = {e.key: e.value for e in tensor.external_data}
    location = entry.get("location", "")
    file = folder if "\0" in location else (folder / location).resolve()
    inside = file.is_relative_to(folder) or file.parent == origin
    if file == folder or not inside:
        raise ModelError(
            f"The weight {tensor.name!r} points outside the model's folder ({location!r}).",
            "Keep external data beside the model; files elsewhere are never read.",
        )
    if not file.is_file():
        raise ModelError(
            f"The external data file {location!r} of weight {tensor.name!r} is missing.",
            "Put it into the model's folder.",
        )
    try:
        offset, needed = int(entry.get("offset", 0)), tensor_bytes(tensor)
        length = int(entry.get("length", needed))
    except ValueError:
        offset = length = needed = -1
    if min(offset, *tensor.dims) < 0 or length < needed:
        raise ModelError(f"The weight {tensor.name!r} has a broken external data entry.", _EXPORT)
    if file.stat().st_size < offset + length:
        raise ModelError(
            f"The external data file {location!r} is too short for weight {tensor.name!r}.",
            "Copy it again; its end is missing.",
        )
