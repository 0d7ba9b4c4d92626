"""Small ONNX models for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper

Ports = Mapping[str, Sequence[int | str | None] | None] | Sequence[onnx.ValueInfoProto]
"""Inputs or outputs: whole, or the shapes of f32 by name; string dimensions stay open."""
Held = Mapping[str, ArrayLike] | Sequence[onnx.TensorProto]


def save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Ports,
    outputs: Ports,
    weights: Held = (),
    domains: Sequence[str] = ("",),
    opset: int = 17,
) -> Path:
    """Write a model."""
    graph = helper.make_graph(nodes, path.stem, _ports(inputs), _ports(outputs), _held(weights))
    opsets = [helper.make_opsetid(domain, 1 if domain else opset) for domain in domains]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))
    return path


def _ports(given: Ports) -> list[onnx.ValueInfoProto]:
    if not isinstance(given, Mapping):
        return list(given)
    return [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in given.items()]


def _held(given: Held) -> list[onnx.TensorProto]:
    if not isinstance(given, Mapping):
        return list(given)
    return [numpy_helper.from_array(np.asarray(a), n) for n, a in given.items()]


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
