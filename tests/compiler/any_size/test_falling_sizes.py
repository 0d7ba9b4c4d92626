"""Loops that have fewer turns the larger an input is: places of a template in a map of one size."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from onnx_models import save

from nnjit_studio.compiler.any_size.imports import import_any
from nnjit_studio.compiler.any_size.kernels.drawn import Drawing
from nnjit_studio.compiler.any_size.probe import probe
from nnjit_studio.compiler.any_size.runs.runner import OpenRunner
from nnjit_studio.compiler.any_size.runs.trial import Trial
from nnjit_studio.errors import ModelError
from nnjit_studio.model.size import Dim, size
from nnjit_studio.records import TIERS


def matcher(folder: Path, places: int) -> Path:
    """How well a template fits at each place of a map."""
    return save(
        folder / "m.onnx",
        [
            helper.make_node("Relu", ["template"], ["t"]),
            helper.make_node("Conv", ["map", "t"], ["y"]),
        ],
        {"map": [1, 2, 1, places], "template": [1, 2, 1, "width"]},
        {"y": [1, 1, 1, "left"]},
        {},
    )


def feeds(places: int, width: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(width)
    shapes = {"map": (1, 2, 1, places), "template": (1, 2, 1, width)}
    return {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}


def test_a_dimension_ends_where_nothing_is_left(tmp_path: Path) -> None:
    path, given = matcher(tmp_path, 48), feeds(48, 16)
    (dim,) = probe(Trial(path, given), given).dims
    assert (dim.low, dim.high) == (1, 48)


def test_sizes_are_drawn_at_which_every_loop_runs() -> None:
    width = Dim("width", 1, 300)
    left = size(301) - size(width)
    drawn = list(itertools.islice(Drawing((width,), (left, size(width))).sizes([]), 6))
    assert len(drawn) == 6
    assert all(left.at(sizes) > 0 for sizes in drawn)


def test_a_template_of_any_width(tmp_path: Path) -> None:
    path = matcher(tmp_path, 300)
    built = import_any(path, tmp_path / "w.bin", feeds(300, 16))
    assert built is not None
    assert [(dim.low, dim.high) for dim in built.plan.dims] == [(1, 300)]
    session = onnxruntime.InferenceSession(path)
    for tier in TIERS:
        runner = OpenRunner(built.plan, built.kernels, tmp_path / "w.bin", tier)
        for width in (1, 7, 64, 161, 299, 300):
            given = feeds(300, width)
            got = runner.run({"width": width}, given)["y"]
            np.testing.assert_allclose(got, session.run(None, given)[0], rtol=1e-4, atol=1e-4)


def test_a_map_without_room_for_the_loops_is_refused_at_once(tmp_path: Path) -> None:
    # It went on looking for a width at which both loops have all of their parts.
    with pytest.raises(ModelError, match="changes with its sizes"):
        import_any(matcher(tmp_path, 20), tmp_path / "w.bin", feeds(20, 8))
