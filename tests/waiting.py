"""Waiting for what another thread or process does, however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 120.0
"""What must come has come by then; a test that passes does not wait for it."""


def until(condition: Callable[[], Any]) -> None:
    """Return once the condition is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.005)
