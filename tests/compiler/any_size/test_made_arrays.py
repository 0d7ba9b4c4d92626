"""Arrays that are made up where nobody gives any."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import helper
from onnx_models import save
from test_strides import drawn

from nnjit_studio.compiler.any_size.arrays import lighter, made_arrays
from nnjit_studio.compiler.any_size.imports import import_any


def test_a_network_that_takes_four_at_a_time_gets_four(tmp_path: Path) -> None:
    """As ICLabelNet, which had no bundle without --inputs."""
    nodes = [
        helper.make_node("Reshape", ["x", "four"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["y"]),
    ]
    held = {"four": np.array([-1, 12]), "w": drawn(12, 5)}
    path = save(tmp_path / "m.onnx", nodes, {"x": ["n", 3]}, {"y": [None, 5]}, held)
    assert made_arrays(path)["x"].shape == (4, 3)
    made = import_any(path, tmp_path / "w.bin")
    assert made is not None and [d.text for d in made.plan.dims] == ["4 or more, a multiple of 4"]


def picture(path: Path, least: int = 1) -> Path:
    """Runs from so many pixels on."""
    nodes = [helper.make_node("Conv", ["x", "v"], ["y"], strides=[2, 2])]
    inputs, outputs = {"x": ["n", 3, "h", "w"]}, {"y": [None, 4, None, None]}
    return save(path / "m.onnx", nodes, inputs, outputs, {"v": drawn(4, 3, least, least)})


def test_large_pictures_that_nobody_gave_are_made_smaller(tmp_path: Path) -> None:
    """1280 pixels, as YOLO's file notes them, were run fifty times; the example stays so large."""
    feeds = {"x": np.ones((1, 3, 640, 1280), np.float32)}
    path = picture(tmp_path)
    assert lighter(path, feeds)["x"].shape == (1, 3, 224, 224)
    small = {"x": np.ones((1, 3, 320, 48), np.float32)}
    assert lighter(path, small) is small
    made = import_any(path, tmp_path / "w.bin", feeds, guessed=True)
    assert made is not None and made.plan.example == {"n": 1, "h": 640, "w": 1280}
    assert lighter(picture(tmp_path, 300), feeds) is feeds
