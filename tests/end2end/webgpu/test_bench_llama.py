from __future__ import annotations

import json
import os

import pytest
from nnjit_command import SANDBOX, nnjit, nnjit_here

pytestmark = pytest.mark.chromium

SIZES = [
    "--layers=2",
    "--width=64",
    "--heads=2",
    "--hidden=96",
    "--vocabulary=128",
    "--context=64",
    "--splits=2",
]


@pytest.mark.parametrize("weights", ["gpu", "file"])
def test_a_small_decoder_in_chromium_makes_the_references_text(weights: str) -> None:
    if os.environ.get("NNJIT_SKIP_CHROMIUM") == "1":
        pytest.skip("NNJIT_SKIP_CHROMIUM=1")
    how = [
        "--prompt=12",
        "--tokens=6",
        "--rounds=1",
        "--no-tune",
        f"--weights={weights}",
        "--gpu=software",
    ]
    done = nnjit("bench", "llama", *SIZES, *how, "--json", *SANDBOX)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["adapter"]["is_fallback"]
    assert found["correct"]["equal"] and found["correct"]["same_each_round"]
    assert found["correct"]["logits_rel_err"] < 1e-3
    assert found["row"]["dispatches_per_layer"] == 5
    assert found["row"]["loaded"]["weights"] == weights


def test_a_text_that_does_not_fit_is_told() -> None:
    done = nnjit_here("bench", "llama", *SIZES, "--tokens=100", *SANDBOX)
    assert done.returncode == 1
    assert "do not fit a context of 64" in done.stderr
