"""DynamicQuantizeLSTM: weights decoded, input and states rounded as ONNX Runtime does it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from exact_native import exact_session
from onnx import TensorProto, helper, numpy_helper
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.compiler.importer.model import import_with
from nnjit_studio.compiler.importer.onnx.contrib import expand
from nnjit_studio.compiler.importer.onnx.fold import fold
from nnjit_studio.compiler.importer.passes import Import
from nnjit_studio.errors import UnsupportedOpError
from nnjit_studio.model import GivenShapes

STEPS, BATCH, WIDTH, HIDDEN = 5, 1, 6, 4
RNG = np.random.default_rng(4)


def save(path: Path, op: str, inputs: dict[str, np.ndarray], names: list[str], **given) -> None:
    """A bidirectional LSTM of either operator, all but ``x`` constant; its outputs are both ends
    too."""
    outs = {
        "y": [STEPS, 2, BATCH, HIDDEN],
        "h": [2, BATCH, HIDDEN],
        "c": [2, BATCH, HIDDEN],
    }
    domain = "" if op == "LSTM" else "com.microsoft"
    node = helper.make_node(
        op, names, [*outs], "node", domain=domain, hidden_size=HIDDEN, direction="bidirectional",
        **given,
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [STEPS, BATCH, WIDTH])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outs.items()],
        [numpy_helper.from_array(v, n) for n, v in inputs.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


def operands(signed: bool, by_column: bool) -> dict[str, np.ndarray]:
    kind = np.int8 if signed else np.uint8
    low, high = (-127, 128) if signed else (0, 256)
    scales = (2, 4 * HIDDEN) if by_column else (2,)
    found: dict[str, np.ndarray] = {"b": RNG.normal(0, 0.1, (2, 8 * HIDDEN)).astype(np.float32)}
    for name, rows in (("w", WIDTH), ("r", HIDDEN)):
        found[name] = RNG.integers(low, high, (2, rows, 4 * HIDDEN)).astype(kind)
        found[f"{name}_scale"] = RNG.uniform(0.004, 0.008, scales).astype(np.float32)
        found[f"{name}_zero"] = np.full(scales, 0 if signed else 128, kind)
    return found


NAMES = ["x", "w", "r", "b", "", "", "", "", "w_scale", "w_zero", "r_scale", "r_zero"]


# Each two of the three in every combination.
@pytest.mark.parametrize(
    ("signed", "by_column", "looped"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, True)],
)
def test_weights_are_decoded_and_activations_rounded(
    tmp_path: Path, signed: bool, by_column: bool, looped: bool
) -> None:
    held = operands(signed, by_column)
    path, file = tmp_path / "q.onnx", tmp_path / "w.bin"
    save(path, "DynamicQuantizeLSTM", held, NAMES, input_forget=0)
    feeds = {"x": RNG.uniform(-1, 1, (STEPS, BATCH, WIDTH)).astype(np.float32)}
    got = run_by_kernels(imported(path, file, looped), file, feeds, "simd128")
    expected = exact_session(path).run(None, feeds)
    for name, array in zip(("y", "h", "c"), expected, strict=True):
        np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-5)


def imported(path: Path, file: Path, looped: bool) -> BuiltModel:
    return import_with(
        path, file, lambda phase: None, GivenShapes(), False, Import(any_size=looped)
    )


def test_weights_that_are_computed_are_refused(tmp_path: Path) -> None:
    held = operands(True, False)
    path = tmp_path / "q.onnx"
    save(path, "DynamicQuantizeLSTM", held, NAMES)
    model = onnx.load(path)
    model.graph.node[0].input[1] = "computed"
    model.graph.node.insert(0, helper.make_node("Identity", ["w"], ["computed"]))
    onnx.save(model, path)
    with pytest.raises(UnsupportedOpError, match="a constant weight"):
        import_model(path, tmp_path / "w.bin")


def test_shapes_behind_a_layer_are_known(tmp_path: Path) -> None:
    path = tmp_path / "q.onnx"
    save(path, "DynamicQuantizeLSTM", operands(True, True), NAMES)
    model = onnx.load(path)
    model.graph.node.append(helper.make_node("Shape", ["y"], ["n"]))
    model.graph.output.append(helper.make_tensor_value_info("n", TensorProto.INT64, [4]))
    assert "Shape" not in [node.op_type for node in fold(expand(model)).graph.node]
