"""One cell of the table of formats, without a browser."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from scripts import benchmark


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = benchmark("models/formats")
    monkeypatch.setattr(module, "NNJIT", [sys.executable, "-c", "import time; time.sleep(600)"])
    return module


def test_a_cell_that_takes_too_long_is_named_and_ended(
    script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "CELL_S", 0.1)
    ended = _ended(script, monkeypatch)
    assert script.measured(Path("m.onnx"), 1.0, "1") == {"failed": "took longer than 0.1 s"}
    assert [process.returncode for process in ended] == [-signal.SIGTERM]


def test_an_interrupted_cell_leaves_nothing_running(
    script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = _ended(script, monkeypatch, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        script.measured(Path("m.onnx"), 1.0, "1")
    assert [process.returncode for process in ended] == [-signal.SIGTERM]


def _ended(
    script: Any, monkeypatch: pytest.MonkeyPatch, error: type[BaseException] | None = None
) -> list[Any]:
    """The processes of a cell, whose first wait may raise."""
    started: list[Any] = []

    class Watched(script.subprocess.Popen):  # type: ignore[misc, name-defined]
        def communicate(self, *args: Any, **given: Any) -> Any:
            if self not in started:
                started.append(self)
                if error:
                    raise error
            return super().communicate(*args, **given)

    monkeypatch.setattr(script.subprocess, "Popen", Watched)
    return started
