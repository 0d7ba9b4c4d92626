"""The doctor says what is, where the environment has switched the sandbox off or names a display
that is gone; and a window that cannot be opened is an error, not an abort."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from nnjit_command import SANDBOX
from nnjit_command import nnjit as forked

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's displays and /proc"),
]
GONE = {"DISPLAY": ":57077"}


def nnjit(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run with these variables and without the tests' own platform; no browser is found."""
    ours = ("QT_QPA_PLATFORM", "WAYLAND_DISPLAY", "DISPLAY")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    given = {**kept, "PATH": str(Path(sys.executable).parent), **variables}
    with patch.dict(os.environ, given, clear=True):
        return forked(*arguments)


def report(*arguments: str, **variables: str) -> dict[str, Any]:
    done = nnjit("doctor", "--json", *arguments, **variables)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("name", "value", "by"),
    [
        ("QTWEBENGINE_DISABLE_SANDBOX", "1", "QTWEBENGINE_DISABLE_SANDBOX=1"),
        (
            "QTWEBENGINE_CHROMIUM_FLAGS",
            "--no-sandbox",
            "--no-sandbox in QTWEBENGINE_CHROMIUM_FLAGS",
        ),
    ],
)
def test_a_sandbox_switched_off_by_the_environment_is_off(name: str, value: str, by: str) -> None:
    found = report(**GONE, **{name: value})
    assert found["sandbox"] == f"off, by {by}"
    assert found["display"] == "DISPLAY=:57077 does not answer: the window is drawn offscreen"


@pytest.mark.skipif(bool(SANDBOX), reason="root has no sandbox")
def test_the_sandbox_of_an_ordinary_user_is_on() -> None:
    assert report()["sandbox"] == "on"


@pytest.mark.parametrize("variables", [GONE, {"WAYLAND_DISPLAY": "wayland-77"}, {}])
def test_a_window_without_a_display_is_an_error(variables: dict[str, str], tmp_path: Path) -> None:
    words = ("studio", *SANDBOX, "--database", str(tmp_path / "k.db"))
    done = nnjit(*words, **variables)
    assert done.returncode == 1, done.stderr[-3000:]
    (line,) = done.stderr.splitlines()
    gone = "".join(f"{name}={value} does not answer" for name, value in variables.items())
    assert line.startswith(f"The display {gone}." if gone else "There is no display")
    assert line.endswith("or give --quit to tune without a window.")
