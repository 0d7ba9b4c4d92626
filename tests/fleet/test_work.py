"""A job on the machine that does it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nnjit_studio.fleet import work as work_room
from nnjit_studio.fleet.jobs import Job
from nnjit_studio.fleet.work import work


def test_a_file_that_is_no_model_ends_in_its_own_sentence(tmp_path: Path) -> None:
    path, lines = tmp_path / "bad.onnx", list[str]()
    path.write_bytes(b"no model")
    outcome = work(Job(0, "tune", path, ("--no-sandbox",)), None, lines.append)
    assert "bad.onnx" in outcome.error
    assert outcome.hint
    assert outcome.records == b""
    assert lines == []


def test_rounds_are_told_and_the_last_line_is_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "verb.py"
    script.write_text(
        "import json, sys\n"
        "print('a line of a library')\n"
        "line = {'event': 'round', 'workload': 'mm#1', 'best_gflops': 12.34}\n"
        "print(json.dumps(line), json.dumps({'event': 'summary', 'words': sys.argv}), sep='\\n')\n"
        "open(sys.argv[sys.argv.index('--database') + 1], 'w').write('records')\n"
    )
    real, lines = subprocess.Popen, list[str]()

    def popen(command: list[str], **given: object) -> object:
        return real([sys.executable, str(script), *command[3:]], **given)  # type: ignore[call-overload]

    monkeypatch.setattr(work_room.subprocess, "Popen", popen)
    outcome = work(Job(0, "tune", Path("m.onnx"), ("--seconds", "5")), b"bytes", lines.append)
    words = outcome.summary["words"]
    assert words[1] == "tune"
    assert words[3:6] == ["--json", "--seconds", "5"]
    assert Path(words[2]).name == "m.onnx"
    assert lines == ["mm  best 12.3 GFLOP/s"]
    assert (outcome.records, outcome.error) == (b"records", "")


def test_a_verb_ends_when_its_worker_does() -> None:
    """Standard input is the other end of the worker; it closes with it, however that ends."""
    wait = """
import threading, time
from nnjit_studio.entry import _end_with_input
threading.Thread(target=_end_with_input).start()
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", wait], stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(timeout=60) == 1
