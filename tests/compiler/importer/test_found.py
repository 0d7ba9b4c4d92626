"""Operators that give as many results as their data says, behind whose results sizes are known."""

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from operator_cases import close
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.oracle.onnx_reference import OnnxReference
from nnjit_studio.errors import UnsupportedOpError
from nnjit_studio.records import TIERS

RNG = np.random.default_rng(11)
FEW = np.where(RNG.random((5, 7)) < 0.3, RNG.standard_normal((5, 7)), 0).astype(np.float32)
NONE, ALL = np.zeros_like(FEW), np.ones_like(FEW)


def model(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, np.ndarray],
    opset: int = 17,
    **weights: object,
) -> Path:
    """A model whose result is ``y``, without a type."""
    ports = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in inputs.items()
    ]
    held = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph(nodes, "g", ports, outputs, held)
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    whole = onnx.shape_inference.infer_shapes(whole)
    onnx.save(whole, str(path))
    return path


def check(path: Path, *given: dict[str, np.ndarray]) -> None:
    """One import on each of the inputs."""
    built, reference = import_model(path, path.with_suffix(".bin")), OnnxReference(path)
    for feeds in given:
        expected = reference.run(feeds, ["y"])["y"]
        for tier in TIERS:
            got = run_by_kernels(built, path.with_suffix(".bin"), feeds, tier)["y"]
            assert got.shape == expected.shape and got.dtype == expected.dtype
            close(got, expected)


def node(op: str, inputs: str, output: str = "y", **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], **attributes)


FOUND = [
    node("NonZero", "x", "n"),
    node("Transpose", "n", "t"),
    node("GatherND", "x t", "v"),
]
I64 = np.int64


@pytest.mark.parametrize("x", [FEW, NONE, ALL], ids=["few", "none", "all"])
@pytest.mark.parametrize(
    ("rest", "weights"),
    [
        ([node("ReduceSum", "v", keepdims=0)], {}),
        ([node("Shape", "v", "s"), node("Cast", "s", "y", to=TensorProto.FLOAT)], {}),
        ([node("Shape", "v", "s"), node("ReduceSum", "v", "r", keepdims=0),
          node("Cast", "s", "c", to=TensorProto.FLOAT), node("Add", "r c")], {}),
        ([node("Shape", "v", "s"), node("Cast", "s", "c", to=TensorProto.BOOL),
          node("Cast", "c", to=TensorProto.FLOAT)], {}),
        ([node("ReduceSum", "v no_axes", "y", keepdims=0)], {"no_axes": np.zeros(0, I64)}),
        ([node("Concat", "v v", "c", axis=0), node("ReduceSum", "c", keepdims=0)], {}),
        # Half of the count, rounded: no multiple of it.
        ([node("Shape", "v", "s"), node("Cast", "s", "f", to=TensorProto.FLOAT),
          node("Mul", "f half", "h"), node("Cast", "h", "i", to=TensorProto.INT64),
          node("Cast", "i", to=TensorProto.FLOAT)], {"half": np.array(0.5, np.float32)}),
        # Places in a row of another table, its rows added up.
        ([node("Gather", "n one", "r", axis=0), node("Gather", "table r", "g", axis=1),
          node("ReduceSum", "g axis", "y", keepdims=0)],
         {"one": np.array(1), "table": FEW @ FEW.T @ FEW, "axis": np.array([1])}),
        # Padded to a length: above, and below, the most that may be found.
        *(([node("Unsqueeze", "v axis", "u"), node("Concat", "u u u", "c", axis=1),
            node("Shape", "c", "s"), node("Gather", "s zero", "k", axis=0),
            node("Slice", "c zeros limit zeros", "d"), node("Shape", "d", "e"),
            node("Gather", "e zero", "m", axis=0), node("Sub", "length m", "p"),
            node("Mul", "p three", "q"), node("Concat", "zeros q", "pads", axis=0),
            node("Reshape", "d flat", "f"), node("Pad", "f pads", "g"),
            node("Reshape", "g whole")],
           {"axis": np.array([1]), "zero": np.array([0]), "zeros": np.array([0]),
            "limit": np.array([limit]), "length": np.array([length]), "three": np.array([3]),
            "flat": np.array([-1]), "whole": np.array([length, 3])})
          for limit, length in ((6, 9), (20, 20), (35, 40))),
    ],
    ids=["sum", "count", "both", "any", "empty", "twice", "half", "rows", "padded", "cut",
         "all_padded"],
)  # fmt: skip
def test_what_follows_from_places_that_are_not_zero(
    rest: list[onnx.NodeProto], weights: dict[str, np.ndarray], x: np.ndarray, tmp_path: Path
) -> None:
    check(model(tmp_path / "m.onnx", [*FOUND, *rest], {"x": x}, **weights), {"x": x})


