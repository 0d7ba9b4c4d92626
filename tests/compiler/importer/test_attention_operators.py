"""ONNX Runtime's attention operators and packed weights give what ONNX Runtime gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from exact_native import exact_session
from onnx import helper, numpy_helper
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.errors import UnsupportedOpError

RNG = np.random.default_rng(0)
Arrays = dict[str, Any]


def real(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def check(
    folder: Path, op: str, names: list[str], feeds: Arrays, weights: Arrays, *,
    outs: tuple[str, ...] = ("y",), behind: bool = False, **attributes: Any,
) -> None:  # fmt: skip
    """One node, and with ``behind`` another of ONNX's that needs its shape."""
    nodes = [helper.make_node(op, names, list(outs), domain="com.microsoft", **attributes)]
    results = list(outs)
    if behind:
        nodes.append(helper.make_node("Softmax", ["y"], ["behind"], axis=-1))
        results.append("behind")
    tensors = [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()]
    inputs = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for k, v in feeds.items()
    ]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    path, file = folder / "m.onnx", folder / "w.bin"

    def save(shapes: list[list[str] | None]) -> None:
        pairs = zip(results, shapes, strict=True)
        outputs = [helper.make_tensor_value_info(o, 1, shape) for o, shape in pairs]
        graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))

    save([None] * len(results))
    wanted = exact_session(path).run(results, feeds)
    save([[f"{o}{i}" for i in range(v.ndim)] for o, v in zip(results, wanted, strict=True)])
    got = run_by_kernels(import_model(path, file), file, feeds, "simd128")
    for name, value in zip(results, wanted, strict=True):
        tolerance = 2e-6 * max(1.0, float(np.abs(value).max()))
        np.testing.assert_allclose(got[name], value, rtol=2e-5, atol=10 * tolerance, err_msg=name)


@pytest.mark.parametrize("queries", [5, 1])
@pytest.mark.parametrize("mask", [False, True])
def test_multi_head_attention(tmp_path: Path, queries: int, mask: bool) -> None:
    feeds = {"q": real(2, queries, 24), "k": real(2, 7, 24), "v": real(2, 7, 24)}
    names = ["q", "k", "v", "b"]
    if mask:
        feeds["m"] = np.array([[1] * 7, [1] * 4 + [0] * 3], np.int32)
        feeds["a"] = real(1, 3, queries, 7)
        names += ["m", "a"]
    check(tmp_path, "MultiHeadAttention", names, feeds, {"b": real(72)}, num_heads=3, behind=True)


@pytest.mark.parametrize("causal", [0, 1])
def test_multi_head_attention_with_a_past(tmp_path: Path, causal: int) -> None:
    feeds = {n: real(1, 3, 16) for n in "qkv"} | {n: real(1, 2, 4, 8) for n in ("pk", "pv")}
    names = ["q", "k", "v", "", "", "", "pk", "pv"]
    outs = ("y", "nk", "nv")
    check(
        tmp_path, "MultiHeadAttention", names, feeds, {}, outs=outs, num_heads=2, scale=0.3,
        unidirectional=causal,
    )  # fmt: skip


def test_cross_attention_with_split_keys(tmp_path: Path) -> None:
    feeds = {"q": real(2, 3, 16), "k": real(2, 2, 6, 8), "v": real(2, 2, 6, 8)}
    check(tmp_path, "MultiHeadAttention", ["q", "k", "v"], feeds, {}, num_heads=2)


@pytest.mark.parametrize("causal", [0, 1])
def test_attention(tmp_path: Path, causal: int) -> None:
    feeds = {"x": real(2, 6, 12), "m": np.array([[1] * 6, [1] * 4 + [0] * 2], np.int32)}
    weights = {"w": real(12, 48), "b": real(48)}
    names = ["x", "w", "b"] if causal else ["x", "w", "b", "m"]
    feeds = {k: v for k, v in feeds.items() if k in names}
    check(
        tmp_path, "Attention", names, feeds, weights, num_heads=4, unidirectional=causal,
        behind=True,
    )  # fmt: skip


def test_attention_with_a_past(tmp_path: Path) -> None:
    feeds = {"x": real(1, 2, 12), "p": real(2, 1, 3, 5, 4)}
    weights = {"w": real(12, 36), "b": real(36)}
    check(
        tmp_path, "Attention", ["x", "w", "b", "", "p"], feeds, weights, outs=("y", "n"),
        num_heads=3, unidirectional=1,
    )  # fmt: skip


def test_quantised_attention(tmp_path: Path) -> None:
    feeds = {"x": RNG.integers(0, 255, (1, 5, 16)).astype(np.uint8)}
    weights = {
        "w": RNG.integers(-127, 127, (16, 48)).astype(np.int8), "sx": np.float32(0.02),
        "sw": np.float32(0.01), "b": real(48), "zx": np.uint8(120), "zw": np.int8(0),
    }  # fmt: skip
    names = ["x", "w", "b", "sx", "sw", "", "zx", "zw"]
    check(tmp_path, "QAttention", names, feeds, weights, num_heads=2)


