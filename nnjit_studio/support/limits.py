"""Limits of a process that reads a stranger's file."""

from __future__ import annotations

import os
import sys

MEMORY_BYTES = 4 * 2**30


def limit_this_process() -> None:
    """It may not take the machine's memory, and yields to what is measured."""
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if hasattr(os, "nice"):
        os.nice(5)
