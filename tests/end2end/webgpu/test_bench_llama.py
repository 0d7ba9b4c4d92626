from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from nnjit_command import SANDBOX, nnjit

sys.path.insert(0, str(Path(__file__).parents[2] / "compiler"))
from grouped_models import grouped

pytestmark = pytest.mark.chromium


def test_texts_of_a_file_on_a_gpu_are_native(tmp_path: Path) -> None:
    if os.environ.get("NNJIT_SKIP_CHROMIUM") == "1":
        pytest.skip("NNJIT_SKIP_CHROMIUM=1")
    path = grouped(tmp_path / "model.onnx", 4, half=True)  # with a cache in f16
    where = ["--backend=webgpu", "--gpu=software", "--peers=none"]
    # without a prefill: its kernels are tested in test_webgpu_text.py
    how = ["--prompt=1", "--tokens=8", "--rounds=1", "--seconds=0"]
    done = nnjit("bench", "llama", path, *where, *how, "--json", *SANDBOX)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["backend"] == "webgpu" and found["facts"]["ours"]["tier"].startswith("wgsl")
    assert found["native"]["ours"]["wrong"] == 0
