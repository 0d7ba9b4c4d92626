"""Integers that no kernel has, of 16 bits and unsigned ones of 32: in the next wider dtype.

Each result is brought back to the range of its own dtype, so sums and products wrap as they do
there. What reads and writes such a tensor at the edge of the model has the wider dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from nnjit_studio.compiler.importer.onnx.rewriter import Types
from nnjit_studio.compiler.onnx_file.arrays import array_of
from nnjit_studio.compiler.onnx_file.ports import WIDER

_NARROW = (TensorProto.INT16, TensorProto.UINT16, TensorProto.UINT32)
_INTEGERS = {narrow: WIDER[narrow] for narrow in _NARROW}


def wider_integers(
    model: onnx.ModelProto, types_of: Callable[[onnx.ModelProto], Types]
) -> onnx.ModelProto:
    """The model itself, without tensors of these dtypes; control flow must be flat.

    Parameters
    ----------
    types_of
        Tells the dtypes of all tensors; asked where the model has one of these.
    """
    graph = model.graph
    tensors, named, ports = held_in(graph, _INTEGERS)
    if not (tensors or named or ports):
        return model
    types = {name: dtype for name, (dtype, _) in types_of(model).items() if dtype in _INTEGERS}
    for tensor in tensors:
        wide = helper.tensor_dtype_to_np_dtype(_INTEGERS[tensor.data_type])
        tensor.CopyFrom(numpy_helper.from_array(array_of(tensor).astype(wide), tensor.name))
    for attribute in named:
        attribute.i = _INTEGERS[attribute.i]
    for port in ports:
        kind = port.type.tensor_type
        kind.elem_type = _INTEGERS[kind.elem_type]
    nodes = [made for node in graph.node for made in _held(graph, node, types)]
    del graph.value_info[:]
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def held_in(
    graph: onnx.GraphProto, dtypes: Container[int]
) -> tuple[list[TensorProto], list[AttributeProto], list[onnx.ValueInfoProto]]:
    """Constants of these dtypes, attributes that name one, and the graph's own ports of them."""
    attributes = [a for node in graph.node for a in node.attribute]
    held = (a.t for a in attributes if a.type == AttributeProto.TENSOR)
    tensors = [t for t in (*graph.initializer, *held) if t.data_type in dtypes]
    named = [a for a in attributes if a.name in ("to", "dtype") and a.i in dtypes]
    every = (*graph.input, *graph.output)
    return tensors, named, [p for p in every if p.type.tensor_type.elem_type in dtypes]


def _held(
    graph: onnx.GraphProto, node: onnx.NodeProto, types: dict[str, int]
) -> Iterator[onnx.NodeProto]:
    """The node, and what brings its results back to the range that they had."""
    results = [(i, name, types[name]) for i, name in enumerate(node.output) if name in types]
    node.name = node.name or node.output[0]  # as it is called where it is refused
    for i, name, _ in results:
        node.output[i] = f"{name}//whole"
    yield node
    for _, name, dtype in results:
        limits = np.iinfo(helper.tensor_dtype_to_np_dtype(dtype))
        wide = helper.tensor_dtype_to_np_dtype(_INTEGERS[dtype])
        for part, value in (("low", limits.min), ("count", limits.max - limits.min + 1)):
            graph.initializer.append(
                numpy_helper.from_array(np.array(value, wide), f"{name}//{part}")
            )
        steps = (("Sub", "whole", "low"), ("Mod", "above", "count"), ("Add", "rest", "low"))
        names = (f"{name}//above", f"{name}//rest", name)
        for (op, x, y), made in zip(steps, names, strict=True):
            yield helper.make_node(op, [f"{name}//{x}", f"{name}//{y}"], [made], made)
