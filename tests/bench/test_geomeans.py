"""The geometric mean over many models, without a browser."""

from __future__ import annotations

import argparse
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


def test_the_report_tells_both_means_and_leaves_out_what_has_no_ratio(script: Any) -> None:
    quick = {"model": "quick", "advice": 2.0, **script.verdict_of(told("", 2.0, 4.0))}
    plain = {"model": "plain", **script.verdict_of(told("", None, 1.0))}
    busy = {"model": "busy", **script.verdict_of(told("busy", 2.0, None))}
    refused = {"model": "refused", "problem": "no such operator"}
    options = argparse.Namespace(target="chromium", tune=8.0, max_error=1e-2)
    text = script.report([quick, plain, busy, refused], ["left/over.onnx"], options)
    assert "of 2 of 4 models: **2.00**." in text
    assert "With first kernels, by medians of the same pages: 2.00." in text
    assert "1 models: **8.00**." in text
    assert "| quick | 8 | 4 | 2 | 4.00 | 2.50 to 4.00 | 8.00 |" in text
    assert "| plain | 8 | 4 | 4 | 1.00 | 2.50 to 4.00 |  |" in text
    assert "| busy | 8 | 4 | 2 | | busy | |" in text
    assert "| refused |  |  |  | | no such operator | |" in text
    assert "Not begun for want of time: over." in text
    columns = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    assert columns == {8}
