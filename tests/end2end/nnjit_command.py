"""Runs the program as a user does: `nnjit` in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

NNJIT = [str(Path(sys.executable).with_name("nnjit"))]
SANDBOX = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []


def nnjit(*arguments: Any, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
    """Run to the end; standard output and error as text."""
    return subprocess.run(
        [*NNJIT, *map(str, arguments)], capture_output=True, text=True, timeout=timeout_s
    )


def json_lines(result: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Every line of standard output as JSON, of a run that must have succeeded."""
    assert result.returncode == 0, result.stdout[-1500:] + result.stderr[-3000:]
    return [json.loads(line) for line in result.stdout.splitlines()]
