"""Loop and Scan that stay loops in programs for any size: right by ONNX Runtime at other sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from exact_native import exact_session
from onnx import TensorProto, helper, numpy_helper

from nnjit_studio.compiler.any_size.imports import AnySize, import_any
from nnjit_studio.compiler.any_size.runs.runner import OpenRunner
from nnjit_studio.errors import ModelError
from nnjit_studio.model.open_plan import OpenPlan
from nnjit_studio.records import TIERS

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, port = helper.make_node, helper.make_tensor_value_info
RNG = np.random.default_rng(5)
WIDTH = 8
STATE = [1, WIDTH]
COUNT = [node("Shape", ["x"], ["shape"], start=0, end=1), node("Squeeze", ["shape"], ["count"])]
STEP = [
    node("MatMul", ["h", "u"], ["p"]),
    node("Add", ["p", "row"], ["q"]),
    node("Tanh", ["q"], ["next"]),
]
GATHERED = [node("Gather", ["x", "i"], ["row"], axis=0)]
GOES_ON = [node("Identity", ["c"], ["goes_on"])]
LOOP = [port("i", INT64, []), port("c", BOOL, [])]


def rand(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def written(folder: Path, nodes: list[Any], outputs: dict[str, int], **inputs: list[Any]) -> Path:
    weights = {"u": rand(WIDTH, WIDTH) / 3, "h0": rand(*STATE), "two": np.float32(2)}
    ports = [port(n, INT64 if n in ("m", "tree") else FLOAT, s) for n, s in inputs.items()]
    graph = helper.make_graph(
        nodes, "g", ports, [port(n, FLOAT, [None] * rank) for n, rank in outputs.items()],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = folder / "m.onnx"
    onnx.save(made, path)
    return path


def same(path: Path, folder: Path, made: AnySize, feeds: dict[str, np.ndarray]) -> None:
    """The outputs in both tiers are those of ONNX Runtime."""
    names = [p.name for p in made.plan.outputs]
    expected = exact_session(path).run(names, feeds)
    sizes = {d.name: feeds["x"].shape[0] for d in made.plan.dims}
    for tier in TIERS:
        got = OpenRunner(made.plan, made.kernels, folder / "w.bin", tier).run(sizes, feeds)
        for name, value in zip(names, expected, strict=True):
            np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


def imported(path: Path, folder: Path, **feeds: np.ndarray) -> AnySize:
    made = import_any(path, folder / "w.bin", feeds)
    assert made is not None
    loops = [s.loop for s in made.plan.steps if s.loop]
    assert len(loops) == len(made.plan.trips) == 1
    again = OpenPlan.from_json(json.loads(json.dumps(made.plan.to_json())))
    assert again == made.plan
    return made


def scan(folder: Path, backward: int) -> Path:
    body = helper.make_graph(
        [*STEP, node("Identity", ["next"], ["out"])], "body",
        [port("h", FLOAT, STATE), port("row", FLOAT, STATE)],
        [port("next", FLOAT, STATE), port("out", FLOAT, STATE)],
    )  # fmt: skip
    turned = {"scan_input_directions": [backward], "scan_output_directions": [backward]}
    nodes = [node("Scan", ["h0", "x"], ["last", "y"], num_scan_inputs=1, body=body, **turned)]
    return written(folder, nodes, {"y": 3, "last": 2}, x=["n", *STATE])


def loop(folder: Path) -> Path:
    """The count is a size; what it stacks is not what it carries."""
    body = helper.make_graph(
        [*GATHERED, *STEP, *GOES_ON, node("Mul", ["next", "two"], ["out"])], "body",
        [*LOOP, port("h", FLOAT, STATE)],
        [port("goes_on", BOOL, []), port("next", FLOAT, STATE), port("out", FLOAT, STATE)],
    )  # fmt: skip
    nodes = [*COUNT, node("Loop", ["count", "", "h0"], ["last", "y"], body=body)]
    return written(folder, nodes, {"y": 3, "last": 2}, x=["n", *STATE])


def read_behind(folder: Path) -> Path:
    """A kernel behind the loop reads what it carried."""
    body = helper.make_graph(
        [*GATHERED, *STEP, *GOES_ON], "body", [*LOOP, port("h", FLOAT, STATE)],
        [port("goes_on", BOOL, []), port("next", FLOAT, STATE)],
    )  # fmt: skip
    behind = node("MatMul", ["last", "u"], ["y"])
    nodes = [*COUNT, node("Loop", ["count", "", "h0"], ["last"], body=body), behind]
    return written(folder, nodes, {"y": 2}, x=["n", *STATE])


@pytest.mark.parametrize("made", [lambda f: scan(f, 0), lambda f: scan(f, 1), loop, read_behind])
def test_rows_are_read_and_written_at_any_length(tmp_path: Path, made: Any) -> None:
    path = made(tmp_path)
    plan = imported(path, tmp_path, x=rand(5, *STATE))
    for n in (1, 2, 3, *RNG.integers(4, 200, 3)):
        same(path, tmp_path, plan, {"x": rand(int(n), *STATE)})


def test_a_bundle_with_a_loop_has_wasm_kernels_alone(tmp_path: Path) -> None:
    path = scan(tmp_path, 0)
    made = import_any(path, tmp_path / "w.bin", {"x": rand(5, *STATE)}, webgpu=True)
    assert made is not None and {k.tier for k in made.kernels} == set(TIERS)
    assert made.notes == ("The bundle has Wasm kernels alone: a GPU runs no loop of steps.",)


def test_a_count_is_read_from_an_input(tmp_path: Path) -> None:
    body = helper.make_graph(
        [*STEP, *GOES_ON], "body", [*LOOP, port("h", FLOAT, STATE)],
        [port("goes_on", BOOL, []), port("next", FLOAT, STATE)],
    )  # fmt: skip
    nodes = [
        node("ReduceMean", ["x"], ["row"], axes=[0], keepdims=0),
        node("Loop", ["m", "", "h0"], ["last"], body=body),
    ]
    path = written(tmp_path, nodes, {"last": 2}, x=["n", *STATE], m=[])
    plan = imported(path, tmp_path, x=rand(5, *STATE), m=np.array(3))
    for n, m in ((3, 1), (1, 4), (7, 0), (50, 33)):
        same(path, tmp_path, plan, {"x": rand(n, *STATE), "m": np.array(m)})


def test_a_computed_condition_ends_a_loop(tmp_path: Path) -> None:
    body = helper.make_graph(
        [
            *GATHERED, node("Add", ["h", "row"], ["next"]),
            node("ReduceSum", ["next"], ["sum"], keepdims=0), node("Less", ["sum", "two"], ["on"]),
        ],
        "body", [*LOOP, port("h", FLOAT, STATE)],
        [port("on", BOOL, []), port("next", FLOAT, STATE)],
    )  # fmt: skip
    nodes = [*COUNT, node("Loop", ["count", "", "h0"], ["last"], body=body)]
    path = written(tmp_path, nodes, {"last": 2}, x=["n", *STATE])
    plan = imported(path, tmp_path, x=rand(5, *STATE))
    for n in (1, 2, 3, 9, 40):
        same(path, tmp_path, plan, {"x": np.abs(rand(n, *STATE)) / 30})


def test_a_tree_is_walked_node_by_node(tmp_path: Path) -> None:
    """Children are gathered from a carried table of states, and a node's own is scattered there."""
    take = [
        node("Gather", ["tree", "i"], ["pair"], axis=0),
        node("Gather", ["states", "pair"], ["children"], axis=0),
        node("ReduceSum", ["children", "first"], ["h"], keepdims=1),
    ]
    put = [
        node("Unsqueeze", ["i", "edges"], ["place"]),
        node("ScatterND", ["states", "place", "next"], ["filled"]),
    ]
    weights = [
        numpy_helper.from_array(np.array([0]), "first"),
        numpy_helper.from_array(np.array([0, 1]), "edges"),
    ]
    body = helper.make_graph(
        [*GATHERED, *take, *STEP, *put, *GOES_ON], "body",
        [*LOOP, port("states", FLOAT, ["rows", WIDTH])],
        [port("goes_on", BOOL, []), port("filled", FLOAT, ["rows", WIDTH])], weights,
    )  # fmt: skip
    nodes = [
        *COUNT,
        node("Constant", [], ["wide"], value_ints=[1, WIDTH]),
        node("Constant", [], ["more"], value_ints=[1, 0]),
        node("Gather", ["x", "none"], ["row0"], axis=1),
        node("Shape", ["row0"], ["table"]),
        node("Add", ["table", "more"], ["larger"]),
        node("ConstantOfShape", ["larger"], ["zeros"]),
        node("Loop", ["count", "", "zeros"], ["y"], body=body),
    ]
    nodes.insert(0, node("Constant", [], ["none"], value_int=0))
    nodes.pop(3)
    path = written(tmp_path, nodes, {"y": 2}, x=["n", *STATE], tree=["n", 2])

    def feeds(n: int) -> dict[str, np.ndarray]:
        # A child is a node before, or the row of zeros at the end.
        tree = [[RNG.integers(-1, i) if i else -1 for _ in range(2)] for i in range(n)]
        return {"x": rand(n, *STATE), "tree": np.array(tree, np.int64).reshape(n, 2)}

    plan = imported(path, tmp_path, **feeds(6))
    for n in (1, 2, 3, 8, 21, 64):
        same(path, tmp_path, plan, feeds(n))


def test_a_tensor_that_grows_is_refused(tmp_path: Path) -> None:
    body = helper.make_graph(
        [*GOES_ON, node("Concat", ["h", "h"], ["next"], axis=0)], "body",
        [*LOOP, port("h", FLOAT, ["k", WIDTH])],
        [port("goes_on", BOOL, []), port("next", FLOAT, ["k2", WIDTH])],
    )  # fmt: skip
    nodes = [
        node("Loop", ["m", "", "h0"], ["grown"], body=body),
        node("ReduceSum", ["grown"], ["whole"], keepdims=0),
        node("Add", ["x", "whole"], ["y"]),
    ]
    path = written(tmp_path, nodes, {"y": 3}, x=["n", *STATE], m=[])
    with pytest.raises(ModelError, match="needs carried tensors that keep their shapes"):
        import_any(path, tmp_path / "w.bin", {"x": rand(5, *STATE), "m": np.array(2)})
