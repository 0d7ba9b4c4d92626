"""Scales of maps whose corners stay in place: quotients of two sizes, each less one."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from test_counted import RNG, checked, written

from nnjit_studio.compiler.any_size.formulas.fit import Numbers
from nnjit_studio.model.open_plan import OpenPlan, Scalar
from nnjit_studio.model.size import Dim, size

_CORNERS = 'mode = "linear", coordinate_transformation_mode = "align_corners"'
DECODER = f"""
<ir_version: 9, opset_import: ["" : 17]>
g (float[1, 2, height, width] x) => (float[1, 2, height, width] y)
{{
    half = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)
    own = Shape<start = 0, end = 2>(x)
    wide = Shape<start = 2>(x)
    to = Concat<axis = 0>(own, wide)
    whole = Resize<{_CORNERS}>(half, "", "", to)
    y = Add(whole, x)
}}
"""


def test_a_quotient_of_two_sizes_is_found_and_passed() -> None:
    h, w = size(Dim("h", 1, 1000, 1)), size(Dim("w", 1, 1000, 1))
    at = [(3, 8), (90, 21), (45, 60), (7, 33)]
    atoms = {tuple(a for a, _ in at): h, tuple(b for _, b in at): w}
    scales = [float(np.float32((b - 1) / a)) for a, b in at]
    assert Numbers(atoms).quotient(scales) == (w - 1, h)
    assert Numbers(atoms).quotient([*scales[:3], scales[3] * 1.000001]) is None


def test_a_quotient_by_nothing_is_nothing() -> None:
    h = size(Dim("h", 1, 1000, 1))
    scale = Scalar("quotient", h, h - 3)
    passed = (struct.unpack("<f", struct.pack("<i", scale.at({"h": n})))[0] for n in (3, 5))
    assert tuple(passed) == (0, 2.5)
    assert Scalar("inverse", h - 3).at({"h": 3}) == 0


def test_corners_stay_in_place_at_any_size(tmp_path: Path) -> None:
    def drawn(sizes: dict[str, int]) -> dict[str, Any]:
        shape = (1, 2, sizes["height"], sizes["width"])
        return {"x": RNG.standard_normal(shape).astype(np.float32)}

    sizes = [{"height": h, "width": w} for h, w in ((6, 9), (2, 3), (21, 8), (17, 40))]
    made = checked(written(tmp_path, DECODER), tmp_path, sizes, drawn)
    assert made.notes == () and {d.name for d in made.plan.dims} == {"height", "width"}
    assert OpenPlan.from_json(made.plan.to_json()) == made.plan
