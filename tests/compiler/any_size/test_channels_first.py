"""Attention whose channels come first, as in detectors: one open size is columns and reduction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from test_counted import RNG, checked, written

SHARED = """
<ir_version: 9, opset_import: ["" : 17]>
g (float[batch, 8, cells] v, float[batch, cells, cells] shares) => (float[batch, 8, cells] y)
{
    back = Transpose<perm = [0, 2, 1]>(shares)
    y = MatMul(v, back)
}
"""


def test_values_by_shares_take_any_batch_and_map(tmp_path: Path) -> None:
    def drawn(sizes: dict[str, int]) -> dict[str, Any]:
        n, k = sizes["batch"], sizes["cells"]
        shapes = {"v": (n, 8, k), "shares": (n, k, k)}
        return {name: RNG.standard_normal(s).astype(np.float32) for name, s in shapes.items()}

    sizes = [{"batch": n, "cells": k} for n, k in ((1, 25), (3, 7), (2, 36), (1, 1), (2, 61))]
    made = checked(written(tmp_path, SHARED), tmp_path, sizes, drawn)
    assert made.notes == () and {d.name for d in made.plan.dims} == {"batch", "cells"}
