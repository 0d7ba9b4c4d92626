"""Index grids of exporters, which are another constant at each size, computed where need be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

from nnjit_studio.compiler.any_size.arrays import fitting, made_arrays
from nnjit_studio.compiler.any_size.imports import import_any, import_sizes
from nnjit_studio.compiler.any_size.inputs import Sum, replaced
from nnjit_studio.compiler.any_size.runs.runner import OpenRunner
from nnjit_studio.records import TIERS

RNG = np.random.default_rng(11)
_COUNTS = """
    zero = Constant<value_int = 0>()
    one = Constant<value_int = 1>()
    last = Constant<value_ints = [-1]>()
    first = Constant<value_ints = [0]>()
    batch = Shape<start = 0, end = 1>(mask)
    length = Shape<start = 1, end = 2>(mask)
    b = Squeeze(batch)
    s = Squeeze(length)
"""
GRID = f"""
<ir_version: 9, opset_import: ["" : 17]>
g (bool[batch, length] mask, float[batch, 2, length, 4] x) => (float[batch, 2, length, length] y) {{
    {_COUNTS}
    rows = Range(zero, b, one)
    keys = Range(zero, s, one)
    apart = Constant<value_ints = [-1, 1, 1, 1]>()
    rows4 = Reshape(rows, apart)
    ones = Constant<value_ints = [1, 1, 1]>()
    to = Concat<axis = 0>(batch, ones)
    whole = Constant<value_ints = [1, 1]>()
    grid = Concat<axis = 0>(batch, whole, length)
    rows_all = Expand(rows4, grid)
    keys_all = Expand(keys, grid)
    rows5 = Unsqueeze(rows_all, last)
    keys5 = Unsqueeze(keys_all, last)
    places = Concat<axis = -1>(rows5, keys5)
    shown = GatherND(mask, places)
    turned = Transpose<perm = [0, 1, 3, 2]>(x)
    scores = MatMul(x, turned)
    hidden = Constant<value_float = -10000.0>()
    kept = Where(shown, scores, hidden)
    y = Softmax<axis = -1>(kept)
}}
"""
CAUSAL = f"""
<ir_version: 9, opset_import: ["" : 17]>
g (float[batch, LENGTH] mask, float[2, past] held) => (float[batch, length, 3] y)
<float[40, 3] table = {{{", ".join(f"{n / 7:.3f}" for n in range(120))}}}>
{{
    {_COUNTS}
    seen = Shape<start = 1, end = 2>(held)
    p = Squeeze(seen)
    end = Add(p, s)
    own = Range(p, end, one)
    rows = Gather(table, own)
    keys = Range(zero, end, one)
    axis = Constant<value_ints = [1]>()
    column = Unsqueeze(own, axis)
    before = LessOrEqual(keys, column)
    kept = Cast<to = 1>(before)
    total = ReduceSum<keepdims = 0>(held)
    axes = Constant<value_ints = [1]>()
    counts = ReduceSum<keepdims = 1>(kept, axes)
    share = Mul(counts, total)
    added = Add(rows, share)
    places = Unsqueeze(mask, last)
    y = Add(places, added)
}}
"""

STEP = """
<ir_version: 9, opset_import: ["" : 17]>
g (int64[rows, whole] mask, float[n, past, 4] held) => (float[n, whole, 4] y)
<float[30, 4] table = TABLE, float[1, 4] waves = {1.0, 0.5, 0.25, 0.125}>
{
    seen = Shape<start = 1, end = 2>(held)
    own = Gather(table, seen)
    place = Cast<to = 1>(seen)
    axis = Constant<value_ints = [1]>()
    column = Unsqueeze(place, axis)
    angles = MatMul(column, waves)
    turned = Cos(angles)
    new = Add(own, turned)
    n = Shape<start = 0, end = 1>(held)
    ones = Constant<value_ints = [1, 4]>()
    to = Concat<axis = 0>(n, ones)
    rows3 = Expand(new, to)
    keys = Concat<axis = 1>(held, rows3)
    shown = Cast<to = 1>(mask)
    last = Constant<value_ints = [-1]>()
    weights = Unsqueeze(shown, last)
    y = Mul(keys, weights)
}
""".replace("TABLE", f"{{{', '.join(f'{n / 5:.1f}' for n in range(120))}}}")

ANCHORS = """
<ir_version: 9, opset_import: ["" : 17]>
g (float[n, 3, height, width] x) => (float[n, 3, height, width] y)
{
    zero = Constant<value_float = 0.0>()
    one = Constant<value_float = 1.0>()
    half = Constant<value_float = 0.5>()
    lines = Shape<start = 2, end = 3>(x)
    h = Squeeze(lines)
    end = Cast<to = 1>(h)
    rows = Range(zero, end, one)
    middles = Add(rows, half)
    wide = Constant<value_ints = [-1, 1]>()
    column = Reshape(middles, wide)
    columns = Shape<start = 3, end = 4>(x)
    w = Squeeze(columns)
    last = Cast<to = 1>(w)
    line = Range(zero, last, one)
    grid = Add(column, line)
    y = Mul(x, grid)
}
"""

STRIDES = """
<ir_version: 9, opset_import: ["" : 17]>
g (float[n, 3, height, width] x) => (float[n, 3, anchors] y)
{
    half = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)
    flat = Constant<value_ints = [0, 3, -1]>()
    twice = Constant<value_floats = [1.0, 1.0, 2.0, 2.0]>()
    coarse_map = Resize<mode = "nearest">(half, "", twice)
    fine_map = Add(x, coarse_map)
    fine_cells = Reshape(fine_map, flat)
    coarse_cells = Reshape(half, flat)
    cells = Concat<axis = -1>(fine_cells, coarse_cells)
    one = Constant<value_ints = [1]>()
    fine_size = Shape<start = 2>(x)
    fine_count = ReduceProd<keepdims = 1>(fine_size)
    fine_shape = Concat<axis = 0>(fine_count, one)
    fine = ConstantOfShape<value = float[1] {8.0}>(fine_shape)
    coarse_size = Shape<start = 2>(half)
    coarse_count = ReduceProd<keepdims = 1>(coarse_size)
    coarse_shape = Concat<axis = 0>(coarse_count, one)
    stride = Constant<value_float = 17.5>()
    coarse = Expand(stride, coarse_shape)
    strides = Concat<axis = 0>(fine, coarse)
    row = Transpose<perm = [1, 0]>(strides)
    y = Mul(cells, row)
}
"""
"""Strides of a detector's anchors, as torch's exporters write them."""


def written(folder: Path, text: str) -> Path:
    path = folder / "m.onnx"
    onnx.save(parser.parse_model(text), path)
    return path


def checked(path: Path, folder: Path, sizes: list[dict[str, int]], feeds: Any) -> Any:
    """What is made of a file, after runs at these sizes in both tiers."""
    made = import_any(path, folder / "w.bin", feeds(sizes[0]))
    assert made is not None
    session = onnxruntime.InferenceSession(path)
    for tier in TIERS:
        runner = OpenRunner(made.plan, made.kernels, folder / "w.bin", tier)
        for each in sizes:
            given = feeds(each)
            (expected,) = session.run(None, given)
            got = runner.run(each, given)["y"]
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5, err_msg=str(each))
    return made


def masked(sizes: dict[str, int]) -> dict[str, Any]:
    n, length = sizes["batch"], sizes["length"]
    x = RNG.standard_normal((n, 2, length, 4)).astype(np.float32)
    return {"mask": RNG.random((n, length)) < 0.7, "x": x}


def behind(sizes: dict[str, int]) -> dict[str, Any]:
    shapes = {"mask": (sizes["batch"], sizes["length"]), "held": (2, sizes["past"])}
    return {n: RNG.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def test_a_mask_read_by_an_index_grid_takes_any_batch_and_length(tmp_path: Path) -> None:
    sizes = [{"batch": n, "length": k} for n, k in ((2, 9), (1, 1), (1, 33), (5, 4), (7, 18))]
    made = checked(written(tmp_path, GRID), tmp_path, sizes, masked)
    assert made.notes == () and {d.name for d in made.plan.dims} == {"batch", "length"}


def test_positions_behind_a_past_end_with_their_table(tmp_path: Path) -> None:
    path = written(tmp_path, CAUSAL.replace("LENGTH", "5"))
    sizes = [{"batch": n, "length": 5, "past": p} for n, p in ((2, 9), (1, 1), (3, 22), (4, 35))]
    made = checked(path, tmp_path, sizes, behind)
    assert made.notes == () and {d.name: d.high for d in made.plan.dims}["past"] == 35


def test_of_two_lengths_that_share_the_rows_of_a_table_one_stays(tmp_path: Path) -> None:
    path = written(tmp_path, CAUSAL.replace("LENGTH", "length"))
    sizes = [{"batch": n, "length": k, "past": 9} for n, k in ((2, 5), (1, 1), (4, 31))]
    made = checked(path, tmp_path, sizes, behind)
    assert [note.partition(":")[0] for note in made.notes] == ["past stays 9"]


@pytest.mark.parametrize(("text", "step"), [(ANCHORS, 1), (STRIDES, 2)])
def test_anchors_take_any_height_and_width(tmp_path: Path, text: str, step: int) -> None:
    """A Range over a size that is a float, and equal floats joined along two numbers of cells."""

    def drawn(size: dict[str, int]) -> dict[str, Any]:
        shape = (size["n"], 3, size["height"], size["width"])
        return {"x": RNG.standard_normal(shape).astype(np.float32)}

    cells = ((1, 3, 4), (2, 5, 9), (1, 17, 3))
    sizes = [{"n": n, "height": h * step, "width": w * step} for n, h, w in cells]
    made = checked(written(tmp_path, text), tmp_path, sizes, drawn)
    steps = {d.name: d.step for d in made.plan.dims}
    assert made.notes == () and steps == {"n": 1, "height": step, "width": step}


def decoded(sizes: dict[str, int]) -> dict[str, Any]:
    n, past = sizes["rows"], sizes["past"]
    held = RNG.standard_normal((n, past, 4)).astype(np.float32)
    return {"mask": RNG.integers(0, 2, (n, past + 1)), "held": held}


@pytest.mark.parametrize("first", [9, 15])
def test_a_mask_over_a_past_and_one_more_is_a_sum(tmp_path: Path, first: int) -> None:
    """Its position is read from a table, and turned as a float."""
    sizes = [{"rows": n, "past": p} for n, p in ((1, first), (1, 1), (3, 22), (4, 29))]
    made = checked(written(tmp_path, STEP), tmp_path, sizes, decoded)
    assert made.notes == () and {d.name: d.high for d in made.plan.dims}["past"] == 29
    held = {port.name: port.shape[1].terms for port in made.plan.inputs}
    assert len(held["mask"]) == 2 and len(held["held"]) == 1


def test_arrays_are_made_for_a_mask_over_a_past(tmp_path: Path) -> None:
    made = made_arrays(written(tmp_path, STEP))
    assert made["mask"].shape[1] == made["held"].shape[1] + 1


@pytest.mark.parametrize("past", [1, 9])
def test_a_guessed_mask_is_no_longer_than_a_past_and_one_more(tmp_path: Path, past: int) -> None:
    """Where a longer one runs without any effect of its length."""
    text = STEP.replace("weights = Unsqueeze(shown, last)", """
        end = Shape<start = 1, end = 2>(keys)
        first = Constant<value_ints = [0]>()
        part = Slice(shown, first, end, axis)
        weights = Unsqueeze(part, last)
    """)  # fmt: skip
    text = text.replace("y = Mul(keys, weights)", """
        row = Transpose<perm = [0, 2, 1]>(weights)
        total = MatMul(row, keys)
        y = Add(keys, total)
    """)  # fmt: skip
    feeds = decoded({"rows": 2, "past": past})
    made = fitting(written(tmp_path, text), {**feeds, "mask": np.ones((2, 29), np.int64)})
    assert made["mask"].shape == (2, past + 1)


def test_a_run_at_several_sizes_is_one_import_too(tmp_path: Path) -> None:
    inputs = [masked({"batch": n, "length": k}) for n, k in ((2, 9), (3, 17), (1, 5))]
    many = import_sizes(written(tmp_path, GRID), tmp_path / "w.bin", inputs)
    assert many.notes == ()
    assert len({tuple(step.node for step in m.plan.steps) for m in many.models}) == 1


def test_a_sum_of_what_is_replaced_is_a_sum_of_the_others() -> None:
    inputs = {"mask": ("n", Sum(("past", "own"), 1)), "x": ("past", "own")}
    made = replaced(inputs, {"past": Sum(("a",), 2), "own": "b", "n": "m"})
    assert made == {"mask": ("m", Sum(("a", "b"), 3)), "x": (Sum(("a",), 2), "b")}


FILLED = """
<ir_version: 9, opset_import: ["" : 17]>
g (float[batch, length] x) => (float[batch, length] y, int64[batch] lengths, float[length] ones)
{
    y = Relu(x)
    many = Shape<start = 0, end = 1>(x)
    lengths = ConstantOfShape<value = int64[1] {3000}>(many)
    wide = Shape<start = 1>(x)
    ones = ConstantOfShape<value = float[1] {1.5}>(wide)
}
"""


def test_an_output_that_is_one_number_for_each_element_takes_any_batch(tmp_path: Path) -> None:
    """As preprocessors of speech tell a length that is the same for all."""
    path = written(tmp_path, FILLED)
    made = import_any(path, tmp_path / "w.bin", {"x": np.ones((2, 9), np.float32)})
    assert made is not None and made.notes == ()
    runner = OpenRunner(made.plan, made.kernels, tmp_path / "w.bin", TIERS[0])
    for n, k in ((1, 1), (3, 17), (5, 2)):
        got = runner.run({"batch": n, "length": k}, {"x": np.ones((n, k), np.float32)})
        assert got["lengths"].tolist() == [3000] * n and got["ones"].tolist() == [1.5] * k
