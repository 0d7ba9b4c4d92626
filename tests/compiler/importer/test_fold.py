"""Shape arithmetic, control flow and sequences are gone after folding; the values are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.importer.onnx import walk
from nnjit_studio.compiler.importer.onnx.fold import MAX_TRIPS, fold, fold_for
from nnjit_studio.errors import UnsupportedOpError
from nnjit_studio.model import GivenShapes

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, port = helper.make_node, helper.make_tensor_value_info


def model(nodes: list[Any], inputs: list[Any], outputs: dict[str, int], **weights: Any) -> Any:
    """``outputs`` with the number of their dimensions, which stay open."""
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    ports = [
        port(name, FLOAT, [f"{name}{i}" for i in range(rank)]) for name, rank in outputs.items()
    ]
    graph = helper.make_graph(nodes, "g", inputs, ports, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def kinds(folded: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in folded.graph.node]


def same(made: onnx.ModelProto, folder: Path, **feeds: np.ndarray) -> None:
    """The kernels of the import give what ONNX Runtime gives."""
    path, weights = folder / "m.onnx", folder / "w.bin"
    path.write_bytes(made.SerializeToString())
    session = onnxruntime.InferenceSession(path)
    names = [o.name for o in session.get_outputs()]
    shapes = GivenShapes(hints={n: a.shape for n, a in feeds.items()})
    got = run_by_kernels(import_model(path, weights, given=shapes), weights, feeds, "simd128")
    for name, expected in zip(names, session.run(names, feeds), strict=True):
        np.testing.assert_allclose(got[name], expected, rtol=1e-5, atol=1e-6)


def rand(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def flatten_nodes() -> list[Any]:
    """``x [b, s, 4]`` reshaped to ``[b * s, 4]`` through its own shape, as exporters write it."""
    return [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["b"]),
        node("Gather", ["shape", "one"], ["s"]),
        node("Mul", ["b", "s"], ["rows"]),
        node("Unsqueeze", ["rows", "axis"], ["rows1"]),
        node("Concat", ["rows1", "four"], ["to"], axis=0),
        node("Reshape", ["x", "to"], ["y"]),
    ]


CONSTANTS: dict[str, Any] = {
    "zero": np.int64(0), "one": np.int64(1), "axis": np.array([0]), "four": np.array([4]),
}  # fmt: skip


def test_shape_arithmetic_becomes_a_constant(tmp_path: Path) -> None:
    static = model(flatten_nodes(), [port("x", FLOAT, [2, 3, 4])], {"y": 2}, **CONSTANTS)
    assert kinds(fold(static)) == ["Reshape"]
    open_ = model(flatten_nodes(), [port("x", FLOAT, ["b", "s", 4])], {"y": 2}, **CONSTANTS)
    same(open_, tmp_path, x=rand(2, 3, 4))


def branches(scale: float) -> Any:
    weight = numpy_helper.from_array(np.array(scale, np.float32), "k")
    return helper.make_graph(
        [node("Mul", ["x", "k"], ["r"])], "b", [], [port("r", FLOAT, [3])], [weight]
    )


def if_node() -> Any:
    return node("If", ["c"], ["y"], "choice", then_branch=branches(2), else_branch=branches(-1))


def test_a_known_condition_takes_its_branch() -> None:
    made = model([if_node()], [port("x", FLOAT, [3])], {"y": 1}, c=np.array(False))
    folded = fold(made)
    assert kinds(folded) == ["Mul", "Identity"]
    (got,) = onnxruntime.InferenceSession(folded.SerializeToString()).run(
        None, {"x": np.ones(3, np.float32)}
    )
    assert got.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_condition_of_the_data_runs_both_branches(tmp_path: Path, sign: int) -> None:
    nodes = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["sum", "nothing"], ["c"]),
        if_node(),
    ]
    made = model(nodes, [port("x", FLOAT, [3])], {"y": 1}, nothing=np.float32(0))
    same(made, tmp_path, x=sign * np.array([1, 2, 0.5], np.float32))


def test_branches_of_different_shape_name_the_node() -> None:
    other = helper.make_graph(
        [node("Unsqueeze", ["x", "a"], ["r"])], "b", [], [port("r", FLOAT, [1, 3])]
    )
    choice = node("If", ["c"], ["y"], "choice", then_branch=branches(2), else_branch=other)
    made = model([choice], [port("x", FLOAT, [3]), port("c", BOOL, [])], {"y": 1}, a=np.array([0]))
    with pytest.raises(UnsupportedOpError, match="If of node 'choice' needs branches"):
        fold(made)


def rate_model() -> Any:
    """An If on the value of an input, whose branches differ in shape."""
    other = helper.make_graph(
        [node("Unsqueeze", ["x", "a"], ["r"])], "b", [], [port("r", FLOAT, [1, 3])]
    )
    choice = node("If", ["c"], ["y"], "choice", then_branch=branches(2), else_branch=other)
    nodes = [node("Equal", ["sr", "rate"], ["c"]), choice]
    inputs = [port("x", FLOAT, [3]), port("sr", INT64, [])]
    return model(nodes, inputs, {"y": 1}, a=np.array([0]), rate=np.int64(16000))


def test_a_condition_on_an_input_at_hand_takes_its_branch() -> None:
    with pytest.raises(UnsupportedOpError, match="If of node 'choice' needs branches"):
        fold_for(rate_model(), {})
    folded, relied, _ = fold_for(rate_model(), {"sr": 16000})
    assert (kinds(folded), relied) == (["Mul", "Identity"], {"sr"})
    folded, relied, _ = fold_for(rate_model(), {"sr": 8000})
    assert (kinds(folded), relied) == (["Unsqueeze", "Identity"], {"sr"})


def test_the_plan_says_for_which_value_it_was_laid_out(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(rate_model().SerializeToString())
    given = GivenShapes(values={"sr": 16000})
    plan = import_model(path, tmp_path / "w.bin", given=given).plan
    assert {p.spec.name: p.value for p in plan.inputs} == {"x": None, "sr": 16000}
    written = plan.to_json()
    assert [p.get("value") for p in written["inputs"]] == [None, 16000]
    assert written["version"] == 4


def test_constants_are_those_of_the_model_s_opset() -> None:
    """Unsqueeze had its axes as an attribute until opset 13."""
    made = model([node("Unsqueeze", ["k"], ["y"], axes=[0])], [], {"y": 2}, k=np.ones(3, "f4"))
    made.opset_import[0].version = 12
    assert kinds(fold(made)) == []


def loop(body_nodes: list[Any]) -> Any:
    """Carries ``v [3]`` and stacks a scan output ``o``."""
    inputs = [port("i", INT64, []), port("go", BOOL, []), port("v", FLOAT, [3])]
    outputs = [port("going", BOOL, []), port("w", FLOAT, [3]), port("o", FLOAT, [3])]
    return helper.make_graph(body_nodes, "body", inputs, outputs)


def counting() -> list[Any]:
    return [
        node("Cast", ["i"], ["f"], to=FLOAT),
        node("Add", ["v", "f"], ["w"]),
        node("Mul", ["w", "w"], ["o"]),
    ]


def test_a_loop_is_laid_out(tmp_path: Path) -> None:
    body = loop([node("Identity", ["go"], ["going"]), *counting()])
    nodes = [node("Loop", ["n", "yes", "x"], ["y", "z"], "l", body=body)]
    made = model(
        nodes, [port("x", FLOAT, [3])], {"y": 1, "z": 2}, n=np.int64(4), yes=np.array(True)
    )
    same(made, tmp_path, x=rand(3))


def test_a_loop_ends_by_its_own_condition() -> None:
    body = loop([node("Less", ["i", "two"], ["going"]), *counting()])
    nodes = [node("Loop", ["", "yes", "x"], ["y", "z"], "l", body=body)]
    made = model(
        nodes, [port("x", FLOAT, [3])], {"y": 1, "z": 2}, two=np.int64(2), yes=np.array(True)
    )
    (_, stacked) = onnxruntime.InferenceSession(fold(made).SerializeToString()).run(
        None, {"x": np.zeros(3, np.float32)}
    )
    assert stacked[:, 0].tolist() == [0, 1, 9]


def test_the_same_computation_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def evaluator(alone: onnx.ModelProto) -> Any:
        ran.append(alone.graph.node[0].op_type)
        return ReferenceEvaluator(alone)

    monkeypatch.setattr(walk, "ReferenceEvaluator", evaluator)
    weights = {"a": [1, 2], "same": [1, 2], "column": [[1], [2]], "other": [2, 1]}
    nodes = [node("Neg", [name], [f"-{name}"]) for name in weights]
    nodes += [node("Add", ["x", f"-{name}"], [f"y {name}"]) for name in weights]
    outputs = {f"y {name}": 2 if name == "column" else 1 for name in weights}
    arrays = {name: np.array(value, np.float32) for name, value in weights.items()}
    folded = fold(model(nodes, [port("x", FLOAT, [2])], outputs, **arrays))
    assert ran == ["Neg"] * 3 and kinds(folded) == ["Add"] * 4
    x = rand(2)
    got = onnxruntime.InferenceSession(folded.SerializeToString()).run(None, {"x": x})
    for result, value in zip(got, arrays.values(), strict=True):
        np.testing.assert_array_equal(result, x - value)


@pytest.mark.parametrize(
    ("trips", "wrong"),
    [(MAX_TRIPS + 1, f"at most {MAX_TRIPS} iterations"), (None, "a trip count that is known")],
)
def test_a_loop_that_cannot_be_laid_out_names_itself(trips: int | None, wrong: str) -> None:
    body = loop([node("Identity", ["go"], ["going"]), *counting()])
    nodes = [node("Loop", ["n", "yes", "x"], ["y", "z"], "l", body=body)]
    weights = {} if trips is None else {"n": np.int64(trips)}
    inputs = [port("x", FLOAT, [3]), *([port("n", INT64, [])] if trips is None else [])]
    with pytest.raises(UnsupportedOpError, match=f"Loop of node 'l' needs {wrong}"):
        fold(model(nodes, inputs, {"y": 1, "z": 2}, yes=np.array(True), **weights))


def test_a_scan_is_laid_out_in_both_directions(tmp_path: Path) -> None:
    body = helper.make_graph(
        [node("Add", ["s", "e"], ["t"]), node("Identity", ["t"], ["u"])],
        "body",
        [port("s", FLOAT, [3]), port("e", FLOAT, [3])],
        [port("t", FLOAT, [3]), port("u", FLOAT, [3])],
    )
    nodes = [
        node("Scan", ["x", "m"], ["y", "z"], body=body, num_scan_inputs=1),
        node("Scan", ["x", "m"], ["p", "q"], body=body, num_scan_inputs=1,
             scan_input_directions=[1], scan_output_directions=[1], scan_output_axes=[1]),
    ]  # fmt: skip
    made = model(
        nodes, [port("x", FLOAT, [3]), port("m", FLOAT, [4, 3])], {"y": 1, "z": 2, "p": 1, "q": 2}
    )
    same(made, tmp_path, x=rand(3), m=rand(4, 3))


def test_sequences_become_their_tensors(tmp_path: Path) -> None:
    nodes = [
        node("SplitToSequence", ["x", "two"], ["parts"], axis=1),
        node("SequenceAt", ["parts", "last"], ["end"]),
        node("Neg", ["end"], ["turned"]),
        node("SequenceInsert", ["parts", "turned"], ["more"]),
        node("ConcatFromSequence", ["more"], ["y"], axis=1),
    ]
    made = model(nodes, [port("x", FLOAT, [2, 5])], {"y": 2}, two=np.int64(2), last=np.int64(-1))
    same(made, tmp_path, x=rand(2, 5))
