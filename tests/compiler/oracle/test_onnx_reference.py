"""Any tensor of a model by native ONNX Runtime, in the compile process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from onnx_models import mlp, save

from nnjit_studio.compiler.oracle.onnx_reference import OnnxReference
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.process.table import OPERATIONS
from nnjit_studio.errors import ModelError, UserError


@pytest.fixture(scope="module")
def compiler() -> Iterator[CompileProcess]:
    process = CompileProcess()
    yield process
    process.close()


def test_inner_tensors_can_be_asked_for(compiler: CompileProcess, tmp_path: Path) -> None:
    nodes = compiler.open_reference(mlp(tmp_path / "m.onnx"))
    assert nodes[0] == ("first", ("m1",))
    assert [name for name, _ in nodes][-1] == "softmax"
    x = np.ones((5, 6), np.float32)
    found = compiler.reference_tensors({"x": x}, ["r1", "a1", "y"])
    np.testing.assert_array_equal(found["r1"], np.maximum(found["a1"], 0))
    np.testing.assert_allclose(found["y"].sum(axis=1), np.ones(5), rtol=1e-6)


def test_threads_that_wait_cost_no_processor_time(tmp_path: Path) -> None:
    """They counted as time without progress: a network was ended at its first larger batch."""
    options = OnnxReference(mlp(tmp_path / "m.onnx"))._session.get_session_options()
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_an_inner_tensor_can_be_fed(compiler: CompileProcess, tmp_path: Path) -> None:
    compiler.open_reference(mlp(tmp_path / "m.onnx"))
    x = np.ones((5, 6), np.float32)
    r1 = compiler.reference_tensors({"x": x}, ["r1"])["r1"]
    found = compiler.reference_tensors({"x": x, "r1": 0 * r1}, ["y"])
    again = compiler.reference_tensors({"x": 7 * x, "r1": 0 * r1}, ["y"])
    np.testing.assert_array_equal(found["y"], again["y"])
    assert (found["y"] != compiler.reference_tensors({"x": x}, ["y"])["y"]).any()


def test_what_onnx_runtime_refuses_is_one_sentence(
    compiler: CompileProcess, tmp_path: Path
) -> None:
    compiler.open_reference(mlp(tmp_path / "m.onnx"))
    with pytest.raises(UserError, match=r"Native ONNX Runtime cannot run the model: .*dimensions"):
        compiler.reference_tensors({"x": np.ones((7, 6), np.float32)}, ["y"])
    foreign = [helper.make_node("Nothing", ["x"], ["y"], domain="com.microsoft")]
    with pytest.raises((ModelError, UserError)):
        compiler.open_reference(save(tmp_path / "f.onnx", foreign, {"x": [1]}, {"y": [1]}))
    with pytest.raises(UserError, match="ended"):
        compiler.reference_tensors({"x": np.ones((5, 6), np.float32)}, ["y"])


def test_a_process_that_died_says_so(compiler: CompileProcess, tmp_path: Path) -> None:
    compiler.open_reference(mlp(tmp_path / "m.onnx"))
    compiler.kill()
    with pytest.raises(UserError, match="ended"):
        compiler.reference_tensors({"x": np.ones((5, 6), np.float32)}, ["y"])


def test_a_run_that_never_ends_is_the_models_fault(
    compiler: CompileProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler.open_reference(mlp(tmp_path / "m.onnx"))
    child = compiler._child.process
    assert child is not None and child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)  # it will not answer, however fast it is
    for name in ("reference_tensors", "open_reference"):
        row = replace(OPERATIONS[name], timeout_s=0.0)
        monkeypatch.setitem(OPERATIONS, name, row)
    with pytest.raises(ModelError, match=r"The run in native ONNX Runtime ended: no answer"):
        compiler.reference_tensors({"x": np.ones((5, 6), np.float32)}, ["y"])
    with pytest.raises(ModelError, match=r"Opening 'm.onnx' in native ONNX Runtime ended"):
        compiler.open_reference(tmp_path / "m.onnx")
