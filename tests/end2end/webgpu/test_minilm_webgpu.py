"""The real model on software GPUs: Chromium's own, and one behind the bridge."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from nnjit_command import SANDBOX, json_lines, nnjit, nnjit_here

from nnjit_studio.samples.minilm import encode

TOKENS = 8
"""A processor that plays a GPU is slow; that changes no kernel's kind."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("minilm-gpu")


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    path = folder / "minilm.onnx"
    json_lines(nnjit_here("sample", "minilm", "--sequence", TOKENS, "-o", path, "--json"))
    np.savez(folder / "in.npz", **encode(["A man is eating food."], TOKENS))
    return path


@pytest.mark.chromium
def test_in_chromium(model: Path, folder: Path) -> None:
    if os.environ.get("NNJIT_SKIP_CHROMIUM") == "1":
        pytest.skip("NNJIT_SKIP_CHROMIUM=1")
    check(model, folder, "chromium")


@pytest.mark.embedded
def test_over_the_bridge(model: Path, folder: Path) -> None:
    pytest.importorskip("wgpu", reason="wgpu needs Python 3.11")
    check(model, folder, "embedded")


def check(model: Path, folder: Path, target: str) -> None:
    """One inference, beside native ONNX Runtime's."""
    out = folder / f"{target}.npz"
    files = ["--inputs", folder / "in.npz", "--outputs", out, "--database", folder / "k.db"]
    gpu = ["--target", target, "--backend", "webgpu", "--gpu", "software"]
    (summary,) = json_lines(nnjit("run", model, *files, *gpu, "--json", *SANDBOX))
    assert summary["ok"]
    assert summary["fallback_reason"] == ""
    session = onnxruntime.InferenceSession(str(model))
    names = [o.name for o in session.get_outputs()]
    with np.load(folder / "in.npz") as feeds:
        expected = dict(zip(names, session.run(None, dict(feeds)), strict=True))
    with np.load(out) as arrays:
        for name, reference in expected.items():
            assert np.abs(arrays[name] - reference).max() <= 1e-4 * np.abs(reference).max()
