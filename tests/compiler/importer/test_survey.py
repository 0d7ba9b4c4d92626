"""A file's look before its import."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnjit_studio.compiler.importer.obstacles import obstacles
from nnjit_studio.compiler.onnx_file.survey import survey
from nnjit_studio.errors import ModelError


def write(path, nodes, inputs, weights=(), **fields):
    graph = helper.make_graph(
        nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["any"])],
        [numpy_helper.from_array(array, name) for name, array in weights],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    onnx.save(model, path)
    return path


def test_inputs_keep_their_open_axes_and_tell_what_reads_them(tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, None, "?"])
    rate = helper.make_tensor_value_info("sr", TensorProto.INT64, [])
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"]),
        helper.make_node("Conv", ["t", "w"], ["y"], "first"),
    ]
    path = write(tmp_path / "m.onnx", nodes, [x, rate], [("w", np.ones((8, 3, 5, 5), np.float32))])
    found = survey(path)
    picture, number = found.inputs
    assert picture.dims == ("N", 3, "x.2", "x.3") and picture.dtype == "float32"
    assert (picture.readers, picture.channels, picture.window) == (("Conv",), 3, 2)
    assert number.is_number and number.dtype == "int64"
    assert found.open_dims == ("N", "x.2", "x.3") and found.nbytes == 8 * 3 * 5 * 5 * 4
    assert [n.op for n in found.graph.nodes] == ["Transpose", "Conv"] and not obstacles(path)
    assert found.graph.tensors["w"].shape == (8, 3, 5, 5) and "x" not in found.graph.tensors


def test_operators_without_a_rule_are_all_listed(tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    nodes = [
        helper.make_node("FancyOp", ["x"], ["a"], "one", domain="com.acme"),
        helper.make_node("FancyOp", ["a"], ["b"], "two", domain="com.acme"),
        helper.make_node("Relu", ["b"], ["c"], "fine"),
        helper.make_node("Bernoulli", ["c"], ["y"], "held"),
    ]
    found = obstacles(write(tmp_path / "m.onnx", nodes, [x]))
    assert [(o.op, o.nodes) for o in found] == [
        ("FancyOp", ("one", "two")), ("Bernoulli", ("held",))
    ]  # fmt: skip
    assert "com.acme" in found[0].why


def test_nodes_of_branches_are_in_the_graph_by_their_path(tmp_path):
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    branches = {
        name: helper.make_graph(
            [helper.make_node(op, ["x"], [f"{name}.y"], "n")], name, [],
            [helper.make_tensor_value_info(f"{name}.y", TensorProto.FLOAT, [4])],
        )
        for name, op in (("then_branch", "Relu"), ("else_branch", "Neg"))
    }  # fmt: skip
    nodes = [helper.make_node("If", ["c"], ["y"], "choice", **branches)]
    found = survey(write(tmp_path / "m.onnx", nodes, [condition, x]))
    assert {n.name: n.op for n in found.graph.nodes} == {
        "choice": "If", "choice/then_branch/n": "Relu", "choice/else_branch/n": "Neg"
    }  # fmt: skip


def test_a_file_that_is_no_model_is_refused(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"text")
    with pytest.raises(ModelError, match="is not an ONNX model"):
        survey(path)
    path.write_bytes(b"")
    with pytest.raises(ModelError, match="is empty"):
        survey(path)
