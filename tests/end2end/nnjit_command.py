"""Runs the program as a user does: `nnjit` in a process of its own, or its entry point here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import loaded
import pytest

from nnjit_studio.cli.main import main

NNJIT = [str(Path(sys.executable).with_name("nnjit"))]
SANDBOX = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
LONG_S = 600.0
"""Of a command on a machine under load; a test's own limit is 900 s."""


def nnjit(*arguments: Any, timeout_s: float = LONG_S) -> subprocess.CompletedProcess[str]:
    """Run to the end, in a process forked from one that has loaded the Studio where that can be."""
    words = [*map(str, arguments)]
    if loaded.CAN_FORK:
        return loaded.command(words, timeout_s)
    return subprocess.run([*NNJIT, *words], capture_output=True, text=True, timeout=timeout_s)


def nnjit_here(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """The same without a process, whose start takes longer than most verbs that need no page."""
    words, out, err = [*map(str, arguments)], StringIO(), StringIO()
    with (
        patch.dict(os.environ),  # a verb may set switches of the engine, which others would find
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as end,
    ):
        main(words)
    assert isinstance(end.value.code, int)
    return subprocess.CompletedProcess(words, end.value.code, out.getvalue(), err.getvalue())


def begun(
    words: Sequence[str], out: int, err: int, fresh: bool = False, **place: str
) -> tuple[int, Callable[[], int | None]]:
    """A command that runs, in a session of its own: its process, and what waits for its exit code.

    ``place`` is the network or the control group of :func:`loaded.begun`.
    """
    if fresh or not loaded.CAN_FORK:
        made = subprocess.Popen([*NNJIT, *words], stdout=out, stderr=err, start_new_session=True)
        return made.pid, made.wait
    forked = loaded.begun(words, out, err, **place)

    def wait() -> int | None:
        forked.join()
        return forked.exitcode

    return forked.pid, wait


def events_until(
    enough: Callable[[list[dict[str, Any]]], bool],
    *arguments: Any,
    how: int = signal.SIGINT,
    **place: Any,
) -> tuple[list[dict[str, Any]], int | None]:
    """Events of a session, until they are enough or it ends, and its exit code.

    Then it gets the signal; the user's interrupt ends it with its summary. A session that
    is given more time than it needs depends on no machine's speed. ``place`` and ``fresh`` are
    those of :func:`begun`.
    """
    events: list[dict[str, Any]] = []
    told = False
    reading, writing = os.pipe()
    with tempfile.TemporaryFile("w+") as said, open(reading) as lines:
        pid, wait = begun([*map(str, arguments)], writing, said.fileno(), **place)
        os.close(writing)
        late = threading.Timer(LONG_S, os.killpg, (pid, signal.SIGKILL))
        late.start()
        code = None
        try:
            for line in lines:
                events.append(json.loads(line))
                if "event" not in events[-1]:
                    break  # an error, and the end
                if not told and enough(events):
                    told = True
                    send = os.killpg if how == signal.SIGKILL else os.kill
                    with suppress(ProcessLookupError):  # it may have just ended
                        send(pid, how)
            code = wait()
        finally:
            late.cancel()
            if code is None:
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
        said.seek(0)
        assert told, f"{events[-1:]} {said.read()[-3000:]}"
    return events, code


def json_lines(result: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Every line of standard output as JSON, of a run that must have succeeded."""
    assert result.returncode == 0, result.stdout[-1500:] + result.stderr[-3000:]
    return [json.loads(line) for line in result.stdout.splitlines()]
