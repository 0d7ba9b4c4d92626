"""Kernels that take sizes as parameters: right by ONNX Runtime at sizes never compiled for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from exact_native import exact_session
from onnx import TensorProto, helper, numpy_helper

from nnjit_studio.compiler.any_size.imports import import_any
from nnjit_studio.compiler.any_size.kernels import compiled as kernels
from nnjit_studio.compiler.any_size.kernels import drawn
from nnjit_studio.compiler.any_size.numbers import check_numbers, difference
from nnjit_studio.compiler.any_size.runs import trial as trials
from nnjit_studio.compiler.any_size.runs.runner import OpenRunner
from nnjit_studio.compiler.any_size.runs.trial import Trial
from nnjit_studio.errors import ModelError, UserError
from nnjit_studio.model.open_plan import OpenPlan
from nnjit_studio.records import TIERS

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node, port = helper.make_node, helper.make_tensor_value_info
RNG = np.random.default_rng(5)


def rand(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def written(
    folder: Path,
    nodes: list[Any],
    x: list[Any],
    weights: dict[str, Any],
    domains: Mapping[str, int] = MappingProxyType({}),
) -> Path:
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    y = port("y", FLOAT, [None] * len(x))
    graph = helper.make_graph(nodes, "g", [port("x", FLOAT, x)], [y], tensors)
    opsets = [helper.make_opsetid(d, v) for d, v in {"": 17, **domains}.items()]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    path = folder / "m.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def layers(folder: Path) -> Path:
    """A perceptron: any batch."""
    nodes = [
        node("Gemm", ["x", "w1", "b1"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("Gemm", ["b", "w2", "b2"], ["c"]),
        node("Softmax", ["c"], ["y"], axis=1),
    ]
    weights = {"w1": rand(20, 30), "b1": rand(30), "w2": rand(30, 7), "b2": rand(7)}
    return written(folder, nodes, ["batch", 20], weights)


def attention(folder: Path) -> Path:
    """Two heads over positions from a table of 40 rows, normed over features and over tokens."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "one"], ["length"]),
        node("Slice", ["table", "zero", "length", "one"], ["positions"]),
        node("Add", ["x", "positions"], ["e"]),
    ]
    for name, perm in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            node("MatMul", ["e", f"w{name}"], [f"{name}1"]),
            node("Reshape", [f"{name}1", "split"], [f"{name}2"]),
            node("Transpose", [f"{name}2"], [name], perm=perm),
        ]
    nodes += [
        node("MatMul", ["q", "k"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["m"]),
        node("Transpose", ["m"], ["t"], perm=[0, 2, 1, 3]),
        node("Reshape", ["t", "join"], ["j"]),
        node("MatMul", ["j", "wo"], ["o"]),
        node("Add", ["o", "e"], ["r"]),
        node("LayerNormalization", ["r", "scale"], ["n"]),
        node("ReduceMean", ["n"], ["mean"], axes=[1], keepdims=1),
        node("Sub", ["n", "mean"], ["y"]),
    ]
    weights = {f"w{name}": rand(16, 16) / 4 for name in "qkvo"}
    weights |= {"table": rand(1, 40, 16), "scale": rand(16), "zero": np.array([0])}
    weights |= {"one": np.array([1]), "split": np.array([0, -1, 2, 8])}
    weights |= {"join": np.array([0, -1, 16])}
    return written(folder, nodes, ["batch", "sequence", 16], weights)


def checked(
    path: Path, folder: Path, shapes: list[tuple[int, ...]], example: tuple[int, ...]
) -> Any:
    """The plan, after runs at these shapes of x in both tiers."""
    made = import_any(path, folder / "w.bin", {"x": rand(*example)})
    assert made is not None and made.notes == ()
    session = exact_session(path)
    for tier in TIERS:
        runner = OpenRunner(made.plan, made.kernels, folder / "w.bin", tier)
        for shape in shapes:
            x = rand(*shape)
            sizes = {
                str(p[0].name): n
                for size, n in zip(made.plan.inputs[0].shape, shape, strict=True)
                for p, _ in size.terms
                if p
            }
            (expected,) = session.run(None, {"x": x})
            got = runner.run(sizes, {"x": x})["y"]
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5, err_msg=str(shape))
    return made.plan


def test_a_perceptron_takes_any_batch(tmp_path: Path) -> None:
    shapes = [(n, 20) for n in (1, 2, 3, 4, 5, 6, 7, 12, 13, 17, 64, 131, 1000)]
    plan = checked(layers(tmp_path), tmp_path, shapes, (3, 20))
    assert max(len(k.variants) for k in plan.kernels.values()) == 6


