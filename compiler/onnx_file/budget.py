"""What one job on a stranger's file may use: memory and processor time, by the file's size.

The limits are the kernel's own (``RLIMIT_DATA``, and the timer of
:mod:`nnjit_studio.support.limits`), so that they also end C++ that never returns to Python; a job
that exceeds one dies with its process or gets a ``MemoryError``.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nnjit_studio.support.limits import end_after, seconds_for

LEAST_BYTES = 1 << 30
FILES = 4
"""Times a file that its import may take, from ``LEAST_BYTES`` on."""
NUMBERS, NUMBERS_BYTES = 16, 4 << 30
"""The same of what is no weight, up to ``NUMBERS_BYTES``: whole numbers in attributes, as of trees,
take a byte or two in the file and eight in memory, and are checked in a copy."""
SILENCES = 10
"""Times the processor time from one sign of progress to the next that a whole job has."""


@dataclass
class _Job:
    held: int
    """Bytes of data that the process had before."""
    started: float
    nbytes: int
    imports: int
    others: int | None = None
    """Bytes of the file that are no weights, once it is parsed."""


_jobs: list[_Job] = []


@contextlib.contextmanager
def limited(nbytes: int, imports: int = 1) -> Iterator[None]:
    """The limits of a job on a file of so many bytes, which may hold so many imports at once."""
    _jobs.append(_Job(_data_bytes(), time.process_time(), nbytes, imports))
    _limit_data(_jobs[-1])
    progress()
    try:
        yield
    finally:
        _jobs.pop()
        end_after(0)
        _limit_data(None)


def known_size(nbytes: int, others: int) -> None:
    """The job's file turned out to hold so many bytes of weights, external data included."""
    if _jobs:
        job = _jobs[-1]
        job.nbytes, job.others = max(nbytes, job.nbytes), max(others, job.others or 0)
        _limit_data(job)
        progress()


def progress() -> None:
    """The job got on: its next silence begins."""
    if _jobs:
        job = _jobs[-1]
        silent = seconds_for(job.nbytes)
        left = SILENCES * silent - (time.process_time() - job.started)
        end_after(max(0.01, min(silent, left)))


def memory_for(nbytes: int, others: int | None = None) -> int:
    """Bytes that an import may take, by those of the file, and of what in it is no weight."""
    numbers = NUMBERS * (nbytes if others is None else others)
    return max(LEAST_BYTES, FILES * nbytes, min(numbers, NUMBERS_BYTES))


def _limit_data(job: _Job | None) -> None:
    """Set or lift the soft limit; the hard one stays as it is."""
    if sys.platform != "linux":
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = hard if job is None else job.held + job.imports * memory_for(job.nbytes, job.others)
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    """Private writable memory of this process, as the limit counts it."""
    if sys.platform != "linux":
        return 0
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData"))
