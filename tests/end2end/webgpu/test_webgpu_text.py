"""Text generation on a software GPU: the tokens of native ONNX Runtime."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from nnjit_command import SANDBOX, json_lines, nnjit, nnjit_here

sys.path.insert(0, str(Path(__file__).parents[2] / "compiler"))
from decoder_models import POSITIONS, decoder

pytestmark = pytest.mark.chromium

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]


def test_a_full_cache_of_tokens_is_native(tmp_path: Path) -> None:
    if os.environ.get("NNJIT_SKIP_CHROMIUM") == "1":
        pytest.skip("NNJIT_SKIP_CHROMIUM=1")
    decoder(tmp_path / "model.onnx", depth=16)  # heads that attention in one kernel takes
    gpu = ["--target", "chromium", "--backend", "webgpu", "--gpu", "software"]
    # a prompt longer than the prefill, until the cache is full
    text = ["--ids", ",".join(map(str, PROMPT)), "--tokens", 1000, "--prefill-rows", 6, "--check"]
    model = [tmp_path / "model.onnx", "--database", tmp_path / "k.db"]
    bundle = tmp_path / "text.zip"  # its kernels are Wasm's, whatever the page ran
    words = [*model, *text, *gpu, "--bundle", bundle, "--json", *SANDBOX]
    *tokens, summary = json_lines(nnjit("generate", *words))
    ids = [token["id"] for token in tokens]
    assert len(ids) == POSITIONS - len(PROMPT) + 1
    assert len(set(ids)) > 3, "a text of one token would show nothing"
    assert summary["reason"] == "full"
    assert summary["check"]["wrong"] == 0
    assert nnjit_here("verify", bundle).returncode == 0
    assert summary["check"]["same"] + summary["check"]["ties"] == len(ids)
