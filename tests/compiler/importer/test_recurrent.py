"""Recurrent layers, as loops and unrolled: right by ONNX Runtime, whatever their options."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from recurrent_layers import GATES, feeds_of, imported, layers
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import passes
from nnjit_studio.compiler.recognize.recurrent import STAGE
from nnjit_studio.errors import UnsupportedOpError

FEW = 5


@settings(max_examples=8)
@given(model=layers(), seed=st.integers(0, 99))
def test_a_layer_is_right(
    model: onnx.ModelProto, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    feeds = feeds_of(model, seed)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    wanted = dict(
        zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True)
    )
    for options in ({"any_size": True}, {"loops": True}, {"loops": False}):
        built, weights = imported(model, tmp_path_factory.mktemp("m"), **options)
        got = run_by_kernels(built, weights, feeds, "relaxed-simd")
        for name, expected in wanted.items():
            np.testing.assert_allclose(got[name], expected, rtol=1e-4, atol=1e-5)


def plain(kind: str, steps: int) -> onnx.ModelProto:
    weights = [
        numpy_helper.from_array(np.ones((1, GATES[kind] * 8, n), np.float32), name)
        for name, n in (("w", 4), ("r", 8))
    ]
    graph = helper.make_graph(
        [helper.make_node(kind, ["x", "w", "r"], ["y"], hidden_size=8)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (steps, 1, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("kind", sorted(GATES))
@pytest.mark.parametrize("any_size", [False, True])
def test_steps_and_weights_do_not_follow_the_length(
    kind: str, any_size: bool, tmp_path: Path
) -> None:
    made = []
    for steps in (3, 300):
        built, _ = imported(plain(kind, steps), tmp_path, any_size=any_size)
        made.append((len(built.plan.steps), built.plan.weights_bytes))
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("steps", "options", "loops"),
    [
        (1, {}, 0), (1, {"any_size": True}, 1), (2, {}, 1),
        (FEW, {"loops": False}, 0), (FEW + 1, {"loops": False}, 1),
    ],
)  # fmt: skip
def test_a_layer_is_laid_out_where_it_is_short_or_for_a_gpu(
    steps: int, options: dict, loops: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "MOST_LAID_OUT", FEW)
    built, _ = imported(plain("RNN", steps), tmp_path, **options)
    assert [p.stages[0].name for p in built.programs.values()].count(STAGE) == loops


def test_what_no_layer_computes_is_refused(tmp_path: Path) -> None:
    options = {"activations": ["Elu"] * 3}
    weights = [numpy_helper.from_array(np.ones((1, 8, 2), np.float32), n) for n in "wr"]
    graph = helper.make_graph(
        [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=2, **options)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (3, 3, 2))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)],
        weights,
    )
    opset = [helper.make_opsetid("", 17)]
    with pytest.raises(UnsupportedOpError, match="of node"):
        imported(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path)
