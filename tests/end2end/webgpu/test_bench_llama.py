from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from nnjit_command import SANDBOX, nnjit, nnjit_here

sys.path.insert(0, str(Path(__file__).parents[2] / "compiler"))
from decoder_models import decoder

pytestmark = pytest.mark.chromium

SIZES = [
    "--layers=2",
    "--width=32",
    "--heads=1",
    "--hidden=32",
    "--vocabulary=128",
    "--context=64",
    "--splits=2",
]


def test_a_small_decoder_in_chromium_makes_the_references_text() -> None:
    """Weights of a file come as ``tests/bench/test_llama_weights.py`` says."""
    if os.environ.get("NNJIT_SKIP_CHROMIUM") == "1":
        pytest.skip("NNJIT_SKIP_CHROMIUM=1")
    how = ["--prompt=12", "--tokens=6", "--rounds=1", "--no-tune", "--gpu=software"]
    done = nnjit("bench", "llama", *SIZES, *how, "--json", *SANDBOX)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["adapter"]["is_fallback"]
    assert found["correct"]["equal"] and found["correct"]["same_each_round"]
    assert found["correct"]["logits_rel_err"] < 1e-3
    assert found["row"]["dispatches_per_layer"] == 5
    assert found["row"]["loaded"]["weights"] == "gpu"


def test_texts_of_a_file_on_a_gpu_are_native(tmp_path: Path) -> None:
    if os.environ.get("NNJIT_SKIP_CHROMIUM") == "1":
        pytest.skip("NNJIT_SKIP_CHROMIUM=1")
    path = decoder(tmp_path / "model.onnx", depth=16)
    where = ["--backend=webgpu", "--gpu=software", "--peers=none"]
    # without a prefill: its kernels are tested in test_webgpu_text.py
    how = ["--prompt=1", "--tokens=8", "--rounds=1", "--seconds=0"]
    done = nnjit("bench", "llama", path, *where, *how, "--json", *SANDBOX)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["backend"] == "webgpu" and found["facts"]["ours"]["tier"].startswith("wgsl")
    assert found["native"]["ours"]["wrong"] == 0


def test_a_text_that_does_not_fit_is_told() -> None:
    done = nnjit_here("bench", "llama", *SIZES, "--tokens=100", *SANDBOX)
    assert done.returncode == 1
    assert "do not fit a context of 64" in done.stderr
