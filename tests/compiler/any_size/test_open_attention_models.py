"""Models whose attention is one kernel for any size, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from exact_native import exact_session
from onnx import TensorProto, helper, numpy_helper
from onnx_models import save
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

from nnjit_studio.compiler.any_size.imports import AnySize, import_any
from nnjit_studio.compiler.any_size.inputs import Feeds
from nnjit_studio.compiler.any_size.runs.runner import OpenRunner
from nnjit_studio.records import GPU_TIERS, TIERS

node, port = helper.make_node, helper.make_tensor_value_info
WIDTH, HEADS = 32, 2
LENGTHS = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 64, 127, 128, 255, 308)


def layer(kind: str, x: str, other: str, y: str) -> list[Any]:
    """Nodes of one attention, from ``x`` and the sequence that it looks at."""
    nodes = []
    for name, source, perm in (
        ("q", x, (0, 2, 1, 3)),
        ("k", other, (0, 2, 3, 1)),
        ("v", other, (0, 2, 1, 3)),
    ):
        nodes += [
            node("MatMul", [source, f"w{name}"], [f"{name}1{y}"]),
            node("Reshape", [f"{name}1{y}", "split"], [f"{name}2{y}"]),
            node("Transpose", [f"{name}2{y}"], [f"{name}{y}"], perm=perm),
        ]
    nodes += [
        node("MatMul", [f"q{y}", f"k{y}"], [f"s0{y}"]),
        node("Mul", [f"s0{y}", "scale"], [f"s1{y}"]),
    ]
    masked = {"causal": node("Where", ["seen", f"s1{y}", "low"], [f"s2{y}"])}
    masked |= dict.fromkeys(("mask", "batch"), node("Add", [f"s1{y}", "hidden"], [f"s2{y}"]))
    return [
        *nodes,
        masked.get(kind, node("Identity", [f"s1{y}"], [f"s2{y}"])),
        node("Softmax", [f"s2{y}"], [f"p{y}"], axis=-1),
        node("MatMul", [f"p{y}", f"v{y}"], [f"m{y}"]),
        node("Transpose", [f"m{y}"], [f"t{y}"], perm=[0, 2, 1, 3]),
        node("Reshape", [f"t{y}", "join"], [f"j{y}"]),
        node("MatMul", [f"j{y}", "wo"], [f"o{y}"]),
        node("Add", [f"o{y}", x], [y]),
    ]


MASKS = {
    "causal": [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "axis"], ["length"]),
        node("Range", ["from", "length", "step"], ["steps"]),
        node("Unsqueeze", ["steps", "last"], ["rows"]),
        node("GreaterOrEqual", ["rows", "steps"], ["seen"]),
    ],
    "mask": [
        node("Unsqueeze", ["mask", "axes"], ["m1"]),
        node("Sub", ["one", "m1"], ["m2"]),
        node("Mul", ["m2", "low"], ["hidden"]),
    ],
}
MASKS["batch"] = MASKS["mask"]


def model(folder: Path, kind: str) -> Path:
    """Two layers of two heads of 16: ``mask`` hides keys, ``causal`` what comes later, ``cross``
    reads another sequence, ``batch`` has several."""
    rng = np.random.default_rng(3)
    batch, other = "b" if kind == "batch" else 1, "z" if kind == "cross" else ""
    nodes = [*MASKS.get(kind, []), *layer(kind, "x", other or "x", "h")]
    nodes += layer(kind, "h", other or "h", "y")
    weights = {f"w{n}": rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 5 for n in "qkvo"}
    weights |= {"scale": np.float32(0.25), "low": np.float32(-3e38 if kind == "causal" else -1e9)}
    weights |= {"one": np.float32(1), "axes": np.array([1, 2]), "last": np.array([-1])}
    weights |= {"axis": np.array(1), "from": np.array(0), "step": np.array(1)}
    weights |= {"split": np.array([0, -1, HEADS, WIDTH // HEADS]), "join": np.array([0, -1, WIDTH])}
    used = {name for n in nodes for name in n.input}
    shapes = {"x": [batch, "n", WIDTH], "z": [1, "k", WIDTH], "mask": [batch, "n"]}
    inputs, held = ({n: of[n] for n in of if n in used} for of in (shapes, weights))
    return save(folder / "m.onnx", nodes, inputs, {"y": shapes["x"]}, held)


def feeds(kind: str, n: int, batch: int = 1, keys: int = 0) -> Feeds:
    rng = np.random.default_rng(n)
    made = {"x": rng.standard_normal((batch, n, WIDTH)).astype(np.float32)}
    if kind == "cross":
        made["z"] = rng.standard_normal((1, keys, WIDTH)).astype(np.float32)
    if kind in ("mask", "batch"):
        made["mask"] = (rng.random((batch, n)) < 0.7).astype(np.float32)
        made["mask"][:, 0] = 1
    return made


def compare(folder: Path, kind: str, example: Feeds, shapes: list[tuple[int, int, int]]) -> AnySize:
    path = model(folder, kind)
    made = import_any(path, folder / "w.bin", example)
    assert made is not None and made.notes == ()
    called = [s.workload for s in made.plan.steps if "attention" in s.workload]
    assert called == ["attention:0"] * 2
    session = exact_session(path)
    for tier in TIERS:
        runner = OpenRunner(made.plan, made.kernels, folder / "w.bin", tier)
        for n, batch, keys in shapes:
            given = feeds(kind, n, batch, keys)
            sizes: dict[str, Any] = {"n": n, "b": batch, "k": keys}
            got = runner.run(sizes, given)["y"]
            (expected,) = session.run(None, dict(given))
            np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5, err_msg=f"{n} {batch}")
    return made


@pytest.mark.parametrize("kind", ["plain", "mask", "causal"])
def test_one_length(tmp_path: Path, kind: str) -> None:
    made = compare(tmp_path, kind, feeds(kind, 20), [(n, 1, 0) for n in LENGTHS])
    # Scores have the memory of some rows: a little more than the tensors of a length.
    plan = made.plan.at({"n": 300})
    assert plan.arena_bytes < 20 * 300 * WIDTH * 4


def test_heads_of_4_bit_products_at_any_length(tmp_path: Path) -> None:
    """In Wasm, and with a WGSL text for all sizes of each kernel."""
    path = model(tmp_path, "mask")
    quantizer = MatMulNBitsQuantizer(onnx.load(path), block_size=16, is_symmetric=False)
    quantizer.process()
    onnx.save(quantizer.model.model, path)
    made = import_any(path, tmp_path / "w.bin", feeds("mask", 20), webgpu=True)
    assert made is not None and made.notes == ()
    called = [s.workload for s in made.plan.steps]
    assert [w for w in called if "matmul" in w] == ["1:matmul_4bit", "5:matmul_4bit"] * 2
    assert {k.workload for k in made.kernels if k.tier in GPU_TIERS} == {*made.plan.kernels}
    runner = OpenRunner(made.plan, made.kernels, tmp_path / "w.bin", TIERS[1])
    for n in (1, 5, 16, 33):
        given = feeds("mask", n, 1, 0)
        got = runner.run({"n": n}, given)["y"]
        (expected,) = exact_session(path).run(None, dict(given))
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5, err_msg=str(n))


def test_a_batch_of_masked_sequences(tmp_path: Path) -> None:
    shapes = [(1, 1, 0), (5, 3, 0), (16, 2, 0), (33, 3, 0), (7, 1, 0), (64, 3, 0)]
    compare(tmp_path, "batch", feeds("batch", 20, 2), shapes)


def test_two_lengths(tmp_path: Path) -> None:
    shapes = [(1, 1, 1), (1, 1, 40), (40, 1, 1), (7, 1, 3), (5, 1, 33), (31, 1, 64), (64, 1, 17)]
    compare(tmp_path, "cross", feeds("cross", 20, 1, 30), shapes)


def test_scores_that_a_loop_hands_on_stay_in_memory(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    shapes = {"c": [1, "n", 16], "s": [1, "n", "n"]}
    ports = [value(n, TensorProto.FLOAT, shape) for n, shape in shapes.items()]
    count, going = value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, [])
    steps = [
        node("Identity", ["go"], ["on"]),
        node("Transpose", ["c"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["c", "t"], ["raw"]),
        node("Mul", ["raw", "scale"], ["s2"]),
        node("Softmax", ["s2"], ["p"], axis=-1),
        node("MatMul", ["p", "c"], ["c2"]),
    ]
    results = [value(n, TensorProto.FLOAT, shapes[n[0]]) for n in ("c2", "s2")]
    on = value("on", TensorProto.BOOL, [])
    body = helper.make_graph(steps, "body", [count, going, *ports], [on, *results])
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "axis"], ["trips"]),
        node("Transpose", ["x"], ["xt"], perm=[0, 2, 1]),
        node("MatMul", ["x", "xt"], ["first"]),
        node("Loop", ["trips", "", "x", "first"], ["y", "scores"], body=body),
    ]
    outputs = [value(n, TensorProto.FLOAT, shapes[k]) for n, k in (("y", "c"), ("scores", "s"))]
    weights = {"axis": np.array(1), "scale": np.float32(0.1)}
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    given = [value("x", TensorProto.FLOAT, shapes["c"])]
    graph = helper.make_graph(nodes, "g", given, outputs, tensors)
    path, opsets = tmp_path / "m.onnx", [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)

    def x(n: int) -> Feeds:
        return {"x": np.random.default_rng(n).standard_normal((1, n, 16)).astype(np.float32)}

    made = import_any(path, tmp_path / "w.bin", x(20))
    assert made is not None
    assert not any("attention" in s.workload for s in made.plan.steps)
    session = exact_session(path)
    runner = OpenRunner(made.plan, made.kernels, tmp_path / "w.bin", TIERS[0])
    for n in (2, 5, 12):
        got = runner.run({"n": n}, x(n))
        for name, wanted in zip(("y", "scores"), session.run(None, x(n)), strict=True):
            np.testing.assert_allclose(got[name], wanted, rtol=2e-4, atol=2e-5)
