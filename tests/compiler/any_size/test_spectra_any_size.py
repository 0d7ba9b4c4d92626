"""Spectra of signals of any length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import helper, numpy_helper
from onnx_models import save
from test_counted import checked

RNG = np.random.default_rng(7)


def test_frames_of_a_spectrum_follow_any_number_of_samples(tmp_path: Path) -> None:
    """Behind a padding that is more than what shapes usually add."""
    weights = {
        "around": np.array([0, 100, 0, 100]),
        "step": np.array(40),
        "window": np.hanning(96).astype(np.float32),
        "bands": RNG.random((49, 6)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Pad", ["x", "around"], ["padded"], mode="reflect"),
        helper.make_node("STFT", ["padded", "step", "window"], ["spectrum"]),
        helper.make_node("ReduceSumSquare", ["spectrum"], ["power"], axes=[-1], keepdims=0),
        helper.make_node("MatMul", ["power", "bands"], ["y"]),
    ]
    held = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["b", "n"]}, {"y": ["b", None, 6]}, held)

    def feeds(sizes: dict[str, int]) -> dict[str, np.ndarray]:
        return {"x": RNG.standard_normal((sizes["b"], sizes["n"])).astype(np.float32)}

    sizes = [{"b": 1, "n": 101}, {"b": 2, "n": 160}, {"b": 3, "n": 999}, {"b": 1, "n": 4001}]
    made = checked(path, tmp_path, [{"b": 1, "n": 700}, *sizes], feeds)
    assert made.notes == ()
    assert {d.name: (d.low, d.step) for d in made.plan.dims} == {"b": (1, 1), "n": (101, 1)}
