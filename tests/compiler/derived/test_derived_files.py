"""Files derived from a model: they run, are what was asked for, and name the guilty layer."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import onnx
import pytest
from exact_native import exact_session
from onnx import helper, numpy_helper
from onnx_models import mlp, save

from nnjit_studio.compiler.derived.derive import derive
from nnjit_studio.compiler.derived.layers import worst_layer
from nnjit_studio.errors import UserError
from nnjit_studio.model.recipe import Recipe

FEEDS = {"x": np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return mlp(tmp_path / "m.onnx", sizes=(64, 96, 32))


def run(path: Path, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = exact_session(path)
    names = [port.name for port in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


@pytest.mark.parametrize(
    "kind, most, share",
    [("int8-dynamic", 0.05, 0.5), ("int8-static", 0.05, 0.6), ("4-bit", 0.5, 0.5)],
)
def test_quantised_files_are_smaller_and_near(
    model: Path, tmp_path: Path, kind: str, most: float, share: float
) -> None:
    out = tmp_path / "q.onnx"
    level = logging.root.level
    made = derive(model, out, Recipe(kind), FEEDS)
    assert logging.root.level == level, "others' warnings are still logged"
    (expected,), (got,) = run(model, FEEDS).values(), run(out, FEEDS).values()
    assert made.nodes > 0 and made.nbytes < share * model.stat().st_size
    error = np.abs(got - expected).max() / np.abs(expected).max()
    assert 0 < error < most
    with pytest.raises(UserError, match="quantised already"):
        derive(out, tmp_path / "again.onnx", Recipe(kind), FEEDS)


@pytest.mark.parametrize("kind", ["int8-dynamic", "int8-static", "4-bit", "halved"])
def test_weights_in_constant_nodes_are_quantised_too(
    model: Path, tmp_path: Path, kind: str
) -> None:
    plain = onnx.load(str(model))
    weights = list(plain.graph.initializer)
    nodes = [helper.make_node("Constant", [], [w.name], w.name, value=w) for w in weights]
    nodes += plain.graph.node
    del plain.graph.initializer[:], plain.graph.node[:]
    plain.graph.node.extend(nodes)
    onnx.save(plain, str(tmp_path / "paddle.onnx"))
    out, expected = tmp_path / "q.onnx", tmp_path / "expected.onnx"
    made = derive(tmp_path / "paddle.onnx", out, Recipe(kind), FEEDS)
    assert made.nodes == derive(model, expected, Recipe(kind), FEEDS).nodes > 0
    for got, wanted in zip(run(out, FEEDS).values(), run(expected, FEEDS).values(), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert worst_layer(tmp_path / "paddle.onnx", out, FEEDS) == worst_layer(model, expected, FEEDS)


def test_a_file_of_an_older_version_is_quantised_validly(model: Path, tmp_path: Path) -> None:
    older = onnx.load(str(model))
    older.opset_import[0].version = 11
    onnx.save(older, str(tmp_path / "older.onnx"))
    out = tmp_path / "q.onnx"
    assert derive(tmp_path / "older.onnx", out, Recipe("int8-static"), FEEDS).nodes > 0
    (expected,), (got,) = run(model, FEEDS).values(), run(out, FEEDS).values()
    assert np.abs(got - expected).max() < 0.05 * np.abs(expected).max()


def test_the_layer_with_the_damage_is_named_and_not_those_behind_it(
    model: Path, tmp_path: Path
) -> None:
    other = onnx.load(str(model))
    first = next(node for node in other.graph.node if node.op_type == "MatMul")
    weight = next(w for w in other.graph.initializer if w.name == first.input[1])
    array = numpy_helper.to_array(weight) * np.float32(1.5)
    weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    out = tmp_path / "damaged.onnx"
    onnx.save(other, str(out))
    found = worst_layer(model, out, FEEDS)
    assert found.name == (first.name or first.output[0]) and found.compared == 2
    assert found.max_rel == pytest.approx(0.5, rel=1e-3)


def two_outputs(path: Path) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["y"]),
        helper.make_node("MatMul", ["a", "v"], ["z"]),
        helper.make_node("Mul", ["y", "rate"], ["out"]),
    ]
    rng = np.random.default_rng(1)
    weights = {n: rng.standard_normal((64, 64)).astype(np.float32) for n in ("w", "v")}
    inputs: dict[str, list[int | str]] = {"x": [5, 64], "rate": [1]}
    return save(path, nodes, inputs, {"out": [5, 64], "z": [5, 64]}, weights)


def test_a_cut_file_has_one_output_and_no_weight_of_the_others(tmp_path: Path) -> None:
    model = two_outputs(tmp_path / "two.onnx")
    out = tmp_path / "cut.onnx"
    made = derive(model, out, Recipe("outputs", outputs=("out",)), {})
    feeds = {**FEEDS, "rate": np.array([2], np.float32)}
    assert made.nodes == 1
    assert [w.name for w in onnx.load(str(out)).graph.initializer] == ["w"]
    np.testing.assert_array_equal(run(out, feeds)["out"], run(model, feeds)["out"])
    with pytest.raises(UserError, match="not all of these outputs"):
        derive(model, out, Recipe("outputs", outputs=("none",)), {})


def test_a_constant_is_no_input_any_more(tmp_path: Path) -> None:
    model = two_outputs(tmp_path / "two.onnx")
    out = tmp_path / "constant.onnx"
    rate = np.array([2], np.float32)
    derive(model, out, Recipe("constants", constants={"rate": rate}), {})
    expected = run(model, {**FEEDS, "rate": rate})
    for name, got in run(out, FEEDS).items():
        np.testing.assert_array_equal(got, expected[name])


def test_a_model_without_products_has_nothing_in_four_bits(tmp_path: Path) -> None:
    relu = save(
        tmp_path / "r.onnx",
        [helper.make_node("Relu", ["x"], ["y"])],
        {"x": [5, 64]},
        {"y": [5, 64]},
    )
    assert derive(relu, tmp_path / "q.onnx", Recipe("4-bit"), FEEDS).nodes == 0
