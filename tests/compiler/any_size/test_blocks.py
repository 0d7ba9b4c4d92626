"""Kernels of one axis, whose elements several threads share in blocks that small sizes lack."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper
from onnx_models import save

from nnjit_studio.compiler.any_size.imports import import_any
from nnjit_studio.compiler.any_size.runs.runner import OpenRunner
from nnjit_studio.records import TIERS


def test_elements_of_all_blocks_are_computed(tmp_path: Path) -> None:
    # Steps of 32, so that a map of a 16th by a 16th has few elements at all sizes that are drawn.
    pool = {"kernel_shape": [16, 16], "strides": [16, 16]}
    nodes = [
        helper.make_node("AveragePool", ["x"], ["small"], **pool),
        helper.make_node("Shape", ["small"], ["shape"], start=2),
        helper.make_node("ReduceProd", ["shape"], ["count"], keepdims=0),
        helper.make_node("Range", ["zero", "count", "one"], ["steps"]),
        helper.make_node("Cast", ["steps"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["small", "flat"], ["row"]),
        helper.make_node("Add", ["row", "floats"], ["y"]),
    ]
    path = save(
        tmp_path / "m.onnx",
        nodes,
        {"x": [1, 1, "height", "width"]},
        {"y": ["n"]},
        {"zero": np.array(0), "one": np.array(1), "flat": np.array([-1])},
    )
    example = {"x": np.ones((1, 1, 64, 96), np.float32)}
    built = import_any(path, tmp_path / "w.bin", example)
    assert built is not None
    x = np.ones((1, 1, 640, 704), np.float32)
    for tier in TIERS:
        runner = OpenRunner(built.plan, built.kernels, tmp_path / "w.bin", tier)
        got = runner.run({"height": 640, "width": 704}, {"x": x})["y"]
        np.testing.assert_allclose(got, 1 + np.arange(40 * 44), rtol=1e-6)
