"""ONNX Runtime's own operators: what their further outputs give, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.errors import UnsupportedOpError

RNG = np.random.default_rng(2)


def _save(path: Path, node: onnx.NodeProto, feeds, weights, outputs, external=False) -> None:
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in feeds.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()],
        [numpy_helper.from_array(v, n) for n, v in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    if node.domain:
        opsets.append(helper.make_opsetid(node.domain, 1))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    onnx.save(model, path, save_as_external_data=external, size_threshold=0, location="w.data")


def _floats(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize("op", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
@pytest.mark.parametrize("bias", [False, True])
def test_the_sum_with_the_skip_connection(tmp_path: Path, op: str, bias: bool) -> None:
    feeds = {"x": _floats(2, 3, 8), "skip": _floats(2, 3, 8)}
    weights = {"scale": _floats(8)}
    if op == "SkipLayerNormalization":
        weights["beta"] = _floats(8)
    if bias:
        weights["bias"] = _floats(8)
    names = [*feeds, *weights]
    node = helper.make_node(op, names, ["y", "", "", "sum"], domain="com.microsoft", epsilon=1e-5)
    path, file = tmp_path / "m.onnx", tmp_path / "w.bin"
    _save(path, node, feeds, weights, {"y": (2, 3, 8), "sum": (2, 3, 8)})
    expected = onnxruntime.InferenceSession(path).run(None, feeds)
    got = run_by_kernels(import_model(path, file), file, feeds, "simd128")
    for name, array in zip(("y", "sum"), expected, strict=True):
        np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("external", [False, True])
def test_without_its_domain_an_operator_is_known_all_the_same(
    tmp_path: Path, external: bool
) -> None:
    feeds, weights = {"x": _floats(2, 8)}, {"scale": _floats(8)}
    node = helper.make_node("SimplifiedLayerNormalization", ["x", "scale"], ["y"], axis=-1)
    path, file = tmp_path / "m.onnx", tmp_path / "w.bin"
    _save(path, node, feeds, weights, {"y": (2, 8)}, external)
    (expected,) = onnxruntime.InferenceSession(path).run(None, feeds)
    got = run_by_kernels(import_model(path, file), file, feeds, "simd128")["y"]
    np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("domain", ["com.microsoft", ""])
def test_an_operator_that_is_missing_is_named_as_their_own(tmp_path: Path, domain: str) -> None:
    feeds, weights = {"x": _floats(2, 8)}, {"scale": _floats(8)}
    node = helper.make_node("GroupNorm", ["x", "scale"], ["y"], "here", domain=domain)
    _save(tmp_path / "m.onnx", node, feeds, weights, {"y": (2, 8)})
    said = r"ONNX Runtime's own operator GroupNorm \(node 'here'\) is not supported yet"
    with pytest.raises(UnsupportedOpError, match=said):
        import_model(tmp_path / "m.onnx", tmp_path / "w.bin")


@pytest.mark.parametrize(
    ("activation", "params", "added"),
    [
        ("Relu", [], False), ("Tanh", [], True), ("LeakyRelu", [0.3], False),
        ("Clip", [-0.2, 0.4], True), ("HardSigmoid", [0.3, 0.4], False),
    ],
)  # fmt: skip
def test_a_convolution_with_its_activation(
    tmp_path: Path, activation: str, params: list[float], added: bool
) -> None:
    feeds, weights = {"x": _floats(1, 3, 5, 7)}, {"w": _floats(4, 3, 3, 3), "b": _floats(4)}
    if added:
        feeds["z"] = _floats(1, 4, 5, 7)
    held = {"activation": activation} | ({"activation_params": params} if params else {})
    names = ["x", "w", "b", *(["z"] if added else [])]
    node = helper.make_node(
        "FusedConv", names, ["y"], domain="com.microsoft", pads=[1, 1, 1, 1], **held
    )
    path, file = tmp_path / "m.onnx", tmp_path / "w.bin"
    _save(path, node, feeds, weights, {"y": (1, 4, 5, 7)})
    (expected,) = onnxruntime.InferenceSession(path).run(None, feeds)
    got = run_by_kernels(import_model(path, file), file, feeds, "simd128")["y"]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("activation", "params", "wanted"),
    [("X", [], "an activation of Clip"), ("Clip", [0.5], "2 numbers of its Clip")],
)
def test_an_activation_that_is_unknown_or_not_whole_is_named(
    tmp_path: Path, activation: str, params: list[float], wanted: str
) -> None:
    feeds, weights = {"x": _floats(1, 3, 5, 7)}, {"w": _floats(4, 3, 1, 1)}
    node = helper.make_node(
        "FusedConv", ["x", "w"], ["y"], domain="com.microsoft",
        activation=activation, activation_params=params or None,
    )  # fmt: skip
    _save(tmp_path / "m.onnx", node, feeds, weights, {"y": (1, 4, 5, 7)})
    with pytest.raises(UnsupportedOpError, match=f"FusedConv.*needs {wanted}"):
        import_model(tmp_path / "m.onnx", tmp_path / "w.bin")
