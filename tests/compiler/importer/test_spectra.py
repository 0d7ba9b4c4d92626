"""What follows a spectrum knows its shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx_models import save
from run_plan import run_by_kernels

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.onnx_file.native import native_session


def test_a_range_over_frames_of_a_one_sided_spectrum(tmp_path: Path) -> None:
    """ONNX's inference takes both sides where the file does not say; ours had no shape then."""
    rng = np.random.default_rng(0)
    weights = {
        "step": np.int64(10),
        "window": np.hanning(32).astype(np.float32),
        "bands": rng.random((17, 4)).astype(np.float32),
        "start": np.int64(0),
        "one": np.int64(1),
        "axes": np.array([0], np.int64),
        "behind": np.array([-1], np.int64),
    }
    nodes = [
        helper.make_node("STFT", ["x", "step", "window"], ["spectrum"]),
        helper.make_node("ReduceSumSquare", ["spectrum"], ["power"], axes=[-1], keepdims=0),
        helper.make_node("MatMul", ["power", "bands"], ["found"]),
        helper.make_node("Shape", ["found"], ["size"], start=1, end=2),
        helper.make_node("Squeeze", ["size", "axes"], ["frames"]),
        helper.make_node("Range", ["start", "frames", "one"], ["places"]),
        helper.make_node("Cast", ["places"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["numbers", "behind"], ["column"]),
        helper.make_node("Add", ["found", "column"], ["y"]),
    ]
    held = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    path = save(tmp_path / "m.onnx", nodes, {"x": [2, 100]}, {"y": [2, None, 4]}, held)
    x = rng.standard_normal((2, 100)).astype(np.float32)
    built = import_model(path, tmp_path / "w.bin")
    got = run_by_kernels(built, tmp_path / "w.bin", {"x": x}, "simd128")["y"]
    (expected,) = native_session(path).run(None, {"x": x})
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)
