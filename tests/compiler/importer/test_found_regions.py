"""Layers, regions and means of what was found, and its rows put back, as in two-stage detectors."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from test_found import ALL, FEW, FOUND, NONE, check, model, node

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.errors import UnsupportedOpError

RNG = np.random.default_rng(3)
CORNERS = RNG.uniform(0, 4, (5, 2))
WEIGHTS = {
    "zero": np.array(0), "zeros": np.array([0]), "one": np.array([1]), "flat": np.array([-1]),
    "column": np.array([-1, 1]), "three": np.array([3]), "none": np.array(0, np.float32),
    "boxes": np.hstack([CORNERS, CORNERS + RNG.uniform(1, 4, (5, 2))]).astype(np.float32),
    "maps": np.array([0, 1, 0, 1, 1]), "table": RNG.standard_normal((7, 3)).astype(np.float32),
    "image": RNG.standard_normal((2, 3, 8, 8)).astype(np.float32),
    "w": RNG.standard_normal((12, 4)).astype(np.float32),
    "b": RNG.standard_normal(4).astype(np.float32),
    "filter": RNG.standard_normal((2, 3, 2, 2)).astype(np.float32),
    "matrices": RNG.standard_normal((2, 1, 3, 4)).astype(np.float32),
    "lines": RNG.standard_normal((35, 3)).astype(np.float32),
}  # fmt: skip
INPUTS = [{"x": FEW}, {"x": ALL}, {"x": NONE}]
REGIONS = [
    *FOUND,
    node("Gather", "n zero", "r", axis=0),
    node("Gather", "boxes r", "found"),
    node("Gather", "maps r", "which"),
    node("RoiAlign", "image found which", "parts", output_height=2, output_width=2,
         sampling_ratio=2),
]  # fmt: skip
# Rows of some of those that were found, at their places again.
ROWS = [
    *FOUND,
    node("Greater", "v none", "over"),
    node("NonZero", "over", "p"),
    node("Reshape", "p flat", "some"),
    node("Gather", "n one", "c", axis=0),
    node("Reshape", "c flat", "columns"),
    node("Gather", "table columns", "all"),
    node("Gather", "all some", "rows"),
    node("Shape", "some", "count"),
    node("Concat", "count three", "shape", axis=0),
    node("Reshape", "some column", "line"),
    node("Expand", "line shape", "places"),
]


@pytest.mark.parametrize(
    "rest",
    [
        [node("Flatten", "parts", "f"), node("Gemm", "f w b")],
        [node("Conv", "parts filter")],
        [node("Reshape", "parts split", "f"), node("MatMul", "f matrices")],
    ],
    ids=["gemm", "conv", "matmul"],
)
def test_regions_and_their_layers(rest: list[onnx.NodeProto], tmp_path: Path) -> None:
    weights = {**WEIGHTS, "split": np.array([-1, 4, 3])}
    check(model(tmp_path / "m.onnx", [*REGIONS, *rest], INPUTS[0], **weights), *INPUTS)


@pytest.mark.parametrize(
    ("data", "places"), [("made", "places"), ("lines", "places"), ("lines", "behind")]
)
def test_rows_at_their_places(data: str, places: str, tmp_path: Path) -> None:
    """Among as many as were found, and in a tensor of known size, whose end places count from."""
    made = [node("Shape", "all", "s"), node("ConstantOfShape", "s", "made")]
    behind = node("Sub", "places size", "behind")
    put = node("ScatterElements", f"{data} {places} rows", axis=0)
    weights = {**WEIGHTS, "size": np.array(35)}
    check(model(tmp_path / "m.onnx", [*ROWS, *made, behind, put], INPUTS[0], **weights), *INPUTS)


@pytest.mark.parametrize(
    "rest",
    [
        [node("Concat", "all", axis=0)],
        [node("Shape", "all", "s"), node("Gather", "s zeros", "end"),
         node("Slice", "all zeros end zeros")],
        [node("Shape", "all", "s"), node("Slice", "all origin s")],
        [node("Shape", "v", "s"), node("Concat", "three s one", "k", axis=0),
         node("Expand", "last k")],
        [node("Shape", "all", "s"), node("Expand", "row s")],
    ],
    ids=["one part", "to the end", "to all ends", "among others", "rows"],
)  # fmt: skip
def test_what_is_there_as_a_whole(rest: list[onnx.NodeProto], tmp_path: Path) -> None:
    """A batch of one, as a detector's code for several images leaves it behind."""
    weights = {**WEIGHTS, "last": np.arange(2).reshape(1, 2), "row": np.arange(3),
               "origin": np.array([0, 0])}  # fmt: skip
    check(model(tmp_path / "m.onnx", [*ROWS, *rest], INPUTS[0], **weights), *INPUTS)


@pytest.mark.parametrize(
    "rest",
    [
        [node("Shape", "v", "s"), node("Concat", "s flat", "k", axis=0), node("Reshape", "all k")],
        [node("ReduceMean", "all")],
        [node("ReduceMean", "all", axes=[0])],
        [node("ReduceMean", "all", axes=[0, -1], keepdims=0)],
        [node("Pad", "all aside", "padded"), node("ReduceMean", "padded", axes=[0])],
    ],
)
def test_means_and_the_rest_of_a_shape(rest: list[onnx.NodeProto], tmp_path: Path) -> None:
    weights = {**WEIGHTS, "aside": np.array([0, 1, 0, 2])}
    given = INPUTS[: 2 if rest[-1].op_type == "Reshape" else 3]  # of none native fails
    check(model(tmp_path / "m.onnx", [*ROWS, *rest], INPUTS[0], **weights), *given)


@pytest.mark.parametrize(
    ("rest", "name"),
    [
        ([node("Gemm", "n wide", transA=1)], "Gemm"),
        ([node("MatMul", "v lines")], "MatMul"),
        ([node("Reshape", "parts split", "f"), node("MatMul", "f many")], "MatMul"),
        ([node("RoiAlign", "image found maps")], "RoiAlign"),
        ([node("Shape", "v", "s"), node("Expand", "lines s")], "Expand"),
        ([node("Cast", "n", "i", to=TensorProto.INT64),
          node("ScatterElements", "lines i t", axis=1)], "ScatterElements"),
        ([node("Resize", "parts no_box twice")], "Resize"),
        ([node("Shape", "v", "s"), node("Slice", "parts zeros s one")], "Slice"),
        ([node("Pad", "t ahead")], "Pad"),
    ],
)  # fmt: skip
def test_what_would_mix_rows_is_refused(
    rest: list[onnx.NodeProto], name: str, tmp_path: Path
) -> None:
    weights = {**WEIGHTS, "wide": np.ones((2, 3), np.int64), "split": np.array([-1, 4, 3]),
               "ahead": np.array([1, 0, 0, 0]),
               "many": np.ones((35, 3, 2), np.float32), "no_box": np.zeros(0, np.float32),
               "twice": np.array([2, 1, 1, 1], np.float32)}  # fmt: skip
    path = model(tmp_path / "m.onnx", [*REGIONS, *rest], {"x": FEW}, **weights)
    with pytest.raises(UnsupportedOpError, match=f"{name}.* needs"):
        import_model(path, tmp_path / "w.bin")
