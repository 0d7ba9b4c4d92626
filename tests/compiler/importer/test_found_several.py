"""Several counts of one model: the smaller of two, parts that are joined, nothing found at all."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_found import FEW, FOUND, NONE, check, model, node

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.errors import UnsupportedOpError

ALL = np.linspace(-3, 4, 35, dtype=np.float32).reshape(5, 7)
TIES = (ALL.round() + 0.25).astype(np.float32)
ENDLESS = np.where(FEW > 0, np.inf, np.where(FEW < 0, -np.inf, FEW)).astype(np.float32)
INPUTS = [{"x": x} for x in (FEW, NONE, ALL, TIES, ENDLESS)]
WEIGHTS = {
    "zero": np.array(0), "zeros": np.array([0]), "ones": np.array([1]), "eight": np.array([8]),
    "many": np.array([90]), "row": np.arange(3, dtype=np.float32), "flat": np.array([-1]),
    "line": np.ones((1, 1), np.float32), "two": np.array([2]), "empty": np.zeros(0, np.float32),
    "large": np.array([2**40, 2**40]), "one": np.array(1),
}  # fmt: skip


def first(most: str) -> list[onnx.NodeProto]:
    """As PyTorch writes ``min(len(v), most)``: a number of one element."""
    return [
        *FOUND,
        node("Shape", "v", "s"),
        node("Gather", "s zero", "g", axis=0),
        node("Unsqueeze", "g zeros", "u"),
        node("Concat", f"{most} u", "c", axis=0),
        node("ReduceMin", "c", "m", keepdims=0),
        node("Reshape", "m flat", "k"),
    ]


def top(most: str, **attributes: object) -> list[onnx.NodeProto]:
    best = helper.make_node("TopK", ["v", "k"], ["best", "which"], **attributes)
    return [*first(most), best]


BEST = {
    "best": [node("Neg", "best")],
    "which": [node("Identity", "which")],
    "rows": [node("Gather", "t which", axis=0)],
    "label": [node("Shape", "best", "z"),
         node("ConstantOfShape", "z", value=numpy_helper.from_array(np.array([3])))],
    "labelled": [node("Shape", "best", "z"),
         node("ConstantOfShape", "z", "o", value=numpy_helper.from_array(np.array([3]))),
         node("NonZero", "o")],
    "joined": [node("Concat", "best v", axis=0)],
    "among": [node("Concat", "row best row v", axis=0)],
    "lines": [node("Gather", "t which", "r", axis=0), node("Concat", "r t r", axis=0)],
    "most": [node("Concat", "v best", "j", axis=0), node("ReduceMax", "j", keepdims=0)],
    "sizes": [node("Concat", "v best", "j", axis=0), node("Shape", "j", "z"),
         node("ReduceProd", "z", "p", keepdims=0), node("Cast", "p", to=TensorProto.FLOAT)],
    "numbered": [node("Shape", "best", "z"), node("Squeeze", "z", "n0"),
         node("Range", "zero n0 one", "i"), node("Add", "i which")],
    "size": [node("Shape", "t", "z"), node("ReduceProd", "z", "p", keepdims=1),
         node("Cast", "p", to=TensorProto.FLOAT)],
}  # fmt: skip


@pytest.mark.parametrize(
    ("rest", "most"),
    [*((rest, "eight") for rest in BEST), ("best", "many"), ("best", "ones"), ("joined", "many"),
     ("among", "ones")],
)  # fmt: skip
def test_the_best_of_what_was_found(rest: str, most: str, tmp_path: Path) -> None:
    check(model(tmp_path / "m.onnx", [*top(most), *BEST[rest]], INPUTS[0], **WEIGHTS), *INPUTS)


def test_a_product_that_may_overflow_is_computed(tmp_path: Path) -> None:
    nodes = [*top("many"), node("Shape", "best", "z"), node("Concat", "z large", "f", axis=0),
             node("ReduceProd", "f", keepdims=0)]  # fmt: skip
    check(model(tmp_path / "m.onnx", nodes, INPUTS[0], **WEIGHTS), {"x": NONE})


@pytest.mark.parametrize("largest", [0, 1])
def test_the_best_of_large_whole_numbers(largest: int, tmp_path: Path) -> None:
    x = np.array([[0, 2**40, -(2**63)], [-(2**40), 2**63 - 1, 0]])
    nodes = [*top("eight", largest=largest), node("Identity", "best")]
    check(model(tmp_path / "m.onnx", nodes, {"x": x}, **WEIGHTS), {"x": x})


def test_the_least_of_what_was_found(tmp_path: Path) -> None:
    nodes = [*top("eight", largest=0), node("Add", "best line0")]
    path = model(tmp_path / "m.onnx", nodes, INPUTS[0], line0=np.zeros(1, np.float32), **WEIGHTS)
    check(path, *INPUTS)


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, -2])
def test_what_was_found_is_flat(axis: int, tmp_path: Path) -> None:
    """An axis of one, the places, and both numbers of each."""
    nodes = [*FOUND, node("Unsqueeze", "t zeros", "u"), node("Flatten", "u", axis=axis)]
    check(model(tmp_path / "m.onnx", nodes, INPUTS[0], **WEIGHTS), *INPUTS)


def branch(nodes: list[onnx.NodeProto], output: str) -> onnx.GraphProto:
    return helper.make_graph(nodes, output, [], [helper.make_empty_tensor_value_info(output)])


def either(*some: onnx.NodeProto, none: np.ndarray, of: str = "v") -> list[onnx.NodeProto]:
    """As PyTorch writes ``nothing if len(v) == 0 else ...``."""
    empty = helper.make_node("Constant", [], ["e"], value=numpy_helper.from_array(none))
    return [
        *FOUND,
        node("Shape", of, "s"),
        node("ReduceProd", "s", "p", keepdims=0),
        node("Equal", "p zero", "q"),
        node("Cast", "q", "c", to=TensorProto.BOOL),
        node("If", "c", then_branch=branch([empty], "e"),
             else_branch=branch(list(some), some[-1].output[0])),
    ]  # fmt: skip


def test_a_branch_for_nothing_found_is_the_other_one_of_nothing(tmp_path: Path) -> None:
    some = (
        node("Greater", "v half", "b"),
        node("Compress", "v b", "w", axis=0),
        node("Neg", "w", "o"),
    )
    nodes = either(*some, none=np.zeros(0, np.float32))
    path = model(tmp_path / "m.onnx", nodes, INPUTS[0], half=np.array(0.5, np.float32), **WEIGHTS)
    check(path, *INPUTS)


@pytest.mark.parametrize(
    ("nodes", "name"),
    [
        # Another thing than nothing, or something though nothing was found.
        (either(node("Neg", "v", "o"), none=np.ones(1, np.float32)), "If"),
        (either(node("Concat", "v row", "o", axis=0), none=np.zeros(0, np.float32)), "If"),
        # As many as are wanted may not be there.
        ([*FOUND, helper.make_node("TopK", ["v", "eight"], ["y", "which"])], "TopK"),
        ([*first("eight"), node("Add", "k ones", "l"),
          helper.make_node("TopK", ["v", "l"], ["y", "which"])], "TopK"),
        # Two axes of one tensor, and parts that differ in them.
        ([*FOUND, node("Concat", "t n", axis=0)], "Concat"),
        ([*FOUND, node("Unsqueeze", "t ones", "u"), node("Transpose", "u", "w", perm=[2, 0, 1]),
          node("Flatten", "w", axis=2)], "Flatten"),
    ],
    ids=["one", "row", "eight", "more", "turned", "flat"],
)  # fmt: skip
def test_what_would_be_wrong_is_refused(
    nodes: list[onnx.NodeProto], name: str, tmp_path: Path
) -> None:
    path = model(tmp_path / "m.onnx", nodes, {"x": FEW}, **WEIGHTS)
    with pytest.raises(UnsupportedOpError, match=f"{name}.* needs"):
        import_model(path, tmp_path / "w.bin")
