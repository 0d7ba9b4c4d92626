"""Phases of a job that takes long, told as they begin."""

from __future__ import annotations

from collections.abc import Callable

OnPhase = Callable[[str], None]


def quiet(phase: str) -> None:
    """Tell nobody."""