def branch(value: float) -> onnx.GraphProto:
    held = numpy_helper.from_array(np.float32(value), f"v{value}")
    made = [helper.make_tensor_value_info(f"b{value}", TensorProto.FLOAT, [])]
    return helper.make_graph([node("Identity", f"v{value}", f"b{value}")], "b", [], made, [held])


def test_a_condition_of_one_element_leaves_the_shape_of_its_branches(tmp_path: Path) -> None:
    nodes = [
        *FOUND,
        node("Shape", "v", "s"),
        node("Greater", "s three", "many"),
        node("If", "many", then_branch=branch(1.0), else_branch=branch(2.0)),
    ]
    for x in (FEW, NONE):
        check(model(tmp_path / "m.onnx", nodes, {"x": x}, three=np.array(3)), {"x": x})


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize("limits", [(4, 0.3, 0.2), (2**62, 0.5, None), (3, 0.0, 2.0)])
def test_boxes_that_overlap_less(
    limits: tuple[int, float, float | None], center: int, tmp_path: Path
) -> None:
    most, overlap, least = limits
    boxes = RNG.random((2, 12, 4)).astype(np.float32)
    scores = RNG.random((2, 3, 12)).astype(np.float32).round(1)  # some are equal
    weights: dict[str, np.ndarray] = {
        "most": np.array([most]), "overlap": np.array([overlap], np.float32),
        "axis": np.array([0]),
    }  # fmt: skip
    if least is not None:
        weights["least"] = np.array([least], np.float32)
    rows = np.arange(1, 2 * 3 * 12 + 1, dtype=np.float32).reshape(-1, 1) % 7
    nodes = [
        node("NonMaxSuppression", " ".join(["b s", *weights]).replace(" axis", ""), "n",
             center_point_box=center),
        # Sums that hang on which boxes these are, and how many.
        node("Cast", "n", "f", to=TensorProto.FLOAT),
        node("Mul", "f f", "q"),
        node("ReduceSum", "q axis", "t", keepdims=0),
        node("Shape", "n", "k"), node("Slice", "k axis one", "c"),
        node("Cast", "c", "m", to=TensorProto.FLOAT),
        node("Concat", "t m", axis=0),
    ]  # fmt: skip
    weights |= {"one": np.array([1]), "rows": rows}
    check(model(tmp_path / "m.onnx", nodes, {"b": boxes, "s": scores}, **weights),
          {"b": boxes, "s": scores})  # fmt: skip


def sum_of(found: str) -> list[onnx.NodeProto]:
    """Of squares of what was found, weighed by place, so that it tells which these are."""
    return [
        node("Cast", found, "f", to=TensorProto.FLOAT),
        node("Mul", "f f", "q"),
        node("ReduceSum", "q", keepdims=0),
    ]


@pytest.mark.parametrize("threshold", [None, -math.inf, 0.5])
def test_a_score_of_minus_infinity_is_one_where_there_is_no_threshold(
    threshold: float | None, tmp_path: Path
) -> None:
    boxes = (10 * np.arange(6, dtype=np.float32))[None, :, None] + np.array([0, 0, 5, 5], "f")
    scores = np.array([[[0.9, -np.inf, 0.4, -np.inf, 0.7, 0.1]]], np.float32)
    weights = {"most": np.array([6]), "overlap": np.array([0.5], np.float32)}
    if threshold is not None:
        weights["least"] = np.array([threshold], np.float32)
    nodes = [node("NonMaxSuppression", " ".join(["b s", *weights]), "n"), *sum_of("n")]
    feeds = {"b": boxes.astype(np.float32), "s": scores}
    check(model(tmp_path / "m.onnx", nodes, feeds, **weights), feeds)


@pytest.mark.parametrize(("first", "also"), [(4, 4), (4, 20), (4, 5)])
def test_boxes_among_those_that_were_found(first: int, also: int, tmp_path: Path) -> None:
    """As ultralytics exports them: those above a confidence, the first of these, no threshold."""
    boxes, x = RNG.random((1, 12, 4)).astype(np.float32), RNG.random(12).astype(np.float32)
    nodes = [
        node("Greater", "x half", "c"), node("NonZero", "c", "n0"),
        node("Reshape", "n0 flat", "n1"),
        node("Gather", "b n1", "b1", axis=1), node("Slice", "b1 zero first one", "b2"),
        node("Gather", "x n1", "s1"), node("Slice", "s1 zero also zero", "s2"),
        node("Unsqueeze", "s2 new", "s3"),
        node("NonMaxSuppression", "b2 s3 most overlap", "n"), *sum_of("n"),
    ]  # fmt: skip
    weights = {
        "half": np.array(0.3, np.float32), "flat": np.array([-1]), "zero": np.array([0]),
        "one": np.array([1]), "first": np.array([first]), "also": np.array([also]),
        "new": np.array([0, 1]), "most": np.array([9]), "overlap": np.array([0.3], np.float32),
    }  # fmt: skip
    feeds = {"b": boxes, "x": x}
    path = model(tmp_path / "m.onnx", nodes, feeds, **weights)
    if first == also:
        check(path, feeds)
        return
    with pytest.raises(UnsupportedOpError, match=r"NonMaxSuppression.* needs"):
        import_model(path, tmp_path / "w.bin")


