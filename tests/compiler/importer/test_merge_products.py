"""Q, K and V are one product where their readers can read slices, and three where not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from onnx_models import save
from test_fold_views import attention, feeds
from test_importer import check_against_onnxruntime, run_by_reference

from nnjit_studio.compiler.importer import BuiltModel, import_model

ROWS, WIDTH = 6, 8


def products(built: BuiltModel) -> list[tuple[int, ...]]:
    return [w.dims for w in built.workloads for _ in range(w.uses) if w.kind == "matmul"]


def test_attention_has_one_product_of_its_input(tmp_path: Path) -> None:
    built = check_against_onnxruntime(attention(tmp_path / "attention.onnx"), feeds())
    assert products(built) == [(10, 24, 72), (10, 24, 24)]
    assert len(built.graph.nodes) == 5


def test_merging_is_a_choice_where_there_is_something_to_merge(tmp_path: Path) -> None:
    path = attention(tmp_path / "attention.onnx")
    merged = {c.name: c for c in import_model(path, tmp_path / "w.bin").choices}
    assert merged["merge_products"].value == "on" and merged["merge_products"].others == ("off",)
    weights = tmp_path / "apart.bin"
    apart = import_model(path, weights, ways={"merge_products": "off"})
    assert products(apart) == [(10, 24, 24)] * 4
    (choice,) = (c for c in apart.choices if c.name == "merge_products")
    assert (choice.value, choice.rule, choice.others) == ("off", "on", ("on",))
    again = check_against_onnxruntime(path, feeds())
    got, wanted = (
        run_by_reference(built, file, feeds())
        for built, file in ((apart, weights), (again, path.with_suffix(".bin")))
    )
    for name, expected in wanted.items():
        np.testing.assert_allclose(got[name], expected, rtol=2e-5, atol=2e-6)


def test_the_merged_node_knows_all_its_onnx_nodes(tmp_path: Path) -> None:
    built = check_against_onnxruntime(attention(tmp_path / "attention.onnx"), feeds())
    (node,) = (n for n in built.graph.nodes if ":10x24x72:" in n.workload)
    assert {"q0", "k0", "v0"} <= set(node.source)


def _two(path: Path, tail: list[object], outputs: dict[str, list[int]], bias: bool) -> Path:
    rng = np.random.default_rng(3)
    constants = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in (("w0", (WIDTH, 12)), ("w1", (WIDTH, 5)), ("b0", (12,)))
    }
    constants["zero"] = np.array(0, np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["p0"]),
        helper.make_node("MatMul", ["x", "w1"], ["p1"]),
        *([helper.make_node("Add", ["p0", "b0"], ["h0"])] if bias else []),
        *tail,
    ]
    if not bias:
        del constants["b0"]
    return save(path, nodes, {"x": [ROWS, WIDTH]}, outputs, constants)


@pytest.mark.parametrize("bias", [False, True])
def test_different_widths_and_a_missing_bias(tmp_path: Path, bias: bool) -> None:
    """Slices that a third product reads: as its rows and, where columns are neighbours, as B."""
    first = "h0" if bias else "p0"
    tail = [
        helper.make_node("Transpose", [first], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["t", "p1"], ["y"]),
    ]
    path = _two(tmp_path / "two.onnx", tail, {"y": [12, 5]}, bias)
    x = {"x": np.random.default_rng(4).standard_normal((ROWS, WIDTH)).astype(np.float32)}
    built = check_against_onnxruntime(path, x)
    assert (ROWS, WIDTH, 17) in products(built)
    assert len(built.graph.nodes) == 2


def test_slices_that_would_be_copied_are_not_made(tmp_path: Path) -> None:
    tail = [
        helper.make_node("Softmax", ["p0"], ["s0"], axis=-1),
        helper.make_node("Softmax", ["p1"], ["s1"], axis=-1),
    ]
    outputs = {"s0": [ROWS, 12], "s1": [ROWS, 5]}
    path = _two(tmp_path / "copied.onnx", tail, outputs, False)
    x = {"x": np.random.default_rng(4).standard_normal((ROWS, WIDTH)).astype(np.float32)}
    built = check_against_onnxruntime(path, x)
    assert sorted(products(built)) == [(ROWS, WIDTH, 5), (ROWS, WIDTH, 12)]


def test_weights_that_two_layers_share_are_merged_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    constants = {f"w{i}": rng.uniform(0.1, 1, (16, 16)).astype(np.float32) for i in range(2)}
    nodes = []
    for x in ("x", "z"):
        nodes += [helper.make_node("MatMul", [x, f"w{i}"], [f"{x}{i}"]) for i in range(2)]
        nodes += [
            helper.make_node("Transpose", [f"{x}0"], [f"{x}t"], perm=[1, 0]),
            helper.make_node("MatMul", [f"{x}t", f"{x}1"], [f"{x}y"]),
        ]
    shape = [ROWS, 16]
    outputs = {"xy": [16, 16], "zy": [16, 16]}
    path = save(tmp_path / "shared.onnx", nodes, {"x": shape, "z": shape}, outputs, constants)
    given = {n: rng.uniform(0.1, 1, shape).astype(np.float32) for n in ("x", "z")}
    built = check_against_onnxruntime(path, given)
    assert products(built).count((ROWS, 16, 32)) == 2
    assert built.plan.weights_bytes == 2 * 16 * 16 * 4
