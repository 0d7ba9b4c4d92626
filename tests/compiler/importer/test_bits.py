"""Bits of floats: BitCast, and numbers that are stored as bfloat16."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import save
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.onnx_file.native import native_session
from nnjit_studio.errors import UnsupportedOpError
from nnjit_studio.model.feeds import in_known_dtype

FLOAT, BRAIN = TensorProto.FLOAT, TensorProto.BFLOAT16
HOSTILE = np.array(
    [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e-45, 3.3e38, 1.00390625, 1.01171875, 7e-39],
    np.float32,
)
"""With halves between two numbers of bfloat16, and one that rounds to infinity."""


def run(path: Path, tier: str = "simd128", **feeds: Any) -> dict[str, np.ndarray]:
    built = import_model(path, path.with_suffix(".bin"))
    return run_by_kernels(built, path.with_suffix(".bin"), feeds, tier)


def port(name: str, kind: int, shape: list[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


@pytest.mark.parametrize("tier", ["simd128", "relaxed-simd"])
@pytest.mark.parametrize("whole", [np.int32, np.uint32])
def test_bits_of_floats_are_whole_numbers_and_back(whole: Any, tier: str, tmp_path: Path) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(whole))
    nodes = [
        helper.make_node("BitCast", ["x"], ["bits"], to=kind),
        helper.make_node("BitCast", ["words"], ["floats"], to=FLOAT),
    ]
    shape = [HOSTILE.size]
    words = HOSTILE[::-1].copy().view(whole)
    path = save(
        tmp_path / "m.onnx",
        nodes,
        [port("x", FLOAT, shape), port("words", kind, shape)],
        [port("bits", kind, shape), port("floats", FLOAT, shape)],
        opset=26,
    )
    got = run(path, tier, x=HOSTILE, words=in_known_dtype(words))
    np.testing.assert_array_equal(got["bits"], HOSTILE.view(whole))
    np.testing.assert_array_equal(got["floats"].view(np.int32), words.view(np.int32))


def test_bits_of_doubles_are_refused_by_name(tmp_path: Path) -> None:
    node = helper.make_node("BitCast", ["x"], ["y"], name="bits", to=TensorProto.INT64)
    ports = [port("x", TensorProto.DOUBLE, [3])], [port("y", TensorProto.INT64, [3])]
    path = save(tmp_path / "m.onnx", [node], *ports, opset=26)
    with pytest.raises(UnsupportedOpError, match="BitCast of node 'bits'"):
        import_model(path, tmp_path / "w.bin")


@pytest.mark.parametrize("tier", ["simd128", "relaxed-simd"])
def test_a_cast_to_bfloat16_rounds_as_native_onnx_runtime(tier: str, tmp_path: Path) -> None:
    x = np.concatenate([HOSTILE, np.random.default_rng(0).normal(0, 9, 88)]).astype(np.float32)
    nodes = [
        helper.make_node("Cast", ["x"], ["stored"], to=BRAIN),
        helper.make_node("Cast", ["stored"], ["y"], to=FLOAT),
        helper.make_node("Cast", ["n"], ["stored_n"], to=BRAIN),
        helper.make_node("Cast", ["stored_n"], ["m"], to=TensorProto.INT32),
    ]
    inputs = [port("x", FLOAT, [100]), port("n", TensorProto.INT32, [4])]
    outputs = [port("y", FLOAT, [100]), port("m", TensorProto.INT32, [4])]
    path = save(tmp_path / "m.onnx", nodes, inputs, outputs)
    n = np.array([1, 257, 259, -1000], np.int32)
    got = run(path, tier, x=x, n=n)
    y, m = native_session(path.read_bytes()).run(None, {"x": x, "n": n})
    np.testing.assert_array_equal(got["y"], y)
    np.testing.assert_array_equal(got["m"], m)
    assert not np.array_equal(y[12:], x[12:])


def test_weights_and_ports_may_be_bfloat16(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    w = rng.normal(size=(6, 5)).astype(ml_dtypes.bfloat16)
    x = rng.normal(size=(3, 6)).astype(ml_dtypes.bfloat16)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Relu", ["product"], ["y"]),
    ]
    ports = [port("x", BRAIN, [3, 6])], [port("y", BRAIN, [3, 5])]
    path = save(tmp_path / "m.onnx", nodes, *ports, [numpy_helper.from_array(w, "w")])
    got = run(path, x=in_known_dtype(x))["y"]
    expected = np.maximum(x.astype(np.float32) @ w.astype(np.float32), 0)
    np.testing.assert_array_equal(got, expected.astype(ml_dtypes.bfloat16).astype(np.float32))


def test_sums_of_bfloat16_are_refused_by_name(tmp_path: Path) -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], name="shares")
    path = save(tmp_path / "m.onnx", [node], [port("x", BRAIN, [3, 6])], [port("y", BRAIN, [3, 6])])
    with pytest.raises(UnsupportedOpError, match="Softmax of node 'shares' needs float32"):
        import_model(path, tmp_path / "w.bin")


def test_an_output_of_8_bits_is_refused_by_name(tmp_path: Path) -> None:
    kind = TensorProto.FLOAT8E5M2
    node = helper.make_node("Cast", ["x"], ["y"], to=kind)
    path = save(tmp_path / "m.onnx", [node], {"x": [3]}, [port("y", kind, [3])], opset=19)
    with pytest.raises(UnsupportedOpError, match="output 'y' is float8e5m2"):
        import_model(path, tmp_path / "w.bin")
