"""The Nimble paper's Tree-LSTM (300 inputs, 150 units) as an ONNX file, for trees of any form."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, HIDDEN = 300, 150
INSIDE = 3 * HIDDEN
"""Columns of the input, output and new gates; those of the forget gate follow."""
_FLOAT, _INT64, _BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def tree_lstm() -> onnx.ModelProto:
    """A child-sum Tree-LSTM (Tai et al., 2015, equations 2 to 8) over nodes in topological order.

    ``x`` has a row for each node, ``tree`` the two children of each: earlier nodes, or -1 for
    none. ``y`` is the state of the last node and, behind it, its cell. A loop over the nodes
    carries a table of both, in which row -1 stays zero: a child that is not there adds nothing.
    """
    rng = np.random.default_rng(0)
    weights: dict[str, Any] = {
        "w": rng.uniform(-0.05, 0.05, (WIDTH, 4 * HIDDEN)),
        "b": rng.uniform(-0.05, 0.05, 4 * HIDDEN),
        "u": rng.uniform(-0.05, 0.05, (HIDDEN, INSIDE)),
        "uf": rng.uniform(-0.05, 0.05, (HIDDEN, HIDDEN)),
    }
    weights = {name: array.astype(np.float32) for name, array in weights.items()}
    weights |= {"halves": np.array([HIDDEN, HIDDEN]), "gates": np.array([HIDDEN] * 3)}
    weights |= {"both": np.array([INSIDE, HIDDEN]), "edges": np.array([0, 1])}
    weights |= {"zero": np.array([0]), "one": np.array([1]), "width": np.array([2 * HIDDEN])}
    weights |= {"last": np.array([-2]), "end": np.array([-1])}
    ports = [
        helper.make_tensor_value_info("x", _FLOAT, ["nodes", WIDTH]),
        helper.make_tensor_value_info("tree", _INT64, ["nodes", 2]),
        helper.make_tensor_value_info("y", _FLOAT, [1, 2 * HIDDEN]),
    ]
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in weights.items()]
    graph = helper.make_graph(_nodes(), "tree_lstm", ports[:2], ports[2:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _nodes() -> list[onnx.NodeProto]:
    node = helper.make_node
    return [
        node("MatMul", ["x", "w"], ["xw"]),
        node("Add", ["xw", "b"], ["given"]),
        node("Shape", ["x"], ["nodes"], start=0, end=1),
        node("Squeeze", ["nodes"], ["count"]),
        node("Add", ["nodes", "one"], ["rows"]),
        node("Concat", ["rows", "width"], ["table_shape"], axis=0),
        node("ConstantOfShape", ["table_shape"], ["empty"]),
        node("Loop", ["count", "", "empty"], ["table"], "walk", body=_body()),
        node("Slice", ["table", "last", "end", "zero"], ["y"]),
    ]


def _body() -> onnx.GraphProto:
    node = helper.make_node
    table = ["rows", 2 * HIDDEN]
    nodes = [
        node("Gather", ["tree", "i"], ["pair"], axis=0),
        node("Gather", ["before", "pair"], ["children"], axis=0),
        node("Split", ["children", "halves"], ["h", "c"], axis=1),
        node("ReduceSum", ["h", "zero"], ["sum"]),
        node("Unsqueeze", ["i", "zero"], ["at"]),
        node("Gather", ["given", "at"], ["row"], axis=0),
        node("Split", ["row", "both"], ["row_inside", "row_forget"], axis=1),
        node("MatMul", ["sum", "u"], ["su"]),
        node("Add", ["su", "row_inside"], ["inside"]),
        node("Split", ["inside", "gates"], ["in_gate", "out_gate", "new"], axis=1),
        node("MatMul", ["h", "uf"], ["hu"]),
        node("Add", ["hu", "row_forget"], ["forget"]),
        node("Sigmoid", ["forget"], ["keep"]),
        node("Mul", ["keep", "c"], ["kept"]),
        node("ReduceSum", ["kept", "zero"], ["old"]),
        node("Sigmoid", ["in_gate"], ["in_open"]),
        node("Tanh", ["new"], ["fresh"]),
        node("Mul", ["in_open", "fresh"], ["added"]),
        node("Add", ["added", "old"], ["cell"]),
        node("Sigmoid", ["out_gate"], ["out_open"]),
        node("Tanh", ["cell"], ["shown"]),
        node("Mul", ["out_open", "shown"], ["state"]),
        node("Concat", ["state", "cell"], ["made"], axis=1),
        node("Unsqueeze", ["i", "edges"], ["place"]),
        node("ScatterND", ["before", "place", "made"], ["after"]),
        node("Identity", ["c_in"], ["c_out"]),
    ]
    inputs = [
        helper.make_tensor_value_info("i", _INT64, []),
        helper.make_tensor_value_info("c_in", _BOOL, []),
        helper.make_tensor_value_info("before", _FLOAT, table),
    ]
    outputs = [
        helper.make_tensor_value_info("c_out", _BOOL, []),
        helper.make_tensor_value_info("after", _FLOAT, table),
    ]
    return helper.make_graph(nodes, "node", inputs, outputs)
