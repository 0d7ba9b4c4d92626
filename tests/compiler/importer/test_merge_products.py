"""Q, K and V are one product where their readers can read slices, and three where not."""

from __future__ import annotations

from collections.abc import Sequence
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


K, N = 64, 24


def _in_blocks(
    path: Path, rows: int, zeros: bool, tail: list[object], widths: Sequence[int] = (4, 4),
    **more: np.ndarray,
) -> Path:  # fmt: skip
    """Products ``p0``, ``p1`` ... of one input with weights in blocks of so many bits, and what is
    made of them."""
    rng = np.random.default_rng(7)
    constants, nodes, n = {}, [], N
    for i, bits in enumerate(widths):
        names = ["x", f"w{i}", f"s{i}", *([f"z{i}"] if zeros else [])]
        constants[f"w{i}"] = rng.integers(0, 256, (n, K // 32, 4 * bits)).astype(np.uint8)
        drawn = rng.uniform(0.01, 0.1, n * K // 32).astype(np.float32)
        constants[f"s{i}"] = drawn if bits == 4 else drawn / 256
        if zeros:
            constants[f"z{i}"] = rng.integers(0, 256, n * K // 256 * bits).astype(np.uint8)
        sizes = {"K": K, "N": n, "bits": bits, "block_size": 32, "domain": "com.microsoft"}
        nodes.append(helper.make_node("MatMulNBits", names, [f"p{i}"], **sizes))
    ports = {"x": [rows, K]}, {"y": [rows, N]}
    return save(path, [*nodes, *tail], *ports, {**constants, **more}, ("", "com.microsoft"))


def _silu(x: str, y: str) -> list[object]:
    make = helper.make_node
    return [make("Sigmoid", [x], [f"{x}s"]), make("Mul", [x, f"{x}s"], [y])]


def _four_bit_products(built: BuiltModel) -> list[tuple[int, ...]]:
    kinds = [w for w in built.workloads for _ in range(w.uses) if w.kind == "matmul_4bit"]
    return [w.dims for w in kinds]


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("gate", [0, 1])
def test_gate_and_up_in_4_bits_are_one_product(
    tmp_path: Path, rows: int, zeros: bool, gate: int
) -> None:
    """Whichever of them comes first in the file."""
    tail = [*_silu(f"p{gate}", "g"), helper.make_node("Mul", ["g", f"p{1 - gate}"], ["y"])]
    path = _in_blocks(tmp_path / "gated.onnx", rows, zeros, tail)
    x = {"x": np.random.default_rng(8).standard_normal((rows, K)).astype(np.float32)}
    built = check_against_onnxruntime(path, x)
    assert _four_bit_products(built) == [(rows, K, 2 * N)]
    assert [w.kind for w in built.workloads] == ["matmul_4bit", "gated"]


@pytest.mark.parametrize("widths", [(8, 8), (4, 8)])
def test_products_of_8_bits_are_one_but_not_of_8_and_4(
    tmp_path: Path, widths: tuple[int, int]
) -> None:
    tail = [helper.make_node("Sub", ["p0", "p1"], ["y"])]
    path = _in_blocks(tmp_path / "eight.onnx", 5, True, tail, widths)
    x = {"x": np.random.default_rng(8).standard_normal((5, K)).astype(np.float32)}
    built = check_against_onnxruntime(path, x)
    sizes = sorted((w.kind, w.dims[2]) for w in built.workloads if "bit" in w.kind)
    apart = [(f"matmul_{bits}bit", N) for bits in widths]
    assert sizes == ([("matmul_8bit", 2 * N)] if widths == (8, 8) else apart)


def test_4_bit_products_of_one_input_with_biases_are_one(tmp_path: Path) -> None:
    """As queries, keys and values of separate products, here read by their rows."""
    make = helper.make_node
    tail = [
        make("Add", ["p0", "b"], ["q"]),
        make("Sub", ["q", "p1"], ["d"]),
        make("Mul", ["d", "p2"], ["y"]),
    ]
    bias = np.random.default_rng(9).standard_normal(N).astype(np.float32)
    path = _in_blocks(tmp_path / "three.onnx", 5, False, tail, (4, 4, 4), b=bias)
    x = {"x": np.random.default_rng(8).standard_normal((5, K)).astype(np.float32)}
    built = check_against_onnxruntime(path, x)
    assert sum(dims[2] for dims in _four_bit_products(built)) == 3 * N


def test_a_gate_whose_result_others_read_keeps_its_end(tmp_path: Path) -> None:
    make = helper.make_node
    tail = [
        *_silu("p0", "g"),
        make("Mul", ["g", "p1"], ["h"]),
        make("Softmax", ["g"], ["m"]),
        make("Add", ["h", "m"], ["y"]),
    ]
    path = _in_blocks(tmp_path / "read.onnx", 3, False, tail)
    x = {"x": np.random.default_rng(8).standard_normal((3, K)).astype(np.float32)}
    built = check_against_onnxruntime(path, x)
    assert _four_bit_products(built) == [(3, K, N), (3, K, N)]
