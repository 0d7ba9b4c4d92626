"""One import for several sizes: equal to imports at each, and right by ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx_models import save
from run_plan import run_by_kernels

from nnjit_studio.compiler.any_size import imports, unified
from nnjit_studio.compiler.any_size.imports import import_sizes
from nnjit_studio.compiler.importer.model import import_with
from nnjit_studio.compiler.importer.passes import Import
from nnjit_studio.errors import UserError
from nnjit_studio.model import GivenShapes

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node, port = helper.make_node, helper.make_tensor_value_info
RNG = np.random.default_rng(3)


def rand(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def written(folder: Path, nodes: list[Any], inputs: list[Any], rank: int, **weights: Any) -> Path:
    return save(folder / "m.onnx", nodes, inputs, {"y": [None] * rank}, weights)


def pyramid(folder: Path) -> Path:
    """Two convolutions that halve, flattened through its own shape, projected, and a mean."""
    nodes = [
        node("Conv", ["x", "k1"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "k2"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Shape", ["c"], ["shape"]),
        node("Gather", ["shape", "zero"], ["n"]),
        node("Concat", ["n", "rest"], ["to"], axis=0),
        node("Reshape", ["c", "to"], ["d"]),
        node("Transpose", ["d"], ["e"], perm=[0, 2, 1]),
        node("MatMul", ["e", "w"], ["f"]),
        node("ReduceMean", ["f"], ["m"], axes=[1], keepdims=1),
        node("Sub", ["f", "m"], ["y"]),
    ]
    inputs = [port("x", FLOAT, ["n", 3, "?", "?"])]
    kernels = {"k1": rand(6, 3, 3, 3), "k2": rand(8, 6, 3, 3), "w": rand(8, 5)}
    sizes = {"zero": np.array([0]), "rest": np.array([8, -1])}
    return written(folder, nodes, inputs, 3, **kernels, **sizes)


def checked(path: Path, folder: Path, inputs: list[dict[str, np.ndarray]]) -> tuple[str, ...]:
    """The notes of an import for these inputs, whose outputs are those of ONNX Runtime."""
    weights = folder / "w.bin"
    many = import_sizes(path, weights, inputs)
    session = onnxruntime.InferenceSession(path)
    assert {m.plan.weights_bytes for m in many.models} == {weights.stat().st_size}
    for built, feeds in zip(many.models, inputs, strict=True):
        (expected,) = session.run(None, feeds)
        got = run_by_kernels(built, weights, feeds, "simd128")["y"]
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    return many.notes


def test_sizes_with_every_residue_come_from_one_import(tmp_path: Path) -> None:
    path = pyramid(tmp_path)
    sizes = [(1, 16, 24), (2, 17, 33), (3, 30, 19)]
    inputs = [{"x": rand(n, 3, h, w)} for n, h, w in sizes]
    assert checked(path, tmp_path, inputs) == ()


def test_the_names_of_stages_are_no_other_form(tmp_path: Path) -> None:
    """A stage is named after the first step that its program was made of, which is another step
    where two of them have the same program at one size."""
    inputs = [{"x": rand(n, 3, h, w)} for n, h, w in ((1, 16, 24), (2, 17, 33))]
    first, last = import_sizes(pyramid(tmp_path), tmp_path / "w.bin", inputs).models
    renamed = {
        key: replace(p, stages=tuple(replace(s, name=f"other_{s.name}") for s in p.stages))
        for key, p in last.programs.items()
    }
    parts = [unified._parts(m) for m in (first, replace(last, programs=renamed))]
    rows = list(unified._rows(parts, 2))
    assert any(len(set(row)) > 1 for row in rows)


def test_programs_are_those_of_an_import_at_that_size(tmp_path: Path) -> None:
    path = pyramid(tmp_path)
    (made,) = import_sizes(path, tmp_path / "w.bin", [{"x": rand(5, 3, 21, 50)}]).models
    given, imports = (
        GivenShapes(shapes={"x": (5, 3, 21, 50)}),
        Import(winograd=False, any_size=True),
    )
    alone = import_with(path, tmp_path / "v.bin", lambda phase: None, given, False, imports)
    assert made.programs == alone.programs
    assert [w.key for w in made.workloads] == [w.key for w in alone.workloads]
    assert made.plan.arena_bytes == alone.plan.arena_bytes
    assert made.plan.output_specs == alone.plan.output_specs


def voice(folder: Path) -> Path:
    """Frames of a signal, halved twice; it runs at lengths that leave one column."""
    nodes = [
        node("Unsqueeze", ["x", "one"], ["a"]),
        node("Conv", ["a", "frames"], ["b"], strides=[48]),
        node("Relu", ["b"], ["c"]),
        node("Conv", ["c", "k1"], ["d"], strides=[2], pads=[1, 1]),
        node("Conv", ["d", "k2"], ["e"], strides=[2], pads=[1, 1]),
        node("Squeeze", ["e", "two"], ["f"]),
        node("MatMul", ["f", "w"], ["y"]),
    ]
    weights = {
        "one": np.array([1]), "two": np.array([2]), "frames": rand(7, 1, 96),
        "k1": rand(6, 7, 3), "k2": rand(5, 6, 3), "w": rand(5, 4),
    }  # fmt: skip
    return written(folder, nodes, [port("x", FLOAT, ["n", "length"])], 2, **weights)


def test_a_range_is_one_program_from_end_to_end_or_narrower(tmp_path: Path) -> None:
    """Below 144 there is one frame, whose convolutions are other code than those of several."""
    inputs = [{"x": rand(n, length)} for n, length in ((2, 250), (1, 287), (3, 200), (2, 260))]
    checked(voice(tmp_path), tmp_path, inputs)


def test_names_that_have_to_agree_become_one_dimension(tmp_path: Path) -> None:
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Add", ["a", "b"], ["y"])]
    inputs = [port("x", FLOAT, [None, 4]), port("b", FLOAT, [None, 6])]
    path = written(tmp_path, nodes, inputs, 2, w=rand(4, 6))
    given = [{"x": rand(n, 4), "b": rand(n, 6)} for n in (7, 3, 12)]
    assert checked(path, tmp_path, given) == ()


def test_a_name_that_the_file_gives_to_two_sizes_says_nothing(tmp_path: Path) -> None:
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["d", "v"], ["b"])]
    nodes.append(node("Add", ["a", "b"], ["y"]))
    inputs = [port("x", FLOAT, ["n", "width"]), port("d", FLOAT, ["n", "width"])]
    path = written(tmp_path, nodes, inputs, 2, w=rand(6, 4), v=rand(2, 4))
    checked(path, tmp_path, [{"x": rand(n, 6), "d": rand(n, 2)} for n in (5, 3, 12)])
    with pytest.raises(UserError, match=r"\[4, 2\], but n is 5"):
        import_sizes(path, tmp_path / "w.bin", [{"x": rand(5, 6), "d": rand(4, 2)}])


def test_a_table_whose_rows_are_named_by_indices_hangs_on_no_other_size(tmp_path: Path) -> None:
    """It can be larger, but no smaller than the indices at hand say."""
    nodes = [node("Gather", ["table", "ids"], ["rows"]), node("Add", ["rows", "edges"], ["y"])]
    inputs = [
        port("table", FLOAT, ["nodes", 4]), port("ids", INT64, ["edges"]),
        port("edges", FLOAT, ["edges", 4]),
    ]  # fmt: skip
    path = written(tmp_path, nodes, inputs, 2)
    given = [
        {"table": rand(n, 4), "ids": np.arange(k) % n, "edges": rand(k, 4)}
        for n, k in ((9, 16), (20, 38), (33, 70))
    ]
    checked(path, tmp_path, given)


def test_batches_of_one_are_one_dimension_where_they_grow_together(tmp_path: Path) -> None:
    """A mask of one row is stretched over any batch, one of two rows is not."""
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Mul", ["a", "m"], ["y"])]
    inputs = [port("x", FLOAT, ["n", 4]), port("m", FLOAT, ["k", 6])]
    path = written(tmp_path, nodes, inputs, 2, w=rand(4, 6))
    given = [{"x": rand(n, 4), "m": rand(n, 6)} for n in (1, 3, 12)]
    assert checked(path, tmp_path, given) == ()


def test_a_few_sizes_that_no_program_takes_are_not_probed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probed: list[int] = []
    real = imports.probe
    monkeypatch.setattr(imports, "probe", lambda *a: probed.append(1) or real(*a))
    nodes = [node("Reshape", ["x", "to"], ["a"]), node("MatMul", ["a", "w"], ["y"])]
    path = written(
        tmp_path, nodes, [port("x", FLOAT, ["n", "s"])], 2, to=np.array([-1, 6]), w=rand(6, 3)
    )
    checked(path, tmp_path, [{"x": rand(n, s)} for n, s in ((5, 12), (2, 6), (2, 18), (3, 24))])
    assert len(probed) == 1


def test_a_dimension_that_was_baked_in_is_said(tmp_path: Path) -> None:
    nodes = [node("Reshape", ["x", "to"], ["a"]), node("MatMul", ["a", "w"], ["y"])]
    path = written(
        tmp_path, nodes, [port("x", FLOAT, ["n", "s"])], 2, to=np.array([-1, 6]), w=rand(6, 3)
    )
    # Rows of 12 run with any number of them, rows of 13 never.
    notes = checked(path, tmp_path, [{"x": rand(n, 12)} for n in (5, 2)])
    assert all("declared open" in note for note in notes)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_recurrent_layer_of_any_length_is_one_program(
    tmp_path: Path, kind: str, direction: str
) -> None:
    ways, rows = 2 if direction == "bidirectional" else 1, {"LSTM": 24, "GRU": 18, "RNN": 6}[kind]
    finals = ["hn", "cn"] if kind == "LSTM" else ["hn"]
    nodes = [
        node(kind, ["x", "w", "r", "b"], ["h", *finals], hidden_size=6, direction=direction),
        node("Add", ["hn", finals[-1]], ["last"]),
        node(*(("Squeeze", ["h", "one"]) if ways == 1 else ("Identity", ["h"])), ["flat"]),
        node("ReduceSum", ["last"], ["all"], keepdims=0),
        node("Add", ["flat", "all"], ["y"]),
    ]
    weights = {"w": rand(ways, rows, 3), "r": rand(ways, rows, 6), "b": rand(ways, 2 * rows)}
    inputs = [port("x", FLOAT, ["t", 2, 3])]
    path = written(tmp_path, nodes, inputs, 3 if ways == 1 else 4, one=np.array([1]), **weights)
    assert checked(path, tmp_path, [{"x": rand(t, 2, 3)} for t in (1, 3, 200)]) == ()


def test_a_linear_reset_of_any_length_and_batch(tmp_path: Path) -> None:
    options = {"hidden_size": 4, "linear_before_reset": 1}
    nodes = [node("GRU", ["x", "w", "r", "b"], ["h"], **options), node("Relu", ["h"], ["y"])]
    inputs = [port("x", FLOAT, ["t", "n", 3])]
    weights = {"w": rand(1, 12, 3), "r": rand(1, 12, 4), "b": rand(1, 24)}
    path = written(tmp_path, nodes, inputs, 4, **weights)
    given = [{"x": rand(t, n, 3)} for t, n in ((3, 1), (5, 2), (1, 4))]
    assert checked(path, tmp_path, given) == ()


def test_a_model_whose_steps_follow_its_sizes_is_imported_for_each_and_said(
    tmp_path: Path,
) -> None:
    """A sequence of as many parts as there are rows, which are laid out."""
    nodes = [
        node("SplitToSequence", ["x"], ["parts"], axis=0),
        node("ConcatFromSequence", ["parts"], ["all"], axis=1),
        node("Relu", ["all"], ["y"]),
    ]
    path = written(tmp_path, nodes, [port("x", FLOAT, ["t", 3])], 2)
    (note,) = checked(path, tmp_path, [{"x": rand(t, 3)} for t in (3, 5)])
    assert "imported for itself" in note


@pytest.mark.parametrize(
    ("feeds", "wrong"),
    [
        ({}, "input 'x' is missing"),
        ({"x": rand(1, 3, 8)}, "has 3 dimensions, the model wants 4"),
        ({"x": rand(1, 2, 8, 8)}, r"has the shape \[1, 2, 8, 8\], but 3 is 3"),
        ({"x": rand(0, 3, 8, 8)}, "is empty"),
    ],
)
def test_wrong_inputs_get_a_sentence(
    tmp_path: Path, feeds: dict[str, np.ndarray], wrong: str
) -> None:
    with pytest.raises(UserError, match=wrong):
        import_sizes(pyramid(tmp_path), tmp_path / "w.bin", [feeds])


def test_a_model_that_onnx_runtime_refuses_at_a_size_gets_its_words(tmp_path: Path) -> None:
    nodes = [node("Reshape", ["x", "to"], ["y"])]
    path = written(tmp_path, nodes, [port("x", FLOAT, ["n", "s"])], 2, to=np.array([-1, 12]))
    with pytest.raises(UserError):
        import_sizes(path, tmp_path / "w.bin", [{"x": rand(1, 12)}, {"x": rand(1, 7)}])


def test_the_file_is_read_as_a_stranger_s(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(UserError):
        import_sizes(path, tmp_path / "w.bin", [{"x": rand(1)}])
    assert onnx.__version__
