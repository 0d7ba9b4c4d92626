"""Native ONNX Runtime's time by node."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from onnx_models import save

from nnjit_studio.compiler.oracle.native_profile import native_profile
from nnjit_studio.errors import UserError


@pytest.fixture
def model(tmp_path):
    nodes = [
        helper.make_node("MatMul", ["x", "x"], ["a"], "product"),
        helper.make_node("Relu", ["a"], ["y"], "relu"),
    ]
    return save(tmp_path / "m.onnx", nodes, {"x": ["n", "n"]}, {"y": ["n", "n"]})


def test_every_node_has_its_time(model):
    run = native_profile(model, {"x": np.ones((64, 64), np.float32)})
    assert run.runs == 10 and run.ms > 0
    assert run.outputs.keys() == {"y"} and run.outputs["y"].shape == (64, 64)
    assert {node.op for node in run.nodes} == {"MatMul", "Relu"}
    assert all(node.ms >= 0 for node in run.nodes)
    assert run.nodes[0].ms >= run.nodes[1].ms


def test_what_it_cannot_run_is_one_sentence(model):
    with pytest.raises(UserError, match="Native ONNX Runtime cannot run the model"):
        native_profile(model, {"x": np.ones(3, np.float32)})
