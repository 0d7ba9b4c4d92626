"""What a stranger's file can do is tried on compile processes as users have them."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def fresh(fresh_compile_processes: None) -> None:
    """Started as the program does it."""
