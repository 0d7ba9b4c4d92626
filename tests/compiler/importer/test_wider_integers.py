"""Integers of 16 bits and unsigned ones of 32 are computed in a wider dtype, and wrap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.onnx_file.native import native_session, widened
from nnjit_studio.model.feeds import in_known_dtype

OPERATORS = {
    "sum": ("Add", np.add), "difference": ("Sub", np.subtract), "product": ("Mul", np.multiply),
    "largest": ("Max", np.maximum), "less": ("Less", np.less),
    "common": ("BitwiseAnd", np.bitwise_and),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.uint32])
def test_results_are_those_of_the_dtype(dtype: type, tmp_path: Path) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    limits, rng = np.iinfo(dtype), np.random.default_rng(0)
    x, y = (rng.integers(limits.min, limits.max, 40, dtype, endpoint=True) for _ in range(2))
    expected = {name: numpy(x, y) for name, (_, numpy) in OPERATORS.items()}
    expected |= {"number": x.astype(np.float32), "inverse": ~x}
    nodes = [helper.make_node(op, ["x", "y"], [name]) for name, (op, _) in OPERATORS.items()]
    nodes += [helper.make_node("Cast", ["x"], ["number"], to=1)]
    nodes += [helper.make_node("BitwiseNot", ["x"], ["inverse"])]
    if limits.min == 0:
        expected |= {
            "halves": x >> dtype(1),
            "doubles": x << dtype(1),
            "rest": x % np.maximum(y, 1),
        }
        nodes += [
            helper.make_node("BitShift", ["x", "one"], ["halves"], direction="RIGHT"),
            helper.make_node("BitShift", ["x", "one"], ["doubles"], direction="LEFT"),
            helper.make_node("Max", ["y", "one"], ["divisor"]),
            helper.make_node("Mod", ["x", "divisor"], ["rest"]),
        ]
    inputs = [helper.make_tensor_value_info(n, kind, [40]) for n in "xy"]
    outputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), [40])
        for n, a in expected.items()
    ]
    one = helper.make_tensor("one", kind, [], [1])
    graph = helper.make_graph(nodes, "g", inputs, outputs, [one])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    built = import_model(tmp_path / "m.onnx", tmp_path / "w.bin")
    feeds = {"x": in_known_dtype(x), "y": in_known_dtype(y)}
    assert feeds["x"].dtype == (np.int64 if dtype is np.uint32 else np.int32)
    got = run_by_kernels(built, tmp_path / "w.bin", feeds, "simd128")
    for name, values in expected.items():
        np.testing.assert_array_equal(got[name], values, name)


def test_native_sessions_get_the_dtype_of_their_own() -> None:
    port = helper.make_tensor_value_info("x", onnx.TensorProto.UINT16, [2])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2])
    node = helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.FLOAT)
    graph = helper.make_graph([node], "g", [port], [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    session = native_session(model.SerializeToString())
    given = widened(session, {"x": np.array([7, 65535], np.int32)})
    np.testing.assert_array_equal(session.run(None, given)[0], [7, 65535])
