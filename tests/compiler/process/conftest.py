"""The process itself is what these tests are about."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def fresh(fresh_compile_processes: None) -> None:
    """Started as the program does it."""
