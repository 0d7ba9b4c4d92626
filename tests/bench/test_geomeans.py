"""The geometric mean over many models, without a browser."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scripts import benchmark


@pytest.fixture
def script() -> Any:
    return benchmark("geomeans")


def told(state: str, tuned: float | None, ratio: float | None) -> dict[str, Any]:
    ms = {"ort": 8.0, "untuned": 4.0, "tuned": tuned}
    rows = [{"who": who, "ms": {"median": each} if each else None} for who, each in ms.items()]
    spread = {"median": 3.0, "low": 2.5, "high": 4.0}
    return {"rows": rows, "ratio": {"ort": ratio}, "intervals": {"ort": spread}, "state": state}


def advice_row(name: str, gain: float, **changed: Any) -> dict[str, Any]:
    ratio = {"median": gain, "low": gain - 0.5, "high": gain + 0.5}
    row = {
        "name": name,
        "outcome": "faster",
        "refusal": "",
        "asks": "",
        "measured": {"ratio": ratio},
    }
    return {**row, **changed}


def test_advice_is_read_on_one_thread_and_on_the_device(script: Any) -> None:
    advice = {
        "rows": [
            advice_row("f16-weights", 1.5),
            advice_row("threads", 2.0, asks="Headers."),
            advice_row("smaller-inputs", 8.0, asks="Smaller."),
            advice_row("4-bit", 9.0, refusal="Too far off."),
            advice_row("webgpu", 9.0, asks="A GPU.", outcome="not told apart"),
        ]
    }
    thread, device = script.best(advice), script.best(advice, script.DEVICE)
    assert (thread["name"], device["name"]) == ("f16-weights", "threads")
    assert script.best({"rows": []}) is None
    assert script.product((4.0, 3.0, 5.0), thread) == (6.0, 3.0, 10.0)
    assert script.product((4.0, 3.0, 5.0), None) == (4.0, 3.0, 5.0)
    gpu = {"rows": [{"ratio": {"ort": 2.0}, "intervals": {"ort": {"low": 1.0, "high": 3.0}}}]}
    assert script.ratio_of(script.of_bench(gpu)) == (2.0, 1.0, 3.0)


def test_a_comparison_with_the_peer_that_takes_too_long_leaves_the_rest(
    script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*words: str) -> str:
        raise subprocess.TimeoutExpired("nnjit", 600)

    monkeypatch.setattr(script, "command", slow)
    row = advice_row("threads", 2.0, apply={"options": ["--threads", "2"]})
    assert script.beside(Path("m.onnx"), [], row, argparse.Namespace()) is None


def test_the_report_tells_all_means_and_leaves_out_what_has_no_ratio(script: Any) -> None:
    advised = {"thread": (4.0, 2.5, 4.0), "device": (8.0, 5.0, 9.0), "beside": (2.0, 1.0, 3.0)}
    quick = {"model": "quick", **script.verdict_of(told("", 2.0, 4.0)), **advised}
    quick["rows"] = [None, "threads"]
    plain = {"model": "plain", **script.verdict_of(told("", None, 1.0))}
    busy = {"model": "busy", **script.verdict_of(told("busy", 2.0, None))}
    refused = {"model": "refused", "problem": "no such operator"}
    options = argparse.Namespace(target="chromium", tune=8.0, max_error=1e-2)
    text = script.report([quick, plain, busy, refused], ["left/over.onnx"], options)
    assert "As it is, 2 of 4 models: **2.00** (2.50 to 4.00)." in text
    assert "With first kernels, by medians of the same pages: 2.00." in text
    assert "on one thread, 1 of 4 models: **4.00** (2.50 to 4.00)." in text
    assert "allows, within an error of 0.01, 1 of 4 models: **8.00** (5.00 to 9.00)." in text
    assert "same threads or WebGPU, 1 of 4 models: **2.00** (1.00 to 3.00)." in text
    line = "| quick | 8 | 4 | 2 | 4.00 (2.50 to 4.00) | 4.00 (2.50 to 4.00), nothing "
    assert f"{line}| 8.00 (5.00 to 9.00), threads | 2.00 (1.00 to 3.00) |" in text
    assert "| plain | 8 | 4 | 4 | 1.00 (2.50 to 4.00) |  |  |  |" in text
    assert "| busy | 8 | 4 | 2 | busy |  |  |  |" in text
    assert "| refused |  |  |  | no such operator |  |  |  |" in text
    assert "Not begun for want of time: over." in text
    columns = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    assert columns == {9}
