"""Which ONNX nodes are in a call, and what the model calls its result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import helper
from onnx_models import mlp, save

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.model import Graph


def graph_of(path: Path, folder: Path) -> Graph:
    return import_model(path, folder / "w.bin").graph


def test_every_node_is_somewhere(tmp_path: Path) -> None:
    graph = graph_of(mlp(tmp_path / "m.onnx"), tmp_path)
    assert [(n.source, n.outputs) for n in graph.nodes] == [
        (("first", "first_bias", "relu"), ("r1",)),
        (("second", "second_bias"), ("a2",)),
        (("softmax",), ("y",)),
    ]


def test_a_node_in_several_calls_gives_each_a_name_of_its_own(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("LpNormalization", ["x"], ["n"], "norm", axis=-1, p=2),
        helper.make_node("Exp", ["n"], ["y"], "exp"),
    ]
    graph = graph_of(save(tmp_path / "n.onnx", nodes, {"x": [3, 8]}, {"y": [3, 8]}), tmp_path)
    names = [n.name for n in graph.nodes]
    assert len(set(names)) == len(names)
    assert {s for n in graph.nodes for s in n.source} == {"norm", "exp"}


def test_parts_of_a_split_and_folded_transposes_keep_their_names(tmp_path: Path) -> None:
    weights = {"w": np.ones((8, 8), np.float32)}
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b"], "split", axis=0),
        helper.make_node("MatMul", ["a", "w"], ["m"], "product"),
        helper.make_node("Transpose", ["b"], ["t"], "turn", perm=[1, 0]),
        helper.make_node("MatMul", ["m", "t"], ["y"], "second"),
    ]
    path = save(tmp_path / "s.onnx", nodes, {"x": [8, 8]}, {"y": [4, 4]}, weights)
    graph = graph_of(path, tmp_path)
    made = {name for n in graph.nodes for name in n.outputs}
    assert {"m", "y"} <= made <= {"a", "b", "m", "t", "y"}
    assert {s for n in graph.nodes for s in n.source} == {"split", "product", "turn", "second"}


def test_a_result_that_is_also_read_inside_has_the_models_name(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Exp", ["x"], ["e"], "exp"),
        helper.make_node("Softmax", ["e"], ["s"], "softmax", axis=-1),
    ]
    outputs = {"e": [2, 3], "s": [2, 3]}
    graph = graph_of(save(tmp_path / "o.onnx", nodes, {"x": [2, 3]}, outputs), tmp_path)
    assert [(n.source, n.outputs) for n in graph.nodes] == [
        (("exp",), ("e",)),
        (("softmax",), ("s",)),
    ]


def test_what_a_converter_emits_itself_belongs_to_its_node(tmp_path: Path) -> None:
    weights = {
        "s": np.ones(8, np.float32),
        "low": np.array(-1, np.float32),
        "w": np.ones((8, 4), np.float32),
    }
    nodes = [
        helper.make_node("LayerNormalization", ["x", "s"], ["n"], "norm"),
        helper.make_node("Clip", ["n", "low"], ["c"], "clip"),
        helper.make_node("Identity", ["c"], ["i"], "same"),
        helper.make_node("MatMul", ["i", "w"], ["y"], "product"),
    ]
    path = save(tmp_path / "n.onnx", nodes, {"x": [3, 8]}, {"y": [3, 4]}, weights)
    graph = graph_of(path, tmp_path)
    assert {s for n in graph.nodes for s in n.source} >= {"norm", "clip", "product"}
    made = {name: n.source for n in graph.nodes for name in n.outputs}
    assert "norm" in made.get("n", made.get("c", ()))
    assert made["y"][-1] == "product"
