"""Operators of quantised models, and DFT, give exactly or nearly what ONNX Runtime gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from exact_native import exact_session
from onnx import TensorProto, helper, numpy_helper
from onnx_models import mlp, save
from run_plan import run_by_kernels

from nnjit_studio.compiler.derived.derive import derive
from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.onnx_file.check import WASM_BYTES, check_memory
from nnjit_studio.errors import ModelError
from nnjit_studio.model.recipe import Recipe

RNG = np.random.default_rng(0)
U8 = TensorProto.UINT8


def integers(low: int, high: int, *shape: int, dtype: Any = np.uint8) -> np.ndarray:
    return RNG.integers(low, high, shape).astype(dtype)


def both(
    folder: Path, node: Any, feed: np.ndarray, dtype: int, **weights: Any
) -> tuple[np.ndarray, np.ndarray]:
    kind = helper.np_dtype_to_tensor_dtype(feed.dtype)
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    x = helper.make_tensor_value_info("x", kind, feed.shape)
    rank = feed.ndim
    y = helper.make_tensor_value_info("y", dtype, [f"d{i}" for i in range(rank)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", [x], [y], tensors)
    path, file = folder / "m.onnx", folder / "w.bin"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))
    (expected,) = exact_session(path).run(None, {"x": feed})
    got = run_by_kernels(import_model(path, file), file, {"x": feed}, "simd128")["y"]
    return got, expected


def scales(**values: Any) -> dict[str, Any]:
    return {name: np.asarray(value, np.float32) for name, value in values.items()}


def test_qlinear_matmul_is_exact(tmp_path: Path) -> None:
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    got, expected = both(
        tmp_path, helper.make_node("QLinearMatMul", names, ["y"]), integers(0, 255, 5, 8), U8,
        w=integers(-100, 100, 8, 6, dtype=np.int8), xz=np.uint8(120), wz=np.int8(0),
        yz=np.uint8(128), **scales(xs=0.02, ws=0.01, ys=0.03),
    )  # fmt: skip
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("per_channel", [False, True])
def test_qlinear_conv_is_exact(tmp_path: Path, per_channel: bool) -> None:
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    node = helper.make_node("QLinearConv", names, ["y"], pads=[1, 1, 1, 1], strides=[2, 2])
    ws = np.linspace(0.01, 0.02, 4) if per_channel else 0.01
    got, expected = both(
        tmp_path, node, integers(0, 255, 1, 3, 7, 7), U8,
        w=integers(-100, 100, 4, 3, 3, 3, dtype=np.int8), xz=np.uint8(120),
        wz=np.zeros(4 if per_channel else (), np.int8), yz=np.uint8(128),
        b=integers(-500, 500, 4, dtype=np.int32), **scales(xs=0.02, ws=ws, ys=0.09),
    )  # fmt: skip
    np.testing.assert_array_equal(got, expected)


def test_conv_integer_is_exact(tmp_path: Path) -> None:
    node = helper.make_node("ConvInteger", ["x", "w", "xz"], ["y"], pads=[1, 1, 1, 1])
    got, expected = both(
        tmp_path, node, integers(0, 255, 1, 3, 6, 6), TensorProto.INT32,
        w=integers(0, 255, 4, 3, 3, 3), xz=np.uint8(7),
    )  # fmt: skip
    np.testing.assert_array_equal(got, expected)


def test_a_dynamically_quantised_convolution_is_one_tunable_kernel(tmp_path: Path) -> None:
    """As ONNX Runtime's tool writes it: the activations' scale times the weights', an int32 sum."""
    make, feed = helper.make_node, RNG.standard_normal((1, 3, 8, 8)).astype(np.float32)
    tensors = {
        "w": integers(0, 255, 4, 3, 3, 3),
        "wz": np.uint8(131),
        "ws": np.float32(0.02),
        "bias": np.linspace(-1, 1, 4, dtype=np.float32).reshape(1, 4, 1, 1),
    }
    nodes = [
        make("DynamicQuantizeLinear", ["x"], ["q", "xs", "xz"]),
        make("ConvInteger", ["q", "w", "xz", "wz"], ["i"], pads=[1, 1, 1, 1]),
        make("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        make("Mul", ["xs", "ws"], ["s"]),
        make("Mul", ["f", "s"], ["m"]),
        make("Add", ["m", "bias"], ["a"]),
        make("Relu", ["a"], ["y"]),
    ]
    x, y = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, c, 8, 8])
        for n, c in (("x", 3), ("y", 4))
    )
    path, file = tmp_path / "m.onnx", tmp_path / "w.bin"
    save(path, nodes, [x], [y], tensors)
    built = import_model(path, file)
    (convolution,) = [w for w in built.workloads if w.kind == "matmul_int8"]
    assert convolution.tunable
    assert convolution.epilogue[-3:] == ("mul", "bias", "relu")
    (expected,) = exact_session(path).run(None, {"x": feed})
    got = run_by_kernels(built, file, {"x": feed}, "relaxed-simd")["y"]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_qlinear_add_is_within_one_step(tmp_path: Path) -> None:
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    node = helper.make_node("QLinearAdd", names, ["y"], domain="com.microsoft")
    got, expected = both(
        tmp_path, node, integers(0, 255, 4, 8), U8, w=integers(0, 255, 4, 8), xz=np.uint8(100),
        wz=np.uint8(90), yz=np.uint8(110), **scales(xs=0.02, ws=0.01, ys=0.03),
    )  # fmt: skip
    assert np.abs(got.astype(int) - expected.astype(int)).max() <= 1


