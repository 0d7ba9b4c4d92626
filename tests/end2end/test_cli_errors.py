"""Bad input at the command line: one sentence, exit 1, nothing lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from nnjit_command import SANDBOX, nnjit, nnjit_here
from onnx import helper

sys.path.insert(0, str(Path(__file__).parents[1] / "compiler"))
from onnx_models import mlp, save


def bad_models(folder: Path) -> dict[str, tuple[Path, str]]:
    text = folder / "text.onnx"
    text.write_text("hello")
    whole = mlp(folder / "whole.onnx").read_bytes()
    cut = folder / "cut.onnx"
    cut.write_bytes(whole[: len(whole) // 2])
    outside = folder / "outside.onnx"
    onnx.save(
        onnx.load(str(folder / "whole.onnx")),
        str(outside),
        save_as_external_data=True,
        location="w.data",
        size_threshold=0,
    )
    missing = folder / "missing.onnx"
    missing.write_bytes(outside.read_bytes())
    model = onnx.load(str(outside), load_external_data=False)
    for tensor in model.graph.initializer:
        tensor.external_data[0].value = "../w.data"
    outside.write_bytes(model.SerializeToString())
    (folder / "w.data").unlink()
    nodes = [helper.make_node("Det", ["x"], ["y"], "determinant")]
    unsupported = save(folder / "det.onnx", nodes, {"x": [2, 13, 13]}, {"y": [2]})
    return {
        "text": (text, "not an ONNX model"),
        "truncated": (cut, ""),
        "missing data": (missing, "missing"),
        "outside": (outside, "outside the model's folder"),
        "operator": (unsupported, "Det of node 'determinant'"),
        "absent": (folder / "absent.onnx", "There is no file"),
    }


Refused = tuple[subprocess.CompletedProcess[str], str, Path]


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Refused]:
    """How each bad model ends over an older bundle."""
    folder = tmp_path_factory.mktemp("bad")
    models = bad_models(folder)

    def export(case: str) -> Refused:
        path, expected = models[case]
        out = folder / f"{case}.zip"
        out.write_bytes(b"an older bundle")
        database = folder / f"{case}.db"
        result = nnjit_here("export", path, "-o", out, "--json", "--database", database)
        return result, expected, out

    return {case: export(case) for case in models}


@pytest.mark.parametrize(
    "case",
    ["text", "truncated", "missing data", "outside", "operator", "absent"],
)
def test_bad_model(refused: dict[str, Refused], case: str) -> None:
    result, expected, out = refused[case]
    assert result.returncode == 1, result.stderr
    error = json.loads(result.stdout)
    assert error["ok"] is False and error["kind"] == "user"
    assert expected in error["error"]
    assert error["hint"]
    assert out.read_bytes() == b"an older bundle"


@pytest.mark.embedded
def test_wrong_inputs_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.zeros((4, 6), np.float32))
    result = nnjit(
        "run", mlp(tmp_path / "m.onnx"), "--inputs", tmp_path / "in.npz", "--json",
        "--outputs", tmp_path / "out.npz", "--database", tmp_path / "k.db", *SANDBOX,
    )  # fmt: skip
    assert result.returncode == 1
    error = json.loads(result.stdout)
    assert "'x'" in error["error"] and "5" in error["error"]
    assert not (tmp_path / "out.npz").exists()


def test_foreign_database_is_left_alone(tmp_path: Path) -> None:
    database = tmp_path / "notes.db"
    database.write_text("my notes, not a database")
    result = nnjit_here("db", "list", "--json", "--database", database)
    assert result.returncode == 1
    assert json.loads(result.stdout)["kind"] == "user"
    assert database.read_text() == "my notes, not a database"


def test_an_adapter_of_a_browser_wants_one(tmp_path: Path) -> None:
    """The embedded view was measured with its own, as if nothing had been asked."""
    model = mlp(tmp_path / "m.onnx")
    result = nnjit_here("advise", model, "--gpu", "lab", "--database", tmp_path / "d.db", "--json")
    assert result.returncode == 1 and "--gpu is of a browser" in json.loads(result.stdout)["error"]


def test_a_gpu_without_webgpu_is_refused() -> None:
    result = nnjit_here("tune", "m.onnx", "--gpu", "software", "--json", *SANDBOX)
    assert result.returncode == 1
    error = json.loads(result.stdout)
    assert "is for WebGPU" in error["error"] and "--backend webgpu" in error["hint"]


@pytest.mark.skipif(not SANDBOX, reason="only root is asked for the flag")
def test_root_is_asked_for_the_flag(tmp_path: Path) -> None:
    result = nnjit("tune", mlp(tmp_path / "m.onnx"), "--json")
    assert result.returncode == 1
    assert "--no-sandbox" in result.stdout


def test_wrong_usage_is_2() -> None:
    assert nnjit_here("tune").returncode == 2
    assert nnjit_here("nonsense").returncode == 2
    assert nnjit_here().returncode == 2


def test_bundle_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    path.write_bytes(os.urandom(100))
    result = nnjit_here("verify", path, "--json")
    assert result.returncode == 1
    assert json.loads(result.stdout)["kind"] == "user"


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "k.wasm"
    result = nnjit_here("compile", "matmul:8x8x8:f32", "-o", path, "--json")
    assert result.returncode == 1
    error = json.loads(result.stdout)
    assert error["kind"] == "user" and "k.wasm" in error["error"]
    assert "Traceback" not in result.stderr


def test_a_negative_time_is_wrong_usage(tmp_path: Path) -> None:
    result = nnjit_here("tune", tmp_path / "m.onnx", "--seconds", "-1")
    assert result.returncode == 2
    assert "--seconds" in result.stderr
