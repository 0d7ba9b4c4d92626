"""Recurrent layers of random kinds and options, as models, and their imports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from nnjit_studio.compiler.importer.model import import_with
from nnjit_studio.compiler.importer.passes import Import
from nnjit_studio.model import GivenShapes

GATES, STATES = {"LSTM": 4, "GRU": 3, "RNN": 1}, {"LSTM": 2, "GRU": 1, "RNN": 1}
FUNCTIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}
FEW = st.integers(1, 13)


@st.composite
def layers(draw: st.DrawFn, hidden: st.SearchStrategy[int] = FEW) -> onnx.ModelProto:
    """A layer of random kind, direction, activations, optional inputs and outputs, and sizes."""
    kind = draw(st.sampled_from(sorted(GATES)))
    direction = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    steps, batch = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    width, units = draw(st.integers(1, 7)), draw(hidden)
    ways, gates = 1 + (direction == "bidirectional"), GATES[kind]
    options = {"hidden_size": units, "direction": direction}
    if draw(st.booleans()):
        some = st.sampled_from(["Sigmoid", "Tanh", "Relu"])
        options["activations"] = [draw(some) for _ in range(ways * FUNCTIONS[kind])]
    if kind == "GRU":
        options["linear_before_reset"] = draw(st.integers(0, 1))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    shapes = {
        "w": (ways, gates * units, width), "r": (ways, gates * units, units),
        "b": (ways, 2 * gates * units), "h": (ways, batch, units), "c": (ways, batch, units),
    }  # fmt: skip
    has_bias, has_states = draw(st.booleans()), draw(st.booleans())
    names = ["x", "w", "r", "b" if has_bias else ""]
    names += ["", *"hc"[: STATES[kind]]] if has_states else []
    scale = 0.2 * min(1.0, (13 / units) ** 0.5)  # without a bound Relu's states grow with the sums
    weights = [
        numpy_helper.from_array(scale * rng.uniform(-1, 1, shapes[n]).astype(np.float32), n)
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
    built = import_with(path, weights, lambda phase: None, GivenShapes(), False, Import(**options))
    return built, weights


def feeds_of(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        i.name: rng.uniform(-1, 1, [d.dim_value for d in i.type.tensor_type.shape.dim]).astype("f4")
        for i in model.graph.input
    }
