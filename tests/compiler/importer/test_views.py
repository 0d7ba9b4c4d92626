"""What is no view must not be taken for one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from onnx import helper
from onnx_models import save
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
    path, file = tmp_path / "m.onnx", tmp_path / "w.bin"
    weights = {"w": rng.standard_normal((8, 16)).astype(np.float32)}
    save(path, nodes, {"x": [8, 12]}, {"y": [12, 16]}, weights)
    feeds = {"x": rng.standard_normal((8, 12)).astype(np.float32)}
    got = run_by_kernels(import_model(path, file), file, feeds, "simd128")["y"]
    (expected,) = onnxruntime.InferenceSession(path).run(None, feeds)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
