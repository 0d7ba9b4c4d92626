"""Products in 8 bits with a scale for each row, as many as keep an error."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
from exact_native import exact_session
from onnx import helper, numpy_helper
from onnx_models import save

from nnjit_studio.compiler.derived import derive as module
from nnjit_studio.compiler.derived.by_row import _most, by_row
from nnjit_studio.compiler.derived.derive import derive
from nnjit_studio.compiler.derived.layers import relative_error
from nnjit_studio.errors import UserError
from nnjit_studio.model.recipe import Recipe

RNG = np.random.default_rng(7)
ROWS, WIDE, HIDDEN = 6, 96, 64


def _array(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


W = {"q": _array(WIDE, HIDDEN), "k": _array(HIDDEN, WIDE), "bias": _array(HIDDEN)}
X = (_array(ROWS, WIDE) * np.logspace(-4, 1, ROWS, dtype=np.float32)[:, None]).astype(np.float32)
"""Rows of very different sizes."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two products that read one tensor, and one behind them with a bad column of activations."""
    spike = np.ones(HIDDEN, np.float32)
    spike[3] = 300
    nodes = [
        helper.make_node("MatMul", ["x", "q"], ["a"]),
        helper.make_node("Gemm", ["x", "k", "bias"], ["b"], transB=1),
        helper.make_node("Mul", ["b", "spike"], ["c"]),
        helper.make_node("MatMul", ["c", "v"], ["z"]),
    ]
    weights = {**W, "spike": spike, "v": _array(HIDDEN, HIDDEN)}
    path, shapes = tmp_path / "m.onnx", {"a": [ROWS, HIDDEN], "z": [ROWS, HIDDEN]}
    return save(path, nodes, {"x": [ROWS, WIDE]}, shapes, weights)


def _run(path: Path) -> list[np.ndarray]:
    return exact_session(path).run(None, {"x": X})


