"""Attention's transposes are folded into its matmuls, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from kernel_harness import run_kernel
from onnx import helper, numpy_helper
from onnx_models import save
from test_importer import check_against_onnxruntime

from nnjit_studio.compiler.importer import BuiltModel
from nnjit_studio.compiler.oracle.reference import evaluate_with_bound
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.recognize.matmul import recognize
from nnjit_studio.records import DeviceProfile
from nnjit_studio.space.lite_space import build_lite_space

SEQUENCE, HEADS, SIZE = 10, 3, 8
WIDTH = HEADS * SIZE


def attention(path: Path, outputs: tuple[str, ...] = ("y",), size: int = SIZE) -> Path:
    """softmax(Q K^T / sqrt(d)) V with projections, split and merged heads."""
    rng = np.random.default_rng(7)
    width = HEADS * size
    weights = {
        f"w{n}": (rng.standard_normal((width, width)) / 5).astype(np.float32) for n in "qkvo"
    }
    nodes = []
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            helper.make_node("MatMul", ["x", f"w{name}"], [f"{name}0"]),
            helper.make_node("Reshape", [f"{name}0", "split"], [f"{name}1"]),
            helper.make_node("Transpose", [f"{name}1"], [f"{name}2"], perm=order),
        ]
    nodes += [
        helper.make_node("MatMul", ["q2", "k2"], ["s0"]),
        helper.make_node("Mul", ["s0", "scale"], ["s1"]),
        helper.make_node("Softmax", ["s1"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v2"], ["c0"]),
        helper.make_node("Transpose", ["c0"], ["c1"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["c1", "merge"], ["c2"]),
        helper.make_node("MatMul", ["c2", "wo"], ["y"]),
    ]
    shapes = {"y": [1, SEQUENCE, width], "q2": [1, HEADS, SEQUENCE, size]}
    model = save(
        path,
        nodes,
        {"x": [1, SEQUENCE, width]},
        {name: shapes[name] for name in outputs},
        {**weights, "scale": np.array(size**-0.5, np.float32)},
    )
    return _with_integers(
        model, {"split": [1, SEQUENCE, HEADS, size], "merge": [1, SEQUENCE, width]}
    )


def _with_integers(path: Path, values: dict[str, list[int]]) -> Path:

    model = onnx.load(str(path))
    for name, value in values.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(value, np.int64), name))
    onnx.save(model, str(path))
    return path


def transposes(built: BuiltModel) -> list[str]:
    return [node.op for node in built.graph.nodes if "transpose" in node.op]


def feeds() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).standard_normal((1, SEQUENCE, WIDTH)).astype(np.float32)}


def test_attention_has_no_transposes(tmp_path: Path) -> None:
    built = check_against_onnxruntime(attention(tmp_path / "attention.onnx"), feeds())
    assert transposes(built) == []
    batched = [
        c
        for w in built.workloads
        if w.kind.startswith("batch_matmul") and (c := recognize(built.programs[w.key])) is not None
    ]
    # Q, K and V inside their one product: K along the reduction, V along the columns.
    assert sorted((c.a.row, c.b.row, c.b.column) for c in batched) == [
        (SEQUENCE, 3 * WIDTH, 1),
        (3 * WIDTH, 1, 3 * WIDTH),
    ]


def test_a_transpose_that_is_an_output_stays(tmp_path: Path) -> None:
    path = attention(tmp_path / "attention.onnx", ("y", "q2"))
    built = check_against_onnxruntime(path, feeds())
    assert len(transposes(built)) == 1


def test_candidates_read_and_write_the_strided_views(tmp_path: Path) -> None:
    built = check_against_onnxruntime(attention(tmp_path / "attention.onnx"), feeds())
    checked = 0
    for workload in built.workloads:
        if not workload.kind.startswith("batch_matmul"):
            continue
        program = built.programs[workload.key]
        rng = np.random.default_rng(2)
        inputs = {
            b.name: rng.standard_normal(b.shape).astype(np.float32)
            for b in program.buffers
            if b.role == "input"
        }
        device = DeviceProfile("t", "t")
        entries = build_lite_space(workload, device, False).entries if workload.tunable else ()
        for candidate in (None, *(e.candidate for e in entries[:5])):
            made = compile_program(program, candidate, "relaxed-simd")
            got = run_kernel(program, made.data, made.parallel_extent, inputs, made.panels)
            for name, (value, bound) in evaluate_with_bound(program, inputs).items():
                assert (np.abs(got[name] - value) <= bound + 1e-30).all()
            checked += 1
    assert checked >= 6


def test_a_transpose_beside_elementwise_work_stays(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Softmax", ["t"], ["y"], axis=-1),
    ]
    path = save(tmp_path / "plain.onnx", nodes, {"x": [6, 5]}, {"y": [5, 6]})
    built = check_against_onnxruntime(path, {"x": np.eye(6, 5, dtype=np.float32)})
    assert len(built.graph.nodes) == 2


@pytest.mark.parametrize("perm", [[1, 0, 2], [2, 0, 1]])
def test_a_matmul_of_transposed_batches(tmp_path: Path, perm: list[int]) -> None:
    rng = np.random.default_rng(3)
    shape = [0, 0, 0]
    for place, source in enumerate(perm):
        shape[source] = (4, 6, 5)[place]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=perm),
        helper.make_node("MatMul", ["t", "z"], ["y"]),
    ]
    path = save(
        tmp_path / "batch.onnx", nodes, {"x": list(shape), "z": [4, 5, 8]}, {"y": [4, 6, 8]}
    )
    built = check_against_onnxruntime(
        path,
        {
            "x": rng.standard_normal(shape).astype(np.float32),
            "z": rng.standard_normal((4, 5, 8)).astype(np.float32),
        },
    )
    assert transposes(built) == []
    assert len(built.graph.nodes) == 1


def test_slices_that_join_a_past_are_read_in_place(tmp_path: Path) -> None:
    """A decoder's step: new keys and values go from one product behind the old ones, at once."""
    width = 16
    rng = np.random.default_rng(4)
    weight = rng.standard_normal((width, 2 * width)).astype(np.float32) / 4
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["kv"]),
        helper.make_node("Split", ["kv"], ["k", "v"], axis=1),
        helper.make_node("Concat", ["past_k", "k"], ["all_k"], axis=0),
        helper.make_node("Concat", ["past_v", "v"], ["all_v"], axis=0),
    ]
    past, all_of_it = [5, width], [6, width]
    path = save(
        tmp_path / "step.onnx",
        nodes,
        {"x": [1, width], "past_k": past, "past_v": past},
        {"all_k": all_of_it, "all_v": all_of_it},
        {"w": weight},
    )
    given = {"x": (1, width), "past_k": (5, width), "past_v": (5, width)}
    arrays = {n: rng.standard_normal(s).astype(np.float32) for n, s in given.items()}
    built = check_against_onnxruntime(path, arrays)
    assert len(built.graph.nodes) == 2


def test_a_transpose_is_not_read_across_its_rows(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["t", "w"], ["a"]),
        helper.make_node("Concat", ["t", "z"], ["b"], axis=0),
    ]
    rng = np.random.default_rng(6)
    shapes = {"x": [6, 8], "z": [3, 6]}
    arrays = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    weight = rng.standard_normal((6, 5)).astype(np.float32)
    outputs = {"a": [8, 5], "b": [11, 6]}
    path = save(tmp_path / "across.onnx", nodes, shapes, outputs, {"w": weight})
    built = check_against_onnxruntime(path, arrays)
    assert len(built.graph.nodes) == 3