def grouped(batch: int, new: int, old: int, *, packed: bool) -> tuple[list[str], Arrays, Arrays]:
    size, heads, shared = 16, 6, 2
    total = new + old
    angles = np.arange(64)[:, None] / 10.0 ** np.arange(size // 2)
    weights = {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    weights |= {"l": np.full(batch, total - 1, np.int32), "t": np.int32(total)}
    feeds = {"q": real(batch, new, (heads + 2 * shared if packed else heads) * size)}
    if not packed:
        feeds |= {n: real(batch, new, shared * size) for n in "kv"}
    names = ["q", *(["", ""] if packed else ["k", "v"]), "", "", "l", "t", "cos", "sin"]
    if old:
        feeds |= {n: real(batch, shared, old, size) for n in ("pk", "pv")}
        names[3:5] = ["pk", "pv"]
    return names, feeds, weights


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("new", "old", "options"),
    [
        (7, 0, {}),
        (1, 5, {}),
        (1, 9, {"local_window_size": 4}),
        (6, 0, {"local_window_size": 3, "softcap": 5.0, "scale": 0.2}),
        (5, 0, {"rotary_interleaved": 1}),
    ],
)
def test_group_query_attention(
    tmp_path: Path, new: int, old: int, options: dict[str, Any], packed: bool
) -> None:
    names, feeds, weights = grouped(2, new, old, packed=packed)
    check(
        tmp_path, "GroupQueryAttention", names, feeds, weights, outs=("y", "nk", "nv"),
        behind=True, num_heads=6, kv_num_heads=2, do_rotary=1, **options,
    )  # fmt: skip


def test_a_past_that_does_not_fill_its_buffer_is_never_wrong(tmp_path: Path) -> None:
    """Lengths that are an input: right where they are full, else visible in every result."""
    names, feeds, weights = grouped(2, 1, 5, packed=False)
    feeds["l"] = weights.pop("l")
    options = {"num_heads": 6, "kv_num_heads": 2, "do_rotary": 1}
    check(tmp_path, "GroupQueryAttention", names, feeds, weights, outs=("y", "nk", "nv"), **options)
    feeds["l"] = np.array([5, 3], np.int32)
    program, file = import_model(tmp_path / "m.onnx", tmp_path / "w.bin"), tmp_path / "w.bin"
    got = run_by_kernels(program, file, feeds, "simd128")["y"]
    assert np.isfinite(got[0]).all() and np.isnan(got[1]).all()
    weights["l"] = feeds.pop("l")
    with pytest.raises(UnsupportedOpError, match="fills its buffer"):
        check(
            tmp_path,
            "GroupQueryAttention",
            names,
            feeds,
            weights,
            outs=("y", "nk", "nv"),
            **options,
        )


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("k", [64, 72])
def test_products_of_eight_bit_blocks(tmp_path: Path, k: int, zero: bool) -> None:
    """Whole blocks, and rows that end inside one."""
    n, block = 12, 32
    blocks = -(-k // block)
    weights: Arrays = {
        "w": RNG.integers(0, 256, (n, blocks, block)).astype(np.uint8),
        "s": RNG.uniform(0.001, 0.02, n * blocks).astype(np.float32),
    }
    if zero:
        weights["z"] = RNG.integers(0, 256, n * blocks).astype(np.uint8)
    names = ["x", "w", "s", *(["z"] if zero else [])]
    options = {"K": k, "N": n, "block_size": block, "bits": 8}
    check(tmp_path, "MatMulNBits", names, {"x": real(3, 5, k)}, weights, behind=True, **options)


@pytest.mark.parametrize("kind", [0, 1])
def test_products_of_bitsandbytes_formats(tmp_path: Path, kind: int) -> None:
    k, n, block = 48, 10, 16
    weights = {
        "w": RNG.integers(0, 256, n * k // 2).astype(np.uint8),
        "s": RNG.uniform(0.1, 1, n * k // block).astype(np.float32),
    }
    options = {"K": k, "N": n, "block_size": block, "quant_type": kind}
    check(tmp_path, "MatMulBnb4", ["x", "w", "s"], {"x": real(4, k)}, weights, **options)


@pytest.mark.parametrize(("bits", "zero"), [(4, False), (4, True), (8, True)])
def test_rows_of_blocks(tmp_path: Path, bits: int, zero: bool) -> None:
    rows, width, block = 20, 64, 16
    packed, blocks = width * bits // 8, width // block
    weights: Arrays = {
        "w": RNG.integers(0, 256, (rows, packed)).astype(np.uint8),
        "s": RNG.uniform(0.01, 0.1, (rows, blocks)).astype(np.float32),
    }
    names = ["w", "i", "s", *(["z"] if zero else [])]
    if zero:
        weights["z"] = RNG.integers(0, 256, (rows, blocks * bits // 8)).astype(np.uint8)
    feeds = {"i": RNG.integers(0, rows, (2, 3))}
    options = {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}
    check(tmp_path, "GatherBlockQuantized", names, feeds, weights, behind=True, **options)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    feeds = {"x": real(2, 6, 12), "m": np.array([6, 4], np.int32)}
    weights = {"w": real(12, 36), "b": real(36)}
    with pytest.raises(UnsupportedOpError, match="needs a mask with a number for each key"):
        check(tmp_path, "Attention", ["x", "w", "b", "m"], feeds, weights, num_heads=3)
