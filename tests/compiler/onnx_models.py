"""Small ONNX models for the importer's tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[int | str]],
    outputs: dict[str, list[int]],
    weights: dict[str, np.ndarray] | None = None,
    domains: tuple[str, ...] = ("",),
) -> Path:
    """Write a float model; string dimensions stay open."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid(domain, 1 if domain else 17) for domain in domains]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))
    return path


def mlp(
    path: Path,
    rows: int | str = 5,
    seed: int = 0,
    sizes: tuple[int, int, int] = (6, 10, 7),
) -> Path:
    """x[rows, a] -> MatMul + Add + Relu -> MatMul + Add -> Softmax[rows, c]; odd sizes."""
    a, b, c = sizes
    rng = np.random.default_rng(seed)
    weights = {
        "w1": rng.standard_normal((a, b)).astype(np.float32),
        "b1": rng.standard_normal(b).astype(np.float32),
        "w2": rng.standard_normal((b, c)).astype(np.float32),
        "b2": rng.standard_normal(c).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["m1"], "first"),
        helper.make_node("Add", ["m1", "b1"], ["a1"], "first_bias"),
        helper.make_node("Relu", ["a1"], ["r1"], "relu"),
        helper.make_node("MatMul", ["r1", "w2"], ["m2"], "second"),
        helper.make_node("Add", ["m2", "b2"], ["a2"], "second_bias"),
        helper.make_node("Softmax", ["a2"], ["y"], "softmax", axis=-1),
    ]
    out_rows = rows if isinstance(rows, int) else 5
    return save(path, nodes, {"x": [rows, a]}, {"y": [out_rows, c]}, weights)
