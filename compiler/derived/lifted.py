"""Weights that an exporter wrote as Constant nodes, as the initializers that tools look for."""

from __future__ import annotations

import onnx

FIRST_IR = 4
"""Before it an initializer had to be an input as well."""


def lifted(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model itself, its graph's constant tensors moved to the initializers.

    Paddle's exporter writes every weight as a Constant node; ONNX Runtime's tools quantise
    initializers alone.
    """
    graph = model.graph
    if model.ir_version < FIRST_IR:
        return model
    kept = []
    for node in graph.node:
        tensor = _tensor(node)
        if tensor is None:
            kept.append(node)
        else:
            graph.initializer.append(tensor)
            graph.initializer[-1].name = node.output[0]
    if len(kept) < len(graph.node):
        del graph.node[:]
        graph.node.extend(kept)
    return model


def _tensor(node: onnx.NodeProto) -> onnx.TensorProto | None:
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
        return None
    return next((a.t for a in node.attribute if a.name == "value"), None)
