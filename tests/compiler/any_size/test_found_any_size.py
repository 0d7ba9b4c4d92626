"""Searches whose results are as many as the data says, behind open sizes: one plan for all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from test_counted import RNG, written

from nnjit_studio.compiler.any_size.imports import import_any
from nnjit_studio.compiler.any_size.runs.runner import OpenRunner
from nnjit_studio.model.open_plan import OpenPlan
from nnjit_studio.records import TIERS

PLACES = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[rows, columns] x) => (float[n] y)
{
    half = Constant<value_float = 0.5>()
    over = Greater(x, half)
    found = NonZero(over)
    each = Transpose<perm = [1, 0]>(found)
    y = GatherND(x, each)
}
"""
BOXES = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 3, height, width] x) => (float[n, 5] y)
<int64[1] most = {100}, float[1] overlap = {0.3}, float[1] least = {0.4}, int64[1] flat = {-1},
 int64[3] rows = {1, 4, -1}, int64[3] one = {1, 1, -1}, int64[1] zero = {0}, int64[1] second = {1},
 int64[1] third = {2}, float[1] wide = {0.15}>
{
    maps = AveragePool<kernel_shape = [4, 4], strides = [4, 4]>(x)
    sizes = Shape<start = 2>(x)
    longest = ReduceMax<keepdims = 0>(sizes)
    scale = Cast<to = 1>(longest)
    x0 = Gather<axis = 1>(maps, zero)
    y0 = Gather<axis = 1>(maps, second)
    s0 = Gather<axis = 1>(maps, third)
    x1 = Add(x0, wide)
    y1 = Add(y0, wide)
    corners = Concat<axis = 1>(x0, y0, x1, y1)
    lines = Reshape(corners, rows)
    turned = Transpose<perm = [0, 2, 1]>(lines)
    boxes = Mul(turned, scale)
    scores = Reshape(s0, one)
    found = NonMaxSuppression(boxes, scores, most, overlap, least)
    column = Gather<axis = 1>(found, third)
    row = Reshape(column, flat)
    every = Squeeze(boxes, zero)
    mine = Gather<axis = 0>(every, row)
    line = Reshape(scores, flat)
    best = Gather<axis = 0>(line, row)
    last = Unsqueeze(best, second)
    y = Concat<axis = 1>(mine, last)
}
"""


def right(
    path: Path, folder: Path, sizes: list[tuple[int, ...]], drawn: Any
) -> tuple[Any, list[int]]:
    """What is made of a file, and how much was found at each of these sizes."""
    made = import_any(path, folder / "w.bin", {"x": drawn(sizes[0])})
    assert made is not None and made.notes == ()
    (port,) = made.plan.outputs
    assert port.found is not None
    again = OpenPlan.from_json(json.loads(json.dumps(made.plan.to_json())))
    assert again == made.plan
    session, counts = onnxruntime.InferenceSession(path), []
    for tier in TIERS:
        runner = OpenRunner(made.plan, made.kernels, folder / "w.bin", tier)
        for shape in sizes:
            x = drawn(shape)
            (expected,) = session.run(None, {"x": x})
            named = dict(zip(("rows", "columns"), shape, strict=False))
            if len(shape) > 2:
                named = {"height": shape[2], "width": shape[3]}
            np.testing.assert_allclose(runner.run(named, {"x": x})["y"], expected, rtol=1e-5)
            counts.append(len(expected))
    return made, counts


def test_an_output_as_long_as_its_data_says_takes_any_size(tmp_path: Path) -> None:
    def drawn(shape: tuple[int, ...]) -> Any:
        return RNG.random(shape).astype(np.float32) - (0.5 if shape[0] == 3 else 0.0)

    _, counts = right(written(tmp_path, PLACES), tmp_path, [(7, 12), (3, 5), (21, 2)], drawn)
    assert 0 in counts and len(set(counts)) > 2


def test_boxes_that_are_chosen_in_an_image_of_any_size(tmp_path: Path) -> None:
    def drawn(shape: tuple[int, ...]) -> Any:
        return RNG.random(shape).astype(np.float32)

    sizes = [(1, 3, 24, 36), (1, 3, 52, 16), (1, 3, 9, 41)]
    _, counts = right(written(tmp_path, BOXES), tmp_path, sizes, drawn)
    assert min(counts) > 0
