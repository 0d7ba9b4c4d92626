"""Inputs and outputs of a file: what it says of their dimensions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper

from nnjit_studio.model.feeds import GIVEN_AS

_NAMELESS = ("", "?", "-1", "0", "None", "unk")
"""What exporters write as the name of a dimension that they know nothing of."""
_VIEWS = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that leave numbers as they are."""
WIDER = {
    helper.np_dtype_to_tensor_dtype(np.dtype(own)): helper.np_dtype_to_tensor_dtype(np.dtype(given))
    for own, given in GIVEN_AS.items()
}
"""Dtypes that no kernel has, and those in which such numbers are given and computed."""


def dims_of(port: onnx.ValueInfoProto) -> list[int | str]:
    """A number or a name for each dimension.

    What has no name, or one that stands for "unknown", gets its place for a name (``x.2``):
    two of these are never the same dimension.
    """
    dims: list[int | str] = []
    for axis, d in enumerate(port.type.tensor_type.shape.dim):
        name = d.dim_param.strip()
        if d.dim_value > 0:
            dims.append(int(d.dim_value))
        elif name.isdecimal() and int(name):  # some exporters write a number as a name
            dims.append(int(name))
        else:
            dims.append(f"{port.name}.{axis}" if name in _NAMELESS else name)
    return dims


def looked_up(graph: onnx.GraphProto) -> set[str]:
    """Tensors whose numbers are places in a table of the file."""
    tables = {t.name for t in graph.initializer}
    found: set[str] = set()
    for node in reversed(graph.node):
        if node.op_type == "Gather" and node.input[0] in tables:
            found.add(node.input[1])
        elif node.op_type in _VIEWS and node.output[0] in found:
            found.add(node.input[0])
    return found


def take_known(model: onnx.ModelProto) -> None:
    """Let inputs of dtypes that no kernel has be given in another one, with a Cast behind each.

    Everything here computes in single precision. ONNX Runtime, from the same model, computes in
    double precision on the same numbers.
    """
    graph = model.graph
    weights = {t.name for t in graph.initializer}
    wide = {
        port.name: (f"{port.name}//given", port.type.tensor_type.elem_type)
        for port in graph.input
        if port.type.tensor_type.elem_type in WIDER and port.name not in weights
    }
    if not wide or not any(i.domain in ("", "ai.onnx") for i in model.opset_import):
        return  # a model without ONNX's own operators has no Cast, and is refused by name
    for port in (*graph.input, *graph.output):
        if port.name in wide:  # an output that is an input is as it was given
            port.type.tensor_type.elem_type = WIDER[wide[port.name][1]]
    nodes = [helper.make_node("Cast", [n], [to], to, to=kind) for n, (to, kind) in wide.items()]
    nodes += graph.node
    _rename(graph, {name: to for name, (to, _) in wide.items()})
    del graph.node[:]
    graph.node.extend(nodes)


def take_scores(model: onnx.ModelProto) -> None:
    """Let outputs that are a map from class to score for each row be the scores, [N, classes].

    Converters of scikit-learn and LightGBM end a classifier with a ZipMap unless they are told not
    to; a page has no such maps. The file tells which class a column is of.
    """
    made = {name: node for node in model.graph.node for name in node.output}
    for port in model.graph.output:
        node = made.get(port.name)
        if node is not None and (node.domain, node.op_type) == ("ai.onnx.ml", "ZipMap"):
            plain = helper.make_node("Identity", node.input, node.output, node.name)
            node.CopyFrom(plain)
            port.type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, None))


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Have the nodes, and those of graphs inside them, read tensors by other names."""
    for node in graph.node:
        node.input[:] = [names.get(n, n) for n in node.input]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _rename(inner, names)
                for port in inner.output:
                    port.name = names.get(port.name, port.name)