@pytest.mark.parametrize(
    ("pair", "options"), [(1, {}), (1, {"onesided": 1}), (2, {}), (2, {"inverse": 1})]
)
def test_dft(tmp_path: Path, pair: int, options: dict[str, int]) -> None:
    feed = RNG.standard_normal((2, 11, pair)).astype(np.float32)
    node = helper.make_node("DFT", ["x"], ["y"], axis=1, **options)
    got, expected = both(tmp_path, node, feed, TensorProto.FLOAT)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [16, 8])
@pytest.mark.parametrize("options", [{}, {"onesided": 1}, {"inverse": 1}])
def test_dft_of_another_length(tmp_path: Path, options: dict[str, int], length: int) -> None:
    """Zeros follow, or what is longer is cut."""
    feed = RNG.standard_normal((2, 11, 1 if "onesided" in options else 2)).astype(np.float32)
    node = helper.make_node("DFT", ["x", "n"], ["y"], axis=1, **options)
    got, expected = both(tmp_path, node, feed, TensorProto.FLOAT, n=np.int64(length))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_what_no_page_can_hold_is_refused() -> None:
    check_memory(WASM_BYTES, "weights alone")
    with pytest.raises(ModelError, match=r"weights alone take 5\.0 GiB; a page's memory holds 4"):
        check_memory(5 * 2**30, "weights alone")


def test_products_in_bytes_by_row_keep_their_kernels(tmp_path: Path) -> None:
    """Both scales and the bias end the product; what rounds a row reads it twice."""
    source, path = mlp(tmp_path / "m.onnx", sizes=(64, 96, 64)), tmp_path / "rows.onnx"
    x = RNG.standard_normal((5, 64)).astype(np.float32)
    derive(source, path, Recipe("int8-rows", max_error=0.5), {"x": x})
    built = import_model(path, tmp_path / "w.bin")
    kinds = [w.kind for w in built.workloads]
    assert kinds.count("matmul_int8") == 2 and "matmul" not in kinds
    (got,) = run_by_kernels(built, tmp_path / "w.bin", {"x": x}, "simd128").values()
    (expected,) = exact_session(path).run(None, {"x": x})
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-6)
