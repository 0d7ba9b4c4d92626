"""Text generation on a software GPU: the tokens of native ONNX Runtime."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from bundle_page import PAGE
from nnjit_command import LONG_S, SANDBOX, json_lines, nnjit, nnjit_here
from static_server import serve

from nnjit_studio.engine.browsers import browsers

sys.path.insert(0, str(Path(__file__).parents[2] / "compiler"))
from decoder_models import POSITIONS, VOCABULARY, decoder

pytestmark = pytest.mark.chromium

SCRIPT = """
import { InferenceSession } from "./nnjit.js";
const session = await InferenceSession.create("manifest.json",
  { executionProviders: ["webgpu", "wasm"] });
const ids = [];
let error = "";
try {
  for await (const { id } of session.generate(%s)) ids.push(id);
} catch (e) {
  error = String(e.stack || e);
}
const { executionProvider: provider, fallbackReason: reason } = session;
await fetch("/", { method: "POST", body: JSON.stringify({ provider, reason, ids, error }) });
"""
PROMPT = [i * (i + 1) % VOCABULARY for i in range(POSITIONS - 8)]
"""Of which a prefill reads two at once; of the text each token is a wait."""


def test_a_full_cache_of_tokens_is_native(tmp_path: Path) -> None:
    if os.environ.get("NNJIT_SKIP_CHROMIUM") == "1":
        pytest.skip("NNJIT_SKIP_CHROMIUM=1")
    decoder(tmp_path / "model.onnx", depth=16)  # heads that attention in one kernel takes
    gpu = ["--target", "chromium", "--backend", "webgpu", "--gpu", "software"]
    # a prompt longer than the prefill, until the cache is full
    text = ["--ids", ",".join(map(str, PROMPT)), "--tokens", 1000, "--prefill-rows", 2, "--check"]
    model = [tmp_path / "model.onnx", "--database", tmp_path / "k.db"]
    bundle = tmp_path / "text.zip"
    words = [*model, *text, *gpu, "--bundle", bundle, "--json", *SANDBOX]
    *tokens, summary = json_lines(nnjit("generate", *words))
    ids = [token["id"] for token in tokens]
    assert len(ids) == POSITIONS - len(PROMPT) + 1
    assert len(set(ids)) > 3, "a text of one token would show nothing"
    assert summary["reason"] == "full"
    assert summary["check"]["wrong"] == 0
    assert nnjit_here("verify", bundle).returncode == 0
    assert summary["check"]["same"] + summary["check"]["ties"] == len(ids)
    said = text_of(bundle, tmp_path / "site")
    assert (said["provider"], said["reason"], said["ids"]) == ("webgpu", "", ids)


def text_of(bundle: Path, site: Path) -> dict[str, Any]:
    """What a page that has a software GPU makes of the bundle."""
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(site)
    (site / "check.html").write_text(PAGE)
    (site / "check.js").write_text(SCRIPT % json.dumps(PROMPT))
    with (
        serve(site, True) as (url, reports),
        browsers.launch(
            browsers.find("chromium"), f"{url}/check.html", bool(SANDBOX), gpu="software"
        ),
    ):
        return reports.get(timeout=LONG_S)
