"""Elementwise work behind a reshape joins its matmul; slices and factors join attention."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import helper
from onnx_models import save
from test_importer import check_against_onnxruntime

from nnjit_studio.compiler.importer import BuiltModel

ROWS, WIDTH, HEADS = 10, 24, 3
SIZE = WIDTH // HEADS


def _feeds() -> dict[str, np.ndarray]:
    x = np.random.default_rng(1).standard_normal((1, ROWS, WIDTH))
    return {"x": x.astype(np.float32)}


def _weights(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    return {n: (rng.standard_normal(s) / 4).astype(np.float32) for n, s in shapes.items()}


def _integers(**values: list[int]) -> dict[str, np.ndarray]:
    return {n: np.array(v, np.int64) for n, v in values.items()}


def _kernels(built: BuiltModel) -> list[str]:
    return [node.op for node in built.graph.nodes]


def _gelu_by_power(x: str, y: str) -> list[object]:
    """GELU as GPT-2 writes it: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    return [
        helper.make_node("Mul", [x, "half"], ["g0"]),
        helper.make_node("Pow", [x, "three"], ["g1"]),
        helper.make_node("Mul", ["g1", "small"], ["g2"]),
        helper.make_node("Add", [x, "g2"], ["g3"]),
        helper.make_node("Mul", ["g3", "root"], ["g4"]),
        helper.make_node("Tanh", ["g4"], ["g5"]),
        helper.make_node("Add", ["g5", "one"], ["g6"]),
        helper.make_node("Mul", ["g0", "g6"], [y]),
    ]


_CONSTANTS = {
    name: np.array(value, np.float32)
    for name, value in (
        ("half", 0.5),
        ("three", 3),
        ("small", 0.044715),
        ("root", (2 / np.pi) ** 0.5),
        ("one", 1),
    )
}


def test_gemm_reshape_gelu_and_residual(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["x2"]),
        helper.make_node("Gemm", ["x2", "w1", "b1"], ["h0"]),
        helper.make_node("Reshape", ["h0", "full1"], ["h1"]),
        *_gelu_by_power("h1", "h2"),
        helper.make_node("Reshape", ["h2", "flat1"], ["h3"]),
        helper.make_node("Gemm", ["h3", "w2", "b2"], ["h4"]),
        helper.make_node("Reshape", ["h4", "full"], ["h5"]),
        helper.make_node("Add", ["x", "h5"], ["y"]),
    ]
    inner = 2 * WIDTH
    constants = {
        **_CONSTANTS,
        **_weights(w1=(WIDTH, inner), b1=(inner,), w2=(inner, WIDTH), b2=(WIDTH,)),
        **_integers(
            flat=[ROWS, WIDTH], flat1=[ROWS, inner], full=[1, ROWS, WIDTH], full1=[1, ROWS, inner]
        ),
    }
    shape = [1, ROWS, WIDTH]
    path = save(tmp_path / "block.onnx", nodes, {"x": shape}, {"y": shape}, constants)
    built = check_against_onnxruntime(path, _feeds())
    assert _kernels(built) == ["matmul+bias+gelu", "matmul+bias+residual"]


def test_a_sum_that_is_read_twice_stays(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Reshape", ["h", "flat"], ["h2"]),
        helper.make_node("Relu", ["h2"], ["a"]),
        helper.make_node("Softmax", ["h2"], ["b"]),
    ]
    constants = {**_weights(w=(WIDTH, WIDTH)), **_integers(flat=[ROWS, WIDTH])}
    outputs = {"a": [ROWS, WIDTH], "b": [ROWS, WIDTH]}
    path = save(tmp_path / "twice.onnx", nodes, {"x": [1, ROWS, WIDTH]}, outputs, constants)
    built = check_against_onnxruntime(path, _feeds())
    assert len(built.graph.nodes) == 3


def test_split_heads_with_factors_are_read_in_place(tmp_path: Path) -> None:
    """Attention as torch.onnx writes it: one QKV product, split, q and k scaled each."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["qkv0"]),
        helper.make_node("Add", ["qkv0", "bias"], ["qkv"]),
        helper.make_node("Split", ["qkv"], ["q0", "k0", "v0"], axis=2),
    ]
    for name in "qkv":
        nodes += [
            helper.make_node("Reshape", [f"{name}0", "split"], [f"{name}1"]),
            helper.make_node("Transpose", [f"{name}1"], [f"{name}2"], perm=[0, 2, 1, 3]),
        ]
    nodes += [
        helper.make_node("Transpose", ["k2"], ["k3"], perm=[0, 1, 3, 2]),
        helper.make_node("Mul", ["q2", "scale"], ["q4"]),
        helper.make_node("Mul", ["k3", "scale"], ["k4"]),
        helper.make_node("MatMul", ["q4", "k4"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v2"], ["c"]),
        helper.make_node("Transpose", ["c"], ["c1"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["c1", "merge"], ["y"]),
    ]
    constants = {
        **_weights(w=(WIDTH, 3 * WIDTH), bias=(3 * WIDTH,)),
        **_integers(split=[1, ROWS, HEADS, SIZE], merge=[1, ROWS, WIDTH]),
        "scale": np.array(SIZE**-0.25, np.float32),
    }
    shape = [1, ROWS, WIDTH]
    path = save(tmp_path / "attention.onnx", nodes, {"x": shape}, {"y": shape}, constants)
    built = check_against_onnxruntime(path, _feeds())
    kinds = [w.split(":")[0] for w in (n.workload for n in built.graph.nodes)]
    assert kinds == ["matmul", "batch_matmul_dot", "softmax", "batch_matmul"]


def test_a_boolean_asked_through_integers_runs_on_lanes(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Softmax", ["x"], ["p"], axis=-1),
        helper.make_node("IsNaN", ["p"], ["n"]),
        helper.make_node("Where", ["n", "zero", "p"], ["y"]),
    ]
    shape = [1, ROWS, WIDTH]
    zero = {"zero": np.array(0, np.float32)}
    path = save(tmp_path / "masked.onnx", nodes, {"x": shape}, {"y": shape}, zero)
    feeds = _feeds()
    feeds["x"][0, 3] = -np.inf
    built = check_against_onnxruntime(path, feeds)
    (program,) = built.programs.values()
    assert "i64" not in str(program.stages)


def test_a_transpose_behind_a_convolution_stays(tmp_path: Path) -> None:
    """Its lanes run along the sequence; the sum with positions has channels inside."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], kernel_shape=[3], pads=[1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"], perm=[0, 2, 1]),
        helper.make_node("Add", ["t", "p"], ["y"]),
    ]
    constants = _weights(w=(6, ROWS, 3), b=(6,), p=(WIDTH, 6))
    shapes = {"x": [1, ROWS, WIDTH]}, {"y": [1, WIDTH, 6]}
    built = check_against_onnxruntime(
        save(tmp_path / "c.onnx", nodes, *shapes, constants), _feeds()
    )
    assert [op.split("+")[0] for op in _kernels(built)] == ["conv2d", "transpose_add"]
