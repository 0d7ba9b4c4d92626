"""MaxPool with the places of the largest, pads that begin on the lower side, running products."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from operator_cases import Case, case, draw
from operator_table import RUNS, status

PADS = {
    "": {},
    "pads": {"strides": [2, 2], "pads": [1, 1, 0, 1]},
    "ceil": {"strides": [2, 2], "ceil_mode": 1},
    "gaps": {"dilations": [2, 2], "storage_order": 1},
    "upper": {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    "lower": {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
    "valid": {"strides": [2, 2], "auto_pad": "VALID"},
}


def places() -> Iterator[Case]:
    for name, options in PADS.items():
        for dtype in ("f32", "u8"):
            x = draw(dtype, 2, 3, 9, 7, low=-2, high=2)
            yield case(
                "MaxPool", dtype, x, outputs=2, variant=name, opset=17, kernel_shape=[3, 2],
                **options,
            )  # fmt: skip
    line, block = draw("f32", 1, 2, 11), draw("f32", 1, 2, 5, 6, 7)
    yield case("MaxPool", "f32", line, outputs=2, variant="1d", kernel_shape=[3], strides=[2])
    for order in (0, 1):
        yield case(
            "MaxPool", "f32", block, outputs=2, variant=f"3d {order}", kernel_shape=[2, 2, 2],
            strides=[1, 2, 2], storage_order=order,
        )  # fmt: skip


def lower() -> Iterator[Case]:
    for kernel in ([3, 2], [2, 2], [1, 1]):
        for op in ("MaxPool", "AveragePool"):
            yield case(
                op, "f32", draw("f32", 2, 3, 9, 7), variant=f"lower {kernel}", opset=17,
                kernel_shape=kernel, strides=[2, 2], auto_pad="SAME_LOWER",
            )  # fmt: skip


def gaps() -> Iterator[Case]:
    """Strides so much longer than the kernel that the windows leave out an end."""
    for auto in ("SAME_UPPER", "SAME_LOWER"):
        yield case(
            "LpPool", "f32", draw("f32", 1, 2, 6, 10), variant=f"gaps {auto}", opset=18,
            kernel_shape=[1, 1], strides=[3, 5], auto_pad=auto,
        )  # fmt: skip


def products() -> Iterator[Case]:
    for options in ({}, {"exclusive": 1}, {"reverse": 1}, {"reverse": 1, "exclusive": 1}):
        for dtype in ("f32", "i64"):
            for axis in (0, -1):
                x, along = draw(dtype, 3, 5), np.array(axis, np.int64)
                variant = f"{axis} {' '.join(options)}"
                yield case(
                    "CumProd", dtype, x, along, weights=(1,), variant=variant, opset=26, **options
                )


@pytest.mark.parametrize("made", [*places(), *lower(), *gaps(), *products()], ids=lambda c: c.name)
def test_a_form_is_right(made: Case, tmp_path: Path) -> None:
    assert status(made, tmp_path) == RUNS