def quantised(folder: Path) -> Path:
    """A product of bytes, rounded at run time, then one with weights of 4 bits."""
    codes = RNG.integers(0, 256, (24, 2, 8)).astype(np.uint8)
    four = {"K": 32, "N": 24, "bits": 4, "block_size": 16, "domain": "com.microsoft"}
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("MatMulInteger", ["q", "w", "z"], ["i"]),
        node("Cast", ["i"], ["f"], to=FLOAT),
        node("Mul", ["s", "step"], ["t"]),
        node("Mul", ["f", "t"], ["g"]),
        node("Relu", ["g"], ["h"]),
        node("MatMulNBits", ["h", "codes", "scales"], ["y"], **four),
    ]
    weights = {
        "w": RNG.integers(-128, 128, (20, 32)).astype(np.int8),
        "step": np.float32(0.02),
        "codes": codes,
        "scales": RNG.uniform(0.01, 0.1, 48).astype(np.float32),
    }
    return written(folder, nodes, ["batch", 20], weights, {"com.microsoft": 1})


def test_quantised_weights_take_any_batch(tmp_path: Path) -> None:
    shapes = [(n, 20) for n in (1, 2, 5, 6, 7, 11, 12, 13, 64, 131)]
    path = quantised(tmp_path)
    plan = checked(path, tmp_path, shapes, (3, 20))
    assert max(len(k.variants) for k in plan.kernels.values()) <= 7
    assert Trial(path, {"x": rand(3, 20)}).rounds


def strided(folder: Path, stride: int) -> Path:
    """A convolution of bytes over a map that is this much wider than its result."""
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("ConvInteger", ["q", "w", "z"], ["i"], strides=[stride, stride]),
        node("Cast", ["i"], ["f"], to=FLOAT),
        node("Mul", ["f", "s"], ["y"]),
    ]
    weights = {"w": RNG.integers(-128, 128, (16, 1, 1, 1)).astype(np.int8)}
    return written(folder, nodes, [1, 1, 64, "width"], weights)


def test_a_tile_of_a_strided_map_is_cut_of_its_own_columns(tmp_path: Path) -> None:
    """57 // 5 is one less than 64 // 5, and both widths leave eight columns."""
    shapes = [(1, 1, 64, width) for width in range(49, 73)]
    checked(strided(tmp_path, 8), tmp_path, shapes, (1, 1, 64, 100))


def test_an_exact_model_is_not_taken_for_one_that_rounds(tmp_path: Path) -> None:
    assert not Trial(layers(tmp_path), {"x": rand(3, 20)}).rounds


def test_attention_takes_any_batch_and_length(tmp_path: Path) -> None:
    lengths = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16, 17, 23, 31, 32, 33, 39, 40]
    shapes = [(1 + i % 3, n, 16) for i, n in enumerate(lengths)]
    plan = checked(attention(tmp_path), tmp_path, shapes, (2, 9, 16))
    assert {d.name: d.high for d in plan.dims}["sequence"] == 40