@pytest.mark.parametrize("x", [FEW, NONE, ALL, -FEW.T], ids=["few", "none", "all", "turned"])
@pytest.mark.parametrize(
    "nodes",
    [
        [node("NonZero", "x")],
        [node("NonZero", "x", "n"), node("Transpose", "n")],
        [node("NonZero", "x", "n"), node("Identity", "n")],
        [*FOUND, node("Exp", "v")],
        [*FOUND, node("Unsqueeze", "v axis", "u"), node("Concat", "u u", "c", axis=1),
         node("Reshape", "c flat")],
        [*FOUND, node("Slice", "v zero six")],
        [node("Abs", "x", "a"), node("Greater", "a half", "c0"), node("Reshape", "c0 flat", "c"),
         node("Compress", "x c")],
        [node("ReduceMax", "x", "m", axes=[1], keepdims=0),
         node("Cast", "m", "c", to=TensorProto.BOOL),
         node("Compress", "x c", axis=0)],
    ],
    ids=["places", "rows", "same", "values", "twice", "first", "flat", "lines"],
)  # fmt: skip
def test_an_output_is_as_long_as_its_data_says(
    nodes: list[onnx.NodeProto], x: np.ndarray, tmp_path: Path
) -> None:
    weights = {"axis": np.array([1]), "flat": np.array([-1]), "zero": np.array([0]),
               "six": np.array([6]), "half": np.array(0.5, np.float32)}  # fmt: skip
    check(model(tmp_path / "m.onnx", nodes, {"x": x}, **weights), {"x": x})


def test_what_is_chosen_by_a_computed_condition(tmp_path: Path) -> None:
    nodes = [
        node("Greater", "x limit", "c"),
        node("Compress", "x c", "v"),
        node("ReduceMax", "v", keepdims=0),
    ]
    limit = np.array(0.1, np.float32)
    row = FEW.reshape(-1)
    check(model(tmp_path / "m.onnx", nodes, {"x": row}, limit=limit), {"x": row})


def test_the_last_of_what_was_found(tmp_path: Path) -> None:
    nodes = [*FOUND, node("Gather", "v last")]
    path = model(tmp_path / "m.onnx", nodes, {"x": FEW}, last=np.array([-1, 0, -2]))
    check(path, {"x": FEW})


@pytest.mark.parametrize(
    ("rest", "name"),
    [
        ([node("Size", "v", "z"), node("Cast", "z", to=1)], "Size"),
        ([node("Add", "v row", "a"), node("ReduceSum", "a", keepdims=0)], "Add"),
        ([node("CumSum", "v zero", "a"), node("ReduceSum", "a", keepdims=0)], "CumSum"),
        # Two axes of one tensor.
        (
            [
                node("Gather", "n zero", "r", axis=0),
                node("Gather", "x r", "g", axis=1),
                node("ReduceMax", "x", "m", axes=[1], keepdims=0),
                node("Cast", "m", "c", to=TensorProto.BOOL),
                node("Compress", "g c", axis=0),
            ],
            "Compress of node 'y'",
        ),
    ],
)
def test_what_hangs_on_a_size_in_another_way_is_refused(
    rest: list[onnx.NodeProto], name: str, tmp_path: Path
) -> None:
    path = model(tmp_path / "m.onnx", [*FOUND, *rest], {"x": FEW}, row=np.ones(35, np.float32),
                 zero=np.array(0))  # fmt: skip
    with pytest.raises(UnsupportedOpError, match=f"{name}.* needs"):
        import_model(path, tmp_path / "w.bin")


def test_the_largest_before_opset_10_is_refused(tmp_path: Path) -> None:
    largest = helper.make_node("TopK", ["c"], ["y", "i"], "largest", k=1, axis=1)
    rest = [node("Cast", "n", "c", to=TensorProto.FLOAT), largest]
    path = model(tmp_path / "m.onnx", [node("NonZero", "x", "n"), *rest], {"x": FEW}, opset=9)
    with pytest.raises(UnsupportedOpError, match="TopK"):
        import_model(path, tmp_path / "m.bin")
