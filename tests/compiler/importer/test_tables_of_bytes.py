"""Heads that read the bytes of the table that words are looked up in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from exact_native import exact_session
from onnx import TensorProto, helper
from onnx_models import save
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import BuiltModel, import_model
from nnjit_studio.compiler.importer.onnx import quantised, walk

ROWS, WIDTH, WORDS = 5, 24, 37
ZERO = {np.int8: 0, np.uint8: 131}
Case = tuple[BuiltModel, np.ndarray, np.ndarray]


def head(folder: Path, kind: type, nodes: list[onnx.NodeProto]) -> Case:
    """Ours and ONNX Runtime's logits of one table, ``t``, with its scale ``s`` and zero ``z``."""
    rng = np.random.default_rng(2)
    limits = np.iinfo(kind)
    weights = {
        "t": rng.integers(limits.min, limits.max + 1, (WORDS, WIDTH)).astype(kind),
        "s": np.array(0.03, np.float32),
        "z": np.array(ZERO[kind], kind),
        "step": np.array(0.05, np.float32),
        "middle": np.array(128, np.uint8),
        "wide": np.array(0.5, np.float32),
    }
    look = [
        helper.make_node("Cast", ["f"], ["ids"], to=TensorProto.INT64),
        helper.make_node("DequantizeLinear", ["t", "s", "z"], ["words"]),
        helper.make_node("Gather", ["words", "ids"], ["e"], axis=0),
        helper.make_node("Add", ["x", "e"], ["h"]),
    ]
    shapes: dict[str, list[int | str]] = {"x": [ROWS, WIDTH], "f": [ROWS]}
    path = save(folder / "head.onnx", [*look, *nodes], shapes, {"y": [ROWS, WORDS]}, weights)
    x = rng.standard_normal((ROWS, WIDTH)).astype(np.float32)
    feeds = {"x": x, "f": np.array([3, 0, 36, 7, 7], np.float32)}
    (wanted,) = exact_session(path, passes=False).run(None, feeds)
    built = import_model(path, folder / "w.bin")
    return built, run_by_kernels(built, folder / "w.bin", feeds, "relaxed-simd")["y"], wanted


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("bytes_first", [True, False])
def test_floats_times_a_turned_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type, bytes_first: bool
) -> None:
    """Turned before it is dequantised, as ONNX Runtime's tools write it, or behind that."""
    monkeypatch.setattr(quantised, "SMALLEST", 64)
    monkeypatch.setattr(walk, "_MAX_INTEGERS", 64)  # what is larger is not evaluated ahead
    nodes = [helper.make_node("Transpose", ["words"], ["turned"], perm=[1, 0])]
    if bytes_first:
        nodes = [
            helper.make_node("Transpose", ["t"], ["tt"], perm=[1, 0]),
            helper.make_node("DequantizeLinear", ["tt", "s", "z"], ["turned"]),
        ]
    built, y, wanted = head(
        tmp_path, kind, [*nodes, helper.make_node("MatMul", ["h", "turned"], ["y"])]
    )
    np.testing.assert_allclose(y, wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())
    assert built.plan.weights_bytes < 2 * WORDS * WIDTH
    assert {w.kind: w.tunable for w in built.workloads}["matmul_dot"]


def test_small_tables_are_decoded(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Transpose", ["words"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["h", "turned"], ["y"]),
    ]
    built, y, wanted = head(tmp_path, np.int8, nodes)
    np.testing.assert_allclose(y, wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())
    assert built.plan.weights_bytes > 4 * WORDS * WIDTH


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_pairs_around_a_turned_table(tmp_path: Path, kind: type) -> None:
    """Of bytes by bytes it is a product of integers, as in QLinearMatMul."""

    def pair(x: str, scale: str, zero: str, out: str) -> list[onnx.NodeProto]:
        return [
            helper.make_node("QuantizeLinear", [x, scale, zero], [f"{x}_q"]),
            helper.make_node("DequantizeLinear", [f"{x}_q", scale, zero], [out]),
        ]

    nodes = [
        helper.make_node("Transpose", ["words"], ["turned"], perm=[1, 0]),
        *pair("turned", "s", "z", "b"),
        *pair("h", "step", "middle", "a"),
        helper.make_node("MatMul", ["a", "b"], ["p"]),
        *pair("p", "wide", "middle", "y"),
    ]
    built, y, wanted = head(tmp_path, kind, nodes)
    np.testing.assert_array_equal(y, wanted)
    assert "matmul_int8" in {w.kind for w in built.workloads}