def test_a_formula_that_holds_for_its_samples_alone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sample tells no formula."""
    monkeypatch.setattr(kernels, "_SAMPLES", 1)
    monkeypatch.setattr(kernels, "_HELD_OUT", 1)
    monkeypatch.setattr(drawn, "_TELLING", 1)
    path = attention(tmp_path)
    with pytest.raises(ModelError, match=r"a formula of .* is wrong at"):
        import_any(path, tmp_path / "w.bin", {"x": rand(2, 9, 16)})


@pytest.fixture(scope="module")
def attention_plan(tmp_path_factory: pytest.TempPathFactory) -> OpenPlan:
    """Of tests that do not run it."""
    folder = tmp_path_factory.mktemp("attention")
    made = import_any(attention(folder), folder / "w.bin", {"x": rand(2, 9, 16)})
    assert made is not None
    return made.plan


@pytest.fixture(scope="module")
def perceptron_json(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("perceptron")
    made = import_any(layers(folder), folder / "w.bin", {"x": rand(3, 20)})
    assert made is not None
    return json.dumps(made.plan.to_json())


def test_sizes_out_of_range_are_refused(attention_plan: OpenPlan) -> None:
    for sequence in (0, -1, 41, 2**31):
        with pytest.raises(UserError, match="sequence"):
            attention_plan.at({"batch": 1, "sequence": sequence})


def test_the_plan_comes_back_from_json(attention_plan: OpenPlan) -> None:
    again = OpenPlan.from_json(json.loads(json.dumps(attention_plan.to_json())))
    for sizes in ({"batch": 1, "sequence": 1}, {"batch": 3, "sequence": 40}):
        assert again.at(sizes) == attention_plan.at(sizes)


@pytest.mark.parametrize(
    "break_it",
    [
        lambda d: d["dims"].clear(),
        lambda d: d["inputs"][0]["shape"].append([[1, ["floordiv", 4, 0]]]),
        lambda d: d["inputs"][0]["shape"].append([[1, "other"]]),
        lambda d: d["inputs"][0].update(shape="x"),
        lambda d: d.update(extra=1),
        lambda d: d["buffers"][0].pop("nbytes"),
    ],
)
def test_a_damaged_plan_is_refused(perceptron_json: str, break_it: Callable[[Any], None]) -> None:
    data = json.loads(perceptron_json)
    OpenPlan.from_json(data)
    break_it(data)
    with pytest.raises((ValueError, TypeError)):
        OpenPlan.from_json(data)


def test_a_model_of_fixed_sizes_is_none(tmp_path: Path) -> None:
    path = written(tmp_path, [node("Relu", ["x"], ["y"])], [2, 3], {})
    assert import_any(path, tmp_path / "w.bin") is None


def test_what_is_made_for_one_size_is_refused(tmp_path: Path) -> None:
    """Squares, counted without a Range: they follow from the size in a way that is not known."""
    one = numpy_helper.from_array(np.array([1]))
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Squeeze", ["shape"], ["n"]),
        node("ConstantOfShape", ["shape"], ["ones"], value=one),
        node("CumSum", ["ones", "zero"], ["grid"]),
        node("Sub", ["n", "grid"], ["back"]),
        node("Mul", ["back", "back"], ["square"]),
        node("Cast", ["square"], ["f"], to=FLOAT),
        node("Mul", ["x", "f"], ["y"]),
    ]
    weights = {"zero": np.array(0)}
    path = written(tmp_path, nodes, ["n"], weights)
    with pytest.raises(ModelError, match="any size"):
        import_any(path, tmp_path / "w.bin", {"x": rand(9)})


def test_numbers_that_differ_from_onnx_runtime_are_refused(tmp_path: Path) -> None:
    path, weights, feeds = layers(tmp_path), tmp_path / "w.bin", {"x": rand(3, 20)}
    made = import_any(path, weights, feeds)
    assert made is not None
    at = [{"batch": 1}, {"batch": 10}]
    trial = Trial(path, feeds)
    told: list[str] = []
    assert check_numbers(made.plan, made.kernels, weights, trial, at, False, told.append) < 1e-5
    assert told == [f"checking the numbers at batch={n}" for n in (1, 10)]
    damaged = np.fromfile(weights, np.float32)
    damaged[::-1].tofile(weights)
    with pytest.raises(ModelError, match=r"y differs from ONNX Runtime's by .* at batch=1"):
        check_numbers(made.plan, made.kernels, weights, trial, at, False)


def test_from_one_row_at_hand_no_two_rows_are_alike(tmp_path: Path) -> None:
    """Else a kernel that takes one row for another passes, and what is left of differences of
    rows is rounding, by which right bundles are refused."""
    trial = Trial(layers(tmp_path), {"x": rand(1, 20)})
    feeds, found = trial.values({"batch": 7})
    assert len(np.unique(feeds["x"], axis=0)) == len(np.unique(found["y"], axis=0)) == 7
    assert set(feeds["x"].ravel()) == set(feeds["x"][0])


def test_each_run_in_onnx_runtime_is_a_sign_of_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a large model whose numbers are being checked seems to stand still, and is ended."""
    signs: list[None] = []
    monkeypatch.setattr(trials, "progress", lambda: signs.append(None))
    trial = Trial(layers(tmp_path), {"x": rand(3, 20)})
    for batch in (1, 2, 3):
        trial.values({"batch": batch})
    assert len(signs) == 3


def test_the_difference_of_outputs() -> None:
    a = np.array([1.0, -4.0, np.nan], np.float32)
    assert difference(a, a) == 0
    assert difference(a + np.float32(0.4), a) == pytest.approx(0.1)
    assert difference(np.array([1.0, -4.0, 0.0], np.float32), a) == np.inf
    ids = np.arange(200)
    assert difference(np.where(ids == 7, 8, ids), ids) == 0
    assert difference(ids[::-1], ids) == np.inf
    assert difference(np.zeros(0), np.zeros(0)) == 0
