"""Unsigned integers of 64 bits have the bits of signed ones, and their own order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import save
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.errors import UnsupportedOpError
from nnjit_studio.model.feeds import in_known_dtype

OWN = TensorProto.UINT64
MOST = 2**64 - 1
X = np.array(
    [0, 1, 5, 2**63 - 1, 2**63, 2**63 + 1, MOST, MOST - 1, 12345678901234567890], np.uint64
)
Y = np.array([1, MOST, 3, 2**63, 7, 2**63, 2**62, MOST, 1234567], np.uint64)
SHIFT = np.array([0, 1, 2, 3, 63, 62, 1, 31, 33], np.uint64)
PAIRS = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.floor_divide,
    "Mod": np.mod, "Max": np.maximum, "Min": np.minimum, "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor, "Equal": np.equal,
    "Less": np.less, "Greater": np.greater, "LessOrEqual": np.less_equal,
    "GreaterOrEqual": np.greater_equal,
}  # fmt: skip


def port(name: str, array: Any) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def check(
    folder: Path, nodes: list[onnx.NodeProto], feeds: dict[str, Any], expected: dict[str, Any]
) -> None:
    """The results of kernels, of the same bits."""
    ports = [port(n, a) for n, a in feeds.items()], [port(n, a) for n, a in expected.items()]
    path = save(folder / "m.onnx", nodes, *ports, opset=18)
    built = import_model(path, folder / "w.bin")
    given = {n: in_known_dtype(a) for n, a in feeds.items()}
    got = run_by_kernels(built, folder / "w.bin", given, "simd128")
    for name, array in expected.items():
        np.testing.assert_array_equal(got[name], in_known_dtype(array), name)


def test_pairs_of_numbers(tmp_path: Path) -> None:
    nodes = [helper.make_node(op, ["x", "y"], [op]) for op in PAIRS]
    check(tmp_path, nodes, {"x": X, "y": Y}, {op: fn(X, Y) for op, fn in PAIRS.items()})


def test_shifts(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("BitShift", ["x", "by"], [way], direction=way) for way in ("LEFT", "RIGHT")
    ]
    expected = {"LEFT": X << SHIFT, "RIGHT": X >> SHIFT}
    check(tmp_path, nodes, {"x": X, "by": SHIFT}, expected)


def test_order(tmp_path: Path) -> None:
    k = helper.make_node("Constant", [], ["k"], value=helper.make_tensor("k", 7, [1], [3]))
    nodes = [
        k,
        helper.make_node("TopK", ["x", "k"], ["top", "places"]),
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("ReduceMin", ["x"], ["least"], keepdims=0),
        helper.make_node("ArgMax", ["x"], ["place"], keepdims=0),
        helper.make_node("Clip", ["x", "low", "high"], ["between"]),
    ]
    low, high = np.array(3, np.uint64), np.array(2**63, np.uint64)
    places = np.argsort(X)[::-1][:3].astype(np.int64)
    expected = {
        "top": X[places],
        "places": places,
        "place": np.array(6),
        "most": np.array(X.max()),
        "least": np.array(X.min()),
        "between": np.clip(X, low, high),
    }
    check(tmp_path, nodes, {"x": X, "low": low, "high": high}, expected)


def test_casts(tmp_path: Path) -> None:
    near = np.array([2**63 + 2**39 - 1, 2**63 + 2**39, 2**63 + 2**39 + 1, MOST], np.uint64)
    x = np.concatenate([X, near])
    floats = np.array([0, 1.5, 2.0**63, 2.0**64 * 0.75, 2.0**62], np.float32)
    kinds = {"float": np.float32, "int32": np.int32, "bool": np.bool_, "signed": np.int64}
    nodes = [
        helper.make_node("Cast", ["x"], [n], to=helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
        for n, kind in kinds.items()
    ]
    nodes += [
        helper.make_node("Cast", ["floats"], ["whole"], to=OWN),
        helper.make_node("Cast", ["small"], ["wide"], to=OWN),
    ]
    small = np.array([-1, 7], np.int32)
    expected = {name: x.astype(kind) for name, kind in kinds.items()}
    expected |= {"whole": floats.astype(np.uint64), "wide": small.astype(np.uint64)}
    check(tmp_path, nodes, {"x": x, "floats": floats, "small": small}, expected)


def test_weights_and_moves(tmp_path: Path) -> None:
    table = helper.make_tensor("t", OWN, [9], [int(n) for n in X])
    nodes = [
        helper.make_node("Constant", [], ["table"], value=table),
        helper.make_node("Gather", ["table", "places"], ["read"]),
        helper.make_node("Where", ["flag", "read", "x"], ["chosen"]),
        helper.make_node("Concat", ["chosen", "x"], ["y"], axis=0),
    ]
    places, flag = np.array([6, 4, 0]), np.array([True, False, True])
    x = X[3:6]
    y = np.concatenate([np.where(flag, X[places], x), x])
    check(tmp_path, nodes, {"places": places, "flag": flag, "x": x}, {"y": y})


def test_other_operators_are_refused_by_name(tmp_path: Path) -> None:
    node = helper.make_node("Sign", ["x"], ["y"], name="sign")
    with pytest.raises(UnsupportedOpError, match="needs other integers"):
        check(tmp_path, [node], {"x": X}, {"y": X})
