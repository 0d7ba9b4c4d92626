"""Recurrent layers with lengths of sequences, peepholes, bounds and coupled gates, by native."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import save
from recurrent_layers import GATES, STATES
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.errors import UnsupportedOpError
from nnjit_studio.records import TIERS

STEPS, BATCH, WIDTH, UNITS = 7, 3, 5, 6
Arrays = dict[str, np.ndarray]
LENGTHS = [5, 0, 7]


def layer(
    kind: str, direction: str, given: Arrays, held: Arrays, options: dict[str, Any]
) -> tuple[onnx.ModelProto, Arrays]:
    """A model, whose inputs ``given`` are, and all its arrays; ``held`` are constants."""
    rng = np.random.default_rng(5)
    ways, rows = 1 + (direction == "bidirectional"), GATES[kind] * UNITS

    def drawn(*shape: int) -> np.ndarray:
        return rng.uniform(-1, 1, shape).astype(np.float32)

    held = held | {
        "w": drawn(ways, rows, WIDTH), "r": drawn(ways, rows, UNITS), "b": drawn(ways, 2 * rows),
    }  # fmt: skip
    feeds = {"x": drawn(STEPS, BATCH, WIDTH), **given}
    states = ["h", "c"][: STATES[kind]]
    feeds |= {name: drawn(ways, BATCH, UNITS) for name in states}
    known = held.keys() | feeds.keys()
    names = ["x", "w", "r", "b", "lengths" if "lengths" in known else "", *states]
    if "p" in held:
        names.append("p")
        held["p"] = drawn(ways, 3 * UNITS)
    outputs = ["y", "yh", "yc"][: 1 + STATES[kind]]
    node = helper.make_node(kind, names, outputs, hidden_size=UNITS, direction=direction, **options)
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in feeds.items()
    ]
    ports = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [None] * (4 if n == "y" else 3))
        for n in outputs
    ]
    weights = [numpy_helper.from_array(a, n) for n, a in held.items()]
    graph = helper.make_graph([node], "g", inputs, ports, weights)
    imports = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8), feeds


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("kind", "form", "options"),
    [
        *((kind, "lengths", {}) for kind in sorted(GATES)),
        *((kind, "constant lengths", {}) for kind in sorted(GATES)),
        *((kind, "", {"clip": 0.3}) for kind in sorted(GATES)),
        ("GRU", "lengths", {"linear_before_reset": 1}),
        ("LSTM", "peepholes", {}),
        ("LSTM", "", {"input_forget": 1}),
        ("LSTM", "peepholes", {"clip": 0.5, "input_forget": 1}),
        ("LSTM", "peepholes and lengths", {}),
    ],
)
def test_a_form_is_right(
    kind: str, direction: str, form: str, options: dict[str, Any], tmp_path: Path
) -> None:
    lengths = {"lengths": np.array(LENGTHS, np.int32)} if "lengths" in form else {}
    held = lengths if "constant" in form else {}
    if "peepholes" in form:
        held = held | {"p": np.zeros(0, np.float32)}
    model, feeds = layer(kind, direction, {} if "constant" in form else lengths, held, options)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [o.name for o in session.get_outputs()]
    path, weights = tmp_path / "m.onnx", tmp_path / "w.bin"
    onnx.save(model, path)
    built = import_model(path, weights)
    for tier in TIERS:
        got = run_by_kernels(built, weights, feeds, tier)
        for name, wanted in zip(names, session.run(None, feeds), strict=True):
            np.testing.assert_allclose(got[name], wanted, 1e-4, 1e-5, strict=True)


def test_a_bound_and_lengths_together_are_refused(tmp_path: Path) -> None:
    lengths = {"lengths": np.array(LENGTHS, np.int32)}
    model, _ = layer("LSTM", "forward", lengths, {}, {"clip": 0.5})
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(UnsupportedOpError, match="no clip"):
        import_model(tmp_path / "m.onnx", tmp_path / "w.bin")


def test_weights_may_be_made_of_large_ones(tmp_path: Path) -> None:
    """PaddlePaddle's exporter joins gates in the order of ONNX, of more than the fold computes."""
    rng = np.random.default_rng(7)
    shapes = {"late": (1, 200, 180), "early": (1, 200, 180), "r": (1, 400, 100)}
    held = {n: rng.uniform(-0.1, 0.1, s).astype(np.float32) for n, s in shapes.items()}
    x = rng.standard_normal((2, 1, 180)).astype(np.float32)
    nodes = [
        helper.make_node("Concat", ["early", "late"], ["w"], axis=1),
        helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=100),
    ]
    path, weights = tmp_path / "m.onnx", tmp_path / "w.bin"
    save(path, nodes, {"x": x.shape}, {"y": [2, 1, 1, 100]}, held, opset=12)
    built = import_model(path, weights)
    (expected,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    got = run_by_kernels(built, weights, {"x": x}, TIERS[0])
    np.testing.assert_allclose(got["y"], expected, 1e-5, 1e-6, strict=True)
