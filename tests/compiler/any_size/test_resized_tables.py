"""Tables that are resized to the image, as positions of a vision transformer are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_counted import RNG, checked, written

from nnjit_studio.compiler.any_size.formulas.fit import Numbers
from nnjit_studio.model.size import Dim, size

POSITIONS = """
<ir_version: 9, opset_import: ["" : 18]>
g (float[batch, 4, height, width] x) => (float[batch, 4, high, wide] y)
<float[1, 4, ROWS, COLUMNS] table = {VALUES}>
{
    maps = MaxPool<kernel_shape = [STEP, STEP], strides = [STEP, STEP]>(x)
    own = Shape<start = 2, end = 4>(maps)
    some = Shape<start = 0, end = 2>(table)
    to = Concat<axis = 0>(some, own)
    resized = Resize<MODE>(table, "", "", to)
    y = Add(maps, resized)
}
"""
CUBIC = 'mode = "cubic", coordinate_transformation_mode = "half_pixel"'


def positions(rows: int, columns: int, step: int, mode: str) -> str:
    values = ", ".join(f"{(7 * n) % 11 / 11:.3f}" for n in range(4 * rows * columns))
    words = {"ROWS": rows, "COLUMNS": columns, "VALUES": values, "STEP": step, "MODE": mode}
    text = POSITIONS
    for word, value in words.items():
        text = text.replace(word, str(value))
    return text


def drawn(sizes: dict[str, int]) -> dict[str, Any]:
    shape = (sizes["batch"], 4, sizes["height"], sizes["width"])
    return {"x": RNG.standard_normal(shape).astype(np.float32)}


def test_a_table_is_resized_at_run_time(tmp_path: Path) -> None:
    path = written(tmp_path, positions(3, 5, 2, CUBIC))
    at = [(1, 12, 18), (2, 7, 9), (1, 31, 10)]
    sizes = [{"batch": b, "height": h, "width": w} for b, h, w in at]
    made = checked(path, tmp_path, sizes, drawn)
    assert made.notes == () and {d.name for d in made.plan.dims} == {"batch", "height", "width"}


def test_a_table_that_is_resized_along_named_axes_keeps_height_and_width(tmp_path: Path) -> None:
    text = positions(3, 5, 2, CUBIC + ", axes = [2, 3]").replace(
        'table, "", "", to', 'table, "", "", own'
    )
    sizes = [{"batch": batch, "height": 12, "width": 18} for batch in (1, 3)]
    made = checked(written(tmp_path, text), tmp_path, sizes, drawn)
    assert sorted(n.partition(":")[0] for n in made.notes) == ["height stays 12", "width stays 18"]


def test_a_number_over_a_size_is_a_quotient() -> None:
    h = size(Dim("h", 1, 1000, 1))
    at = [3, 90, 45, 7]
    scales = [float(np.float32(37 / n)) for n in at]
    assert Numbers({tuple(at): h}).quotient(scales) == (size(37), h)
    assert Numbers({tuple(at): h}).quotient([*scales[:3], scales[3] * 1.000001]) is None


PYRAMID = """
<ir_version: 9, opset_import: ["" : 17]>
g (float[n, 1, h, w] x) => (float[n, 1, high, wide] y)
<float[1, 1, 3, 3] k = {1, 2, 3, 4, 5, 6, 7, 8, 9}>
{
    fine = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(x, k)
    coarse = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(fine, k)
    size = Shape<start = 2>(fine)
    some = Shape<start = 0, end = 2>(fine)
    to = Concat<axis = 0>(some, size)
    large = Resize<mode = "nearest", nearest_mode = "floor",
        coordinate_transformation_mode = "asymmetric">(coarse, "", "", to)
    y = Add(fine, large)
}
"""


def test_a_map_is_resized_to_another_that_is_twice_as_large_or_one_less(tmp_path: Path) -> None:
    """As a detector's pyramid is: the importer's own code of exactly twice is another one."""
    at = [(1, 40, 60), (2, 41, 62), (1, 43, 58), (1, 64, 96), (3, 66, 45)]
    sizes = [{"n": n, "h": h, "w": w} for n, h, w in at]

    def image(size: dict[str, int]) -> dict[str, Any]:
        drawn = RNG.standard_normal((size["n"], 1, size["h"], size["w"]))
        return {
            "x": (0.1 * drawn).astype(np.float32)
        }  # or sums reach 200, of which 1e-5 is no step

    made = checked(written(tmp_path, PYRAMID), tmp_path, sizes, image)
    assert made.notes == () and {d.name: d.step for d in made.plan.dims} == {"n": 1, "h": 1, "w": 1}


OTHER = """
<ir_version: 9, opset_import: ["" : 17]>
g (float[n, 2, h, w] x, float[n, 2, high, wide] other) => (float[n, 2, high, wide] y)
{
    some = Shape<start = 0, end = 2>(x)
    size = Shape<start = 2>(other)
    to = Concat<axis = 0>(some, size)
    resized = Resize<MODE>(x, "", "", to)
    y = Add(resized, other)
}
"""


@pytest.mark.parametrize(
    ("how", "nearest"),
    [
        ("asymmetric", "floor"), ("asymmetric", "ceil"), ("half_pixel", "round_prefer_floor"),
        ("tf_half_pixel_for_nn", "floor"), ("half_pixel", "round_prefer_ceil"),
    ],
)  # fmt: skip
def test_places_are_those_of_a_scale_that_is_rounded_to_float32(
    tmp_path: Path, how: str, nearest: str
) -> None:
    """Where it decides: in 2 of 48 rows that are made of 21, in 1 of 90 columns of 35."""
    mode = f'mode = "nearest", nearest_mode = "{nearest}", coordinate_transformation_mode = "{how}"'
    names = ("n", "h", "w", "high", "wide")
    at = [(1, 21, 35, 48, 90), (2, 47, 49, 141, 98), (1, 43, 11, 172, 132), (1, 38, 60, 65, 7)]

    def maps(size: dict[str, int]) -> dict[str, Any]:
        n, h, w, high, wide = size.values()
        x = RNG.standard_normal((n, 2, h, w)).astype(np.float32)
        return {"x": x, "other": np.zeros((n, 2, high, wide), np.float32)}

    sizes = [dict(zip(names, each, strict=True)) for each in at]
    made = checked(written(tmp_path, OTHER.replace("MODE", mode)), tmp_path, sizes, maps)
    assert made.notes == () and {d.name for d in made.plan.dims} == {*names}
