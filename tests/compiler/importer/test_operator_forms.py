"""Forms of ONNX operators that the converters of the importer take wrongly or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from operator_cases import Case, all_cases, case, draw, i64
from operator_table import RUNS, status


def resizes() -> Iterator[Case]:
    image, none = draw("f32", 1, 2, 5, 7), np.zeros(0, np.float32)
    for mode in ("nearest", "linear", "cubic"):
        for how in ("half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric"):
            scales = np.array([1, 1, 0.75, 1.25], np.float32)
            yield case(
                "Resize", "f32", image, none, scales, weights=(1, 2), opset=19,
                variant=f"{mode} {how}", mode=mode, coordinate_transformation_mode=how,
            )  # fmt: skip
        if mode != "nearest":
            yield case(
                "Resize", "f32", image, none, none, i64(1, 2, 2, 3), weights=(1, 2, 3), opset=19,
                variant=f"{mode} antialias", mode=mode, antialias=1,
            )  # fmt: skip
    scales = np.array([1, 1, 0.8, 0.6], np.float32)
    yield case(
        "Resize", "f32", image, none, scales, weights=(1, 2), variant="exclude outside",
        mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5,
    )  # fmt: skip
    for policy in ("not_larger", "not_smaller"):
        yield case(
            "Resize", "f32", image, none, none, i64(7, 8), weights=(1, 2, 3), opset=19,
            variant=policy, axes=[2, 3], keep_aspect_ratio_policy=policy,
        )  # fmt: skip
    last = draw("f32", 1, 4, 5, 3)
    scales = np.array([1, 2, 2, 1], np.float32)
    yield case("Resize", "f32", last, none, scales, weights=(1, 2), variant="channels last")
    for mode in ("nearest", "linear"):
        scales = np.array([1, 1, 2, 1.5], np.float32)
        yield case("Resize", "f32", image, scales, weights=(1,), opset=10, variant=mode, mode=mode)
        yield case("Upsample", "f32", image, scales, weights=(1,), opset=9, variant=mode, mode=mode)
    held = [1.0, 1.0, 2.0, 3.0]
    yield case("Upsample", "f32", image, opset=8, variant="attribute", scales=held)


def transposed() -> Iterator[Case]:
    x, w = draw("f32", 1, 2, 3, 4), draw("f32", 2, 3, 3, 3, seed=1)
    for auto in ("NOTSET", "SAME_UPPER", "SAME_LOWER"):
        for size in ([10, 8], [8, 7], [5, 7]):
            yield case(
                "ConvTranspose", "f32", x, w, weights=(1,), variant=f"{auto} {size}",
                auto_pad=auto, output_shape=size, strides=[3, 2], kernel_shape=[3, 3],
            )  # fmt: skip
    grouped = draw("f32", 2, 2, 3, 3, seed=1)
    yield case(
        "ConvTranspose", "f32", x, grouped, weights=(1,), variant="grouped", group=2,
        output_shape=[5, 7], strides=[2, 2],
    )  # fmt: skip


def statistics() -> Iterator[Case]:
    x = draw("f32", 3, 4, 5)
    for axis in (-1, 1):
        shape = x.shape[axis:]
        given = (x, draw("f32", *shape, seed=1), draw("f32", *shape, seed=2))
        yield case(
            "LayerNormalization", "f32", *given, weights=(1, 2), outputs=3, axis=axis,
            variant=f"axis {axis}",
        )  # fmt: skip
    parts = [draw("f32", 4, low=0.1, seed=s) for s in range(4)]
    yield case("BatchNormalization", "f32", x, *parts, outputs=3, training_mode=1)
    yield case("Dropout", "f32", np.array([[1, np.nan, np.inf]], np.float32), outputs=2)
    rows = np.array([[1, 2, 2], [0, 0, 0]], np.float32)
    for p in (1, 2):
        yield case("LpNormalization", "f32", rows, p=p, variant=f"zeros {p}")


CASES = [c for group in (resizes, transposed, statistics) for c in group()]


@pytest.mark.parametrize("given", CASES, ids=[c.name for c in CASES])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_it_runs_and_is_right(given: Case, tmp_path: Path) -> None:
    assert status(given, tmp_path) == RUNS
