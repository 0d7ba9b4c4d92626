"""The real model: tuned in the embedded view, right, and the same as a bundle in Chromium."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from bundle_page import run_bundle
from nnjit_command import SANDBOX, events_until, json_lines, nnjit, nnjit_here

from nnjit_studio.records.outcomes import TIMED
from nnjit_studio.samples.minilm import encode

pytestmark = pytest.mark.embedded

SENTENCES = (
    "A man is eating food.",
    "Someone eats a meal.",
    "The stock market fell sharply on Tuesday.",
)

ROUNDS = 12
"""Candidates that are measured: each workload's first, then those that promise most."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("minilm")


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    path = folder / "minilm.onnx"
    json_lines(nnjit_here("sample", "minilm", "-o", path, "--json"))
    return path


@pytest.fixture(scope="module")
def events(model: Path, folder: Path) -> list[dict[str, Any]]:
    """A session that ends once every workload has had its turn, and some had more."""

    def enough(events: list[dict[str, Any]]) -> bool:
        tried = candidates_of(events).values()
        return events[-1]["event"] == "round" and all(tried) and sum(map(len, tried)) >= ROUNDS

    words = ("--seconds", 1000, "--exhaustive", "--json", "--database", folder / "k.db")
    events, code = events_until(enough, "tune", model, *words, *SANDBOX, fresh=True)
    assert (code, events[-1]["event"]) == (0, "summary")
    return events


def candidates_of(events: list[dict[str, Any]]) -> dict[str, set[str]]:
    """What was measured of each lite space."""
    found: dict[str, set[str]] = {e["workload"]: set() for e in events if e["event"] == "space"}
    for event in events:
        if event["event"] == "measured" and event["workload"] in found:
            found[event["workload"]].add(event["candidate"])
    return {workload: tried - {"default"} for workload, tried in found.items()}


@pytest.fixture(scope="module")
def expected(model: Path) -> list[dict[str, np.ndarray]]:
    session = onnxruntime.InferenceSession(str(model))
    names = [o.name for o in session.get_outputs()]
    return [dict(zip(names, session.run(None, encode([s])), strict=True)) for s in SENTENCES]


def test_every_matmul_gets_its_turn(events: list[dict[str, Any]]) -> None:
    measured = candidates_of(events)
    assert len(measured) == 6
    assert all(measured.values()) and sum(map(len, measured.values())) >= ROUNDS


def test_no_kernel_was_wrong(events: list[dict[str, Any]]) -> None:
    states = {e["state"] for e in events if e["event"] == "measured"}
    assert states <= {*TIMED, "duplicate"}


def test_run_equals_onnxruntime(
    events: list[dict[str, Any]],
    model: Path,
    folder: Path,
    expected: list[dict[str, np.ndarray]],
) -> None:
    np.savez(folder / "in.npz", **encode([SENTENCES[0]]))
    out = folder / "out.npz"
    files = ["--inputs", folder / "in.npz", "--outputs", out, "--database", folder / "k.db"]
    json_lines(nnjit("run", model, *files, "--json", *SANDBOX))
    with np.load(out) as arrays:
        for name, reference in expected[0].items():
            scale = np.abs(reference).max()
            assert np.abs(arrays[name] - reference).max() <= 1e-3 * scale


@pytest.mark.chromium
@pytest.mark.parametrize("isolated", [True, False])
def test_bundle_in_chromium(
    events: list[dict[str, Any]],
    model: Path,
    folder: Path,
    expected: list[dict[str, np.ndarray]],
    isolated: bool,
) -> None:
    bundle = folder / "minilm.zip"
    if not bundle.exists():
        words = ("-o", bundle, "--json", "--database", folder / "k.db")
        json_lines(nnjit_here("export", model, *words))
        json_lines(nnjit_here("verify", bundle, "--json"))
    report = run_bundle(
        bundle,
        folder / f"site-{isolated}",
        [encode([s]) for s in SENTENCES],
        isolated=isolated,
        no_sandbox=bool(SANDBOX),
    )
    assert "error" not in report, report
    assert report["isolated"] is isolated
    assert report["tier"] == "relaxed-simd"
    assert report["threads"] == (2 if isolated else 1)
    for got, reference in zip(report["results"], expected, strict=True):
        for name, array in reference.items():
            assert got[name]["dims"] == list(array.shape)
            data = np.frombuffer(base64.b64decode(got[name]["data"]), np.float32)
            scale = np.abs(array).max()
            assert np.abs(data.reshape(array.shape) - array).max() <= 1e-3 * scale
