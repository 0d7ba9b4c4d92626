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
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer.model import import_with
from nnjit_studio.compiler.importer.passes import Import
from nnjit_studio.errors import UnsupportedOpError
from nnjit_studio.model import GivenShapes

GATES, STATES = {"LSTM": 4, "GRU": 3, "RNN": 1}, {"LSTM": 2, "GRU": 1, "RNN": 1}
FUNCTIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}


@st.composite
def layers(draw: st.DrawFn) -> onnx.ModelProto:
    """A layer of random kind, direction, activations, optional inputs and outputs, and sizes."""
    kind = draw(st.sampled_from(sorted(GATES)))
    direction = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    steps, batch = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    width, hidden = draw(st.integers(1, 7)), draw(st.integers(1, 13))
    ways, gates = 1 + (direction == "bidirectional"), GATES[kind]
    options = {"hidden_size": hidden, "direction": direction}
    if draw(st.booleans()):
        some = st.sampled_from(["Sigmoid", "Tanh", "Relu"])
        options["activations"] = [draw(some) for _ in range(ways * FUNCTIONS[kind])]
    if kind == "GRU":
        options["linear_before_reset"] = draw(st.integers(0, 1))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    shapes = {
        "w": (ways, gates * hidden, width), "r": (ways, gates * hidden, hidden),
        "b": (ways, 2 * gates * hidden), "h": (ways, batch, hidden), "c": (ways, batch, hidden),
    }  # fmt: skip
    has_bias, has_states = draw(st.booleans()), draw(st.booleans())
    names = ["x", "w", "r", "b" if has_bias else ""]
    names += ["", *"hc"[: STATES[kind]]] if has_states else []
    weights = [
        numpy_helper.from_array(0.2 * rng.uniform(-1, 1, shapes[n]).astype(np.float32), n)
        for n in names
        if n in ("w", "r", "b")
    ]
    taken = [n for n in names if n in ("x", "h", "c")]
    shapes["x"] = (steps, batch, width)
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shapes[n]) for n in taken]
    # Any of the outputs may be left out, not all of them.
    kept = draw(st.integers(1, 2 ** (1 + STATES[kind]) - 1))
    outs = [n if kept >> i & 1 else "" for i, n in enumerate(("y", "yh", "yc")[: 1 + STATES[kind]])]
    ranks = {"y": 4, "yh": 3, "yc": 3}
    ports = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [None] * ranks[n]) for n in outs if n
    ]
    nodes = [helper.make_node(kind, names, outs, **options)]
    graph = helper.make_graph(nodes, "g", inputs, ports, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def imported(model: onnx.ModelProto, folder: Path, **options: bool) -> tuple:
    path, weights = folder / "m.onnx", folder / "w.bin"
    path.write_bytes(model.SerializeToString())
    built = import_with(
        path, weights, lambda phase: None, GivenShapes(), False, Import(**options)
    )
    return built, weights


@settings(max_examples=20)
@given(model=layers(), seed=st.integers(0, 99))
def test_a_layer_is_right(
    model: onnx.ModelProto, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = np.random.default_rng(seed)
    feeds = {
        i.name: rng.uniform(-1, 1, [d.dim_value for d in i.type.tensor_type.shape.dim]).astype("f4")
        for i in model.graph.input
    }
    session = onnxruntime.InferenceSession(model.SerializeToString())
    wanted = dict(
        zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True)
    )
    for options in ({"any_size": True}, {"loops": True}, {"loops": False}):
        built, weights = imported(model, tmp_path_factory.mktemp("m"), **options)
        got = run_by_kernels(built, weights, feeds, "relaxed-simd")
        for name, expected in wanted.items():
            np.testing.assert_allclose(got[name], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", sorted(GATES))
def test_steps_and_weights_do_not_follow_the_length(kind: str, tmp_path: Path) -> None:
    made = []
    for steps in (3, 300):
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
        opset = [helper.make_opsetid("", 17)]
        built, _ = imported(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path)
        made.append((len(built.plan.steps), built.plan.weights_bytes))
    assert made[0] == made[1]


@pytest.mark.parametrize(
    "options", [{"clip": 1.0}, {"layout": 1}, {"input_forget": 1}, {"activations": ["Elu"] * 3}]
)
def test_what_no_layer_computes_is_refused(options: dict, tmp_path: Path) -> None:
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
