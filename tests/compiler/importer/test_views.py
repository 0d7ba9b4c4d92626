"""What is no view must not be taken for one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import import_model


def test_a_transposed_product_with_itself_keeps_both_factors(tmp_path: Path) -> None:
    """``x * f(x)`` behind a transpose, in front of a matmul: it was read as a plain transpose."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Sigmoid", ["t"], ["s"]),
        helper.make_node("Mul", ["t", "s"], ["p"]),
        helper.make_node("MatMul", ["p", "w"], ["y"]),
    ]
    weight = numpy_helper.from_array(rng.standard_normal((8, 16)).astype(np.float32), "w")
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [8, 12]), ("y", [12, 16]))
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [weight])
    path, file = tmp_path / "m.onnx", tmp_path / "w.bin"
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))
    feeds = {"x": rng.standard_normal((8, 12)).astype(np.float32)}
    got = run_by_kernels(import_model(path, file), file, feeds, "simd128")["y"]
    (expected,) = onnxruntime.InferenceSession(path).run(None, feeds)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
