"""The peak of the memory of a process and of those that it starts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from nnjit_studio.support import processes

_EVERY_S = 1.0


class Peak:
    """The largest resident memory of one process of a family, in bytes.

    Looked at now and then: the system's own peak misses memory that is given back
    in pieces.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._bytes = 0

    def look(self) -> int | None:
        """The peak until now; None where the system tells none."""
        family = (self._pid, *processes.descendants(self._pid))
        self._bytes = max(self._bytes, *map(processes.peak_bytes, family))
        return self._bytes or None


@contextmanager
def watched(pid: int) -> Iterator[Peak]:
    """Look at a process once a second, on a thread, until the end."""
    peak, ended = Peak(pid), threading.Event()

    def watch() -> None:
        while not ended.wait(_EVERY_S):
            peak.look()

    thread = threading.Thread(target=watch, name="nnjit-peak", daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()
