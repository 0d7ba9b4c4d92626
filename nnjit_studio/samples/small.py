"""Small ONNX models by their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper

OPSET, IR_VERSION = 20, 10


def save_model(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Sequence[onnx.TensorProto] = (),
    domain: str = "",
) -> None:
    """Write a checked model of the standard operators; those of another ``domain`` are not checked.

    Raises
    ------
    onnx.checker.ValidationError
        When the nodes are not a valid graph.
    """
    graph = helper.make_graph(nodes, "model", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", OPSET)]
    opsets += [helper.make_opsetid(domain, 1)] if domain else []
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    if not domain:
        onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


def port(name: str, shape: Sequence[int], element: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """An input or output of a model."""
    return helper.make_tensor_value_info(name, element, shape)
