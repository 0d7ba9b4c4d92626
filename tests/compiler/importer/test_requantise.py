"""Sums become bytes as in ONNX Runtime: halves go to the even neighbour, softmax in whole steps."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from exact_native import exact_session
from onnx import TensorProto, helper, numpy_helper
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.records import TIERS

PAIRS = 4096


def saved(
    folder: Path, nodes: list[Any], x: np.ndarray, dtype: int, weights: dict[str, Any]
) -> Path:
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()]
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", dtype, [f"d{i}" for i in range(x.ndim)])],
        tensors,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    path = folder / "m.onnx"
    onnx.save(model, path)
    return path


def both(folder: Path, path: Path, x: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """What ONNX Runtime computes, and what our kernels of each tier do."""
    native = exact_session(path)
    built = import_model(path, folder / "w.bin")
    ours = [run_by_kernels(built, folder / "w.bin", {"x": x}, tier)["y"] for tier in TIERS]
    return native.run(None, {"x": x})[0], ours


def accumulators(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Sums and factors: exact halves, their float neighbours, any, and far too large ones."""
    each = PAIRS // 4
    shift = rng.integers(1, 12, each)
    halves = (2 * rng.integers(-300, 300, each) + 1) * 2 ** (shift - 1), 2.0**-shift
    steps = 2 * rng.integers(-300, 300, each) + 1
    odd = rng.integers(1, 2000, each)
    near = steps * odd, (np.float32(0.5) / odd.astype(np.float32)).astype(np.float32)
    near_factor = np.nextafter(near[1], rng.choice([0, 1], each).astype(np.float32))
    any_ = rng.integers(-(1 << 20), 1 << 20, each), rng.uniform(1e-6, 1e-2, each)
    large = rng.integers(-(1 << 30), 1 << 30, each), rng.uniform(1e-9, 4.0, each)
    sums = np.concatenate([halves[0], near[0], any_[0], large[0]]).astype(np.int32)
    factors = np.concatenate([halves[1], near_factor, any_[1], large[1]])
    return sums, factors.astype(np.float32)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("seed", range(3))
def test_sums_are_rounded_to_even(tmp_path: Path, kind: Any, seed: int) -> None:
    """A convolution of zeros has its bias for a sum, and a scale for each channel."""
    rng = np.random.default_rng(seed)
    sums, factors = accumulators(rng)
    zero = kind(rng.integers(100, 120)) if kind is np.uint8 else kind(rng.integers(-20, 20))
    x = np.zeros((1, 4, 1, 1), kind)
    weights = {
        "one": np.float32(1), "none": kind(0), "w": np.ones((PAIRS, 4, 1, 1), np.int8),
        "factors": factors, "w0": np.zeros(PAIRS, np.int8), "y0": zero, "bias": sums,
    }  # fmt: skip
    names = ["x", "one", "none", "w", "factors", "w0", "one", "y0", "bias"]
    node = helper.make_node("QLinearConv", names, ["y"])
    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    expected, ours = both(tmp_path, saved(tmp_path, [node], x, dtype, weights), x)
    by_hand = np.rint(sums.astype(np.float32) * factors) + np.float32(zero)
    info = np.iinfo(kind)
    assert np.array_equal(expected.reshape(-1), np.clip(by_hand, info.min, info.max).astype(kind))
    away = np.floor(np.abs(sums * factors.astype(np.float64)) + 0.5) * np.sign(sums) + float(zero)
    assert not np.array_equal(np.clip(away, info.min, info.max), expected.reshape(-1))
    for got in ours:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("pairs", [True, False], ids=["pairs", "QLinearSoftmax"])
def test_one_is_a_whole_number_of_steps(tmp_path: Path, kind: Any, pairs: bool) -> None:
    """A 255th in float32 is a little too large: 254 steps are one, and not 255."""
    rng = np.random.default_rng(3)
    info = np.iinfo(kind)
    x = rng.integers(info.min, info.max + 1, (6, 40)).astype(kind)
    x[:, 0] = info.max
    scale = np.nextafter(np.float32(1 / 255), np.float32(1))
    weights = {"s": np.float32(0.11), "z": kind(3), "ys": scale, "yz": kind(info.min)}
    if pairs:
        nodes = [
            helper.make_node("DequantizeLinear", ["x", "s", "z"], ["a"]),
            helper.make_node("Softmax", ["a"], ["b"], axis=-1),
            helper.make_node("QuantizeLinear", ["b", "ys", "yz"], ["y"]),
        ]
    else:
        names, where = ["x", "s", "z", "ys", "yz"], {"axis": -1, "opset": 13}
        nodes = [helper.make_node("QLinearSoftmax", names, ["y"], domain="com.microsoft", **where)]
    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    expected, ours = both(tmp_path, saved(tmp_path, nodes, x, dtype, weights), x)
    for got in ours:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("guarded", [True, False])
def test_steps_of_a_softmax_with_a_guard(tmp_path: Path, kind: Any, guarded: bool) -> None:
    """ONNX Runtime's softmax of signed bytes is one of floats where two nodes read its result."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("ONNX Runtime moves signed bytes on x64 alone.")
    rng = np.random.default_rng(3)
    x = rng.standard_normal((6, 40)).astype(np.float32) * 4
    scale = np.nextafter(np.float32(1 / 255), np.float32(1))
    middle = int(np.iinfo(kind).min) + 128
    weights = {
        "s": np.float32(0.11), "z": kind(middle), "ys": scale, "yz": kind(np.iinfo(kind).min),
        "none": np.float32(0),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["a"]),
        helper.make_node("Softmax", ["a"], ["b"], axis=-1),
        helper.make_node("QuantizeLinear", ["b", "ys", "yz"], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "ys", "yz"], ["d"]),
    ]
    if guarded:
        nodes += [
            helper.make_node("IsNaN", ["d"], ["n"]),
            helper.make_node("Where", ["n", "none", "d"], ["w"]),
        ]
    nodes += [helper.make_node("Neg", ["w" if guarded else "d"], ["y"])]
    path = saved(tmp_path, nodes, x, TensorProto.FLOAT, weights)
    expected, ours = both(tmp_path, path, x)
    for got in ours:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("seed", range(4))
def test_products_of_activations_have_one_factor(tmp_path: Path, seed: int) -> None:
    """Between pairs, of no constant operand, as attention has them: equal to QLinearMatMul."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, (3, 24, 24)).astype(np.uint8)
    weights = {
        "sa": np.float32(rng.uniform(0.01, 0.1)), "sb": np.float32(rng.uniform(0.01, 0.1)),
        "z": np.uint8(121), "zb": np.uint8(90), "sy": np.float32(0.8), "zy": np.uint8(7),
    }  # fmt: skip
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        helper.make_node("DequantizeLinear", ["x", "sa", "z"], ["a"]),
        helper.make_node("DequantizeLinear", ["t", "sb", "zb"], ["b"]),
        helper.make_node("MatMul", ["a", "b"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "sy", "zy"], ["y"]),
    ]
    path = saved(tmp_path, nodes, x, TensorProto.UINT8, weights)
    expected, ours = both(tmp_path, path, x)
    assert len(np.unique(expected)) > 100
    for got in ours:
        np.testing.assert_array_equal(got, expected)
