"""Small models that ask for minutes or gigabytes, each by another way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import onnx
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

OPSETS = [helper.make_opsetid("", 17)]
LARGE = 3 * 2**28


def relus(count: int, reverse: bool = False) -> ModelProto:
    nodes = [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"], f"n{i}") for i in range(count)]
    return _model(nodes[::-1] if reverse else nodes, "t0", f"t{count}")


def doubled_activations() -> ModelProto:
    return _model([*_concats("t0"), _sum("t40", "y")], "t0", "y")


def doubled_constants() -> ModelProto:
    nodes = [*_concats("w"), _sum("t40", "r"), helper.make_node("Add", ["x", "r"], ["y"])]
    return _model(nodes, "x", "y", {"w": np.ones(4, np.float32)})


def made_large(op: str) -> ModelProto:
    """A constant of 3 GiB by ConstantOfShape, Expand or Tile."""
    inputs = ["shape"] if op == "ConstantOfShape" else ["w", "shape"]
    nodes = [helper.make_node(op, inputs, ["c"]), _sum("c", "r")]
    nodes.append(helper.make_node("Add", ["x", "r"], ["y"]))
    constants = {"shape": np.array([LARGE], np.int64), "w": np.ones(1, np.float32)}
    return _model(nodes, "x", "y", constants)


def doubling_functions(count: int = 30) -> ModelProto:
    """Functions that each call the one before twice."""
    opsets = [*OPSETS, helper.make_opsetid("d", 1)]
    last = helper.make_node("Relu", ["a"], ["b"])
    made = [helper.make_function("d", "F0", ["a"], ["b"], [last], opsets)]
    for i in range(1, count):
        calls = [helper.make_node(f"F{i - 1}", [a], [b], domain="d") for a, b in ("am", "mb")]
        made.append(helper.make_function("d", f"F{i}", ["a"], ["b"], calls, opsets))
    call = helper.make_node(f"F{count - 1}", ["x"], ["y"], domain="d")
    return _model([call], "x", "y", functions=made)


def endless_function() -> ModelProto:
    opsets = [*OPSETS, helper.make_opsetid("d", 1)]
    again = helper.make_node("F", ["a"], ["b"], domain="d")
    made = [helper.make_function("d", "F", ["a"], ["b"], [again], opsets)]
    call = helper.make_node("F", ["x"], ["y"], domain="d")
    return _model([call], "x", "y", functions=made)


def nested_loops(depth: int = 5) -> ModelProto:
    """Loops of 100 iterations in each other, whose body computes a constant."""
    body = [helper.make_node("Neg", ["v0"], ["w0"])]
    for level in range(depth):
        ports = [
            helper.make_tensor_value_info(f"{name}{level}", kind, shape)
            for name, kind, shape in (
                ("i", TensorProto.INT64, []),
                ("c", TensorProto.BOOL, []),
                ("v", TensorProto.FLOAT, [1]),
                ("o", TensorProto.BOOL, []),
                ("w", TensorProto.FLOAT, [1]),
            )
        ]
        body.append(helper.make_node("Identity", [f"c{level}"], [f"o{level}"]))
        graph = helper.make_graph(body, f"body{level}", ports[:3], ports[3:])
        start, end = (f"v{level + 1}", f"w{level + 1}") if level < depth - 1 else ("one", "two")
        body = [helper.make_node("Loop", ["trips", "", start], [end], f"loop{level}", body=graph)]
    constants = {"trips": np.array(100, np.int64), "one": np.ones(1, np.float32)}
    return _model([*body, helper.make_node("Add", ["x", "two"], ["y"])], "x", "y", constants)


HOSTILE: dict[str, Callable[[], ModelProto]] = {
    "doubled_activations": doubled_activations,
    "doubled_constants": doubled_constants,
    "constant_of_shape": lambda: made_large("ConstantOfShape"),
    "expand": lambda: made_large("Expand"),
    "tile": lambda: made_large("Tile"),
    "doubling_functions": doubling_functions,
    "endless_function": endless_function,
    "nested_loops": nested_loops,
    "too_many_nodes": lambda: relus(50_001),
}


def _concats(first: str) -> list[NodeProto]:
    names = [first, *(f"t{i}" for i in range(1, 41))]
    return [helper.make_node("Concat", [a, a], [b], axis=0) for a, b in pairwise(names)]


def _sum(source: str, to: str) -> NodeProto:
    return helper.make_node("ReduceSum", [source], [to], keepdims=0)


def _model(
    nodes: Sequence[NodeProto],
    given: str,
    result: str,
    constants: dict[str, np.ndarray] | None = None,
    functions: Sequence[FunctionProto] = (),
) -> ModelProto:
    used = {name for node in nodes for name in node.input} | {"trips", "one"}
    stored = [numpy_helper.from_array(a, n) for n, a in (constants or {}).items() if n in used]
    graph = helper.make_graph(
        nodes,
        "hostile",
        [helper.make_tensor_value_info(given, TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, [4])],
        stored,
    )
    opsets = [*OPSETS, *([helper.make_opsetid("d", 1)] if functions else [])]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=9)


def save(model: ModelProto, path: object) -> None:
    onnx.save(model, str(path))