def _error(got: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(got - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("opset", [13, 18])
def test_each_row_is_as_exact_as_the_largest(model: Path, tmp_path: Path, opset: int) -> None:
    """With one scale for the tensor, rows below a 254th of the largest value are all error."""
    older = onnx.load(str(model))
    older.opset_import[0].version = opset
    onnx.save(older, str(model))
    out = tmp_path / "rows.onnx"
    made = derive(model, out, Recipe("int8-rows", max_error=0.05), {"x": X})
    assert made.nodes == 3 and "3 of 3 products" in made.note
    assert sum(n.op_type == "MatMulInteger" for n in onnx.load(str(out)).graph.node) == 3
    a, _ = _run(out)
    exact = X.astype(np.float64) @ W["q"]
    for got, expected in zip(a, exact, strict=True):
        assert 0 < _error(got, expected) < 0.05


def test_what_breaks_the_limit_stays_in_floats(model: Path, tmp_path: Path) -> None:
    plain = _run(model)
    made = derive(model, tmp_path / "all.onnx", Recipe("int8-rows", max_error=1), {"x": X})
    all_bytes = max(map(_error, _run(tmp_path / "all.onnx"), plain))
    limit = 0.9 * all_bytes
    some = derive(model, tmp_path / "some.onnx", Recipe("int8-rows", max_error=limit), {"x": X})
    assert 0 < some.nodes < made.nodes and some.nbytes > made.nbytes
    assert 0 < max(map(_error, _run(tmp_path / "some.onnx"), plain)) <= limit


def test_what_keeps_no_error_says_so(model: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No product keeps an error of 1e-09"):
        derive(model, tmp_path / "no.onnx", Recipe("int8-rows", max_error=1e-9), {"x": X})


def test_a_product_of_no_rows_stays_as_it_is(model: Path, tmp_path: Path) -> None:
    """As the products behind a search that found nothing on these inputs."""
    plain, out = onnx.load(str(model)), tmp_path / "rows.onnx"
    for i in (0, 1):
        bound = numpy_helper.from_array(np.array([ROWS + i]), f"row{i}")
        plain.graph.initializer.append(bound)
    few = [
        helper.make_node("Slice", ["x", "row0", "row1"], ["none"]),
        helper.make_node("MatMul", ["none", "q"], ["of none"]),
        helper.make_node("Concat", ["first", "of none"], ["a"], axis=0),
    ]
    plain.graph.node[0].output[0] = "first"
    plain.graph.node.extend(few)
    onnx.save(plain, str(model))
    made = derive(model, out, Recipe("int8-rows", max_error=0.05), {"x": X})
    assert made.nodes == 3 and "3 of 4 products" in made.note
    assert max(map(_error, _run(out), _run(model))) < 0.05


def test_weights_that_are_inputs_too_stay_weights(model: Path, tmp_path: Path) -> None:
    """As files before the fourth version of the format have them."""
    older, out = onnx.load(str(model)), tmp_path / "rows.onnx"
    for weight in older.graph.initializer:
        port = helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims)
        older.graph.input.append(port)
    older.ir_version = 3
    onnx.save(older, str(model))
    assert derive(model, out, Recipe("int8-rows", max_error=0.05), {"x": X}).nodes == 3
    made = onnx.load(str(out))
    onnx.checker.check_model(made)
    assert [port.name for port in made.graph.input] == ["x"]


def test_few_copies_of_the_weights_are_held(tmp_path: Path) -> None:
    """A process may take four times the file: the message, one set of weights, what is written."""
    layers, width = 12, 128
    weights = {f"w{i}": 0.1 * _array(width, width) for i in range(layers)}
    names = ["x", *(f"h{i}" for i in range(layers))]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(layers)]
    shape = {names[-1]: [ROWS, width]}
    path = save(tmp_path / "deep.onnx", nodes, {"x": [ROWS, width]}, shape, weights)
    model, x = onnx.load(str(path)), _array(ROWS, width)
    told: list[str] = []
    tracemalloc.start()
    kept = by_row(model, {"x": x}, 1.0, told.append)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept.products == layers
    assert most < 1.7 * sum(w.nbytes for w in weights.values())
    assert told[0] == "trying products in 8 bits, 1 of 12"
    assert told[-1] == "trying 12 of 12 that keep the limit together"


def test_what_goes_wrong_is_not_laid_on_the_tools(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def derived_while(error: Exception) -> None:
        monkeypatch.setattr(module, "by_row", Mock(side_effect=error))
        derive(model, tmp_path / "no.onnx", Recipe("int8-rows", max_error=1), {"x": X})

    with pytest.raises(MemoryError):
        derived_while(RuntimeError("Exception during initialization: std::bad_alloc"))
    with pytest.raises(UserError, match=r"^The weights could not be made smaller: Bad node"):
        derived_while(RuntimeError("Bad node"))


def test_an_error_is_no_number_where_there_is_none() -> None:
    """Of two shapes, or of a result that is no number."""
    one = np.array([1, -4], np.float32)
    assert relative_error(one + 1, one) == 0.25 and relative_error(one[:0], one[:0]) == 0
    assert np.isnan(relative_error(np.array([np.nan, -4], np.float32), one))
    assert np.isnan(relative_error(one[:1], one))


def test_errors_are_spent_where_they_save_most() -> None:
    alone = {0: 3.0, 1: 4.0, 2: 1.0, 3: 9.0}
    saved = [10.0, 1.0, 1.0, 100.0]

    def error(taken: tuple[int, ...]) -> float:
        return float(np.sqrt(sum(alone[i] ** 2 for i in taken)))

    assert list(_most(saved, error, 3.5)) == [0, 2], "3 is too much alone, 1 with both"
    assert list(_most(saved, error, 20.0)) == [3, 0, 2, 1]
    assert list(_most(saved, lambda taken: float("nan"), 20.0)) == []
