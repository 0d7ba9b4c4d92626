"""Limits of a process that reads a stranger's file: memory, and processor time by the file's size.

Processor time and not the clock's, because a busy machine lets a process wait through no fault of
its file. The kernel ends what exceeds it (``ITIMER_PROF``), C++ that never returns to Python too.
"""

from __future__ import annotations

import os
import signal
import sys

MEMORY_BYTES = 4 * 2**30
SECONDS = 60.0
"""Of processor time, from one sign of progress to the next."""
BYTES_PER_S = 10e6
"""A file gets a second more for each of these bytes."""
PATIENCE = 10
"""Times its processor time that a process may take by the clock."""


def seconds_for(nbytes: int) -> float:
    """Seconds of processor time for a file of so many bytes."""
    return SECONDS + nbytes / BYTES_PER_S


def end_after(seconds: float) -> None:
    """Let ``SIGPROF`` end this process when it computed for so many seconds more; 0: never.

    Windows has no such timer; there the parent's deadline alone ends a job.
    """
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)


def ran_out(exitcode: int | None) -> bool:
    """Whether a process ended because its processor time was used up."""
    return exitcode == -getattr(signal, "SIGPROF", 0)


def limit_this_process() -> None:
    """It may not take the machine's memory, and yields to what is measured."""
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if hasattr(os, "nice"):
        os.nice(5)
