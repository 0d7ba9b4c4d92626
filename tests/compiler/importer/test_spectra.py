"""What follows a spectrum knows its shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
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


@pytest.mark.parametrize("parts", [3, 200])
def test_a_scan_that_makes_frames_is_one_look_up(parts: int, tmp_path: Path) -> None:
    """More parts than are laid out, each behind the end of the frame before."""

    def info(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    inner = [
        helper.make_node("Concat", ["before", "part"], ["frame"], axis=-1),
        helper.make_node("Slice", ["frame", "new", "end", "axis", "axis"], ["next"]),
    ]
    states, given = [info("next", 2, 5), info("frame", 2, 9)], [info("before", 2, 5)]
    body = helper.make_graph(inner, "body", [*given, info("part", 2, 4)], states)
    held = {"new": np.array([4]), "end": np.array([2**63 - 1]), "axis": np.array([1])}
    axes = {"num_scan_inputs": 1, "scan_input_axes": [1], "scan_output_axes": [1]}
    node = helper.make_node("Scan", ["x", "y"], ["last", "frames"], body=body, **axes)
    ports = {"x": [2, 5], "y": [2, parts, 4]}, {"last": [2, 5], "frames": [2, parts, 9]}
    path = save(tmp_path / "m.onnx", [node], *ports, held)
    rng = np.random.default_rng(0)
    feeds = {n: rng.standard_normal(s).astype(np.float32) for n, s in ports[0].items()}
    built = import_model(path, tmp_path / "w.bin")
    got = run_by_kernels(built, tmp_path / "w.bin", feeds, "simd128")
    for name, expected in zip(ports[1], native_session(path).run(None, feeds), strict=True):
        np.testing.assert_array_equal(got[name], expected)
