"""A decoder's file without roundings that only save time: 8-bit operands, and half precision."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nnjit_studio.compiler.onnx_file.arrays import read_external
from nnjit_studio.compiler.onnx_file.external import tensors_of

_MOST_BYTES = 900 << 20
"""A larger model stays in half precision: as float32 it would not fit into one message."""


def in_full_precision(model: Any, folder: Path) -> bool:
    """Let products keep their operands, and compute in float32 what was float16; changes the model.

    ``accuracy_level`` 4 of MatMulNBits lets ONNX Runtime round an operand to 8 bits; our kernels
    do not. Half precision rounds each intermediate tensor, ours keep float32 there, so logits
    would differ by a step of float16. Weights keep their values: they are only widened.

    Parameters
    ----------
    model : onnx.ModelProto
        Loaded without its external data.
    folder : where the external data lie.

    Returns
    -------
    Whether anything was changed. Afterwards a model that was in half precision holds all its data.
    """
    exact = _keep_operands(model)
    return _widen(model, folder) or exact


def _keep_operands(model: Any) -> bool:
    found = False
    for node in model.graph.node:
        kept = [a for a in node.attribute if a.name != "accuracy_level"]
        if node.op_type == "MatMulNBits" and len(kept) < len(node.attribute):
            del node.attribute[:]
            node.attribute.extend(kept)
            found = True
    return found


def _widen(model: Any, folder: Path) -> bool:
    from onnx import TensorProto, numpy_helper

    half = TensorProto.FLOAT16
    if not any(t.data_type == half for g in _graphs(model.graph) for t in g.initializer):
        return False
    files = {
        e.value for t in model.graph.initializer for e in t.external_data if e.key == "location"
    }
    if sum((folder / name).stat().st_size for name in files) + model.ByteSize() > _MOST_BYTES:
        return False
    for tensor in tensors_of(model.graph):
        if tensor.data_location == TensorProto.EXTERNAL:
            read_external(tensor, folder)

    def widened(tensor: Any) -> None:
        if tensor.data_type == half:
            values = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))

    for graph in _graphs(model.graph):
        for tensor in graph.initializer:
            widened(tensor)
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type == half:
                value.type.tensor_type.elem_type = TensorProto.FLOAT
        for node in graph.node:
            for attribute in node.attribute:
                widened(attribute.t)
                if node.op_type == "Cast" and attribute.name == "to" and attribute.i == half:
                    attribute.i = TensorProto.FLOAT
    return True


def _graphs(graph: Any) -> Iterator[Any]:
    """The graph and those inside its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)
