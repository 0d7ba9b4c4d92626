"""One folder for what this process writes and nobody keeps; those of dead processes are removed."""

from __future__ import annotations

import atexit
import contextlib
import shutil
import tempfile
import time
from functools import cache
from pathlib import Path

from filelock import FileLock, Timeout

_PREFIX, _LOCK = "nnjit-process-", "lock"
_YOUNG_S = 60.0
"""A folder of this age may not be locked yet."""


@cache
def process_folder() -> Path:
    """The folder of this process. It holds a lock that ends with the process, however it ends."""
    sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = FileLock(folder / _LOCK, timeout=0, thread_local=False)
    lock.acquire()

    def remove() -> None:
        lock.release()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def sweep(place: Path) -> None:
    """Remove the folders of processes that are gone."""
    for folder in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, Timeout):
            if folder.is_symlink() or time.time() - folder.stat().st_mtime < _YOUNG_S:
                continue
            with FileLock(folder / _LOCK, timeout=0):
                shutil.rmtree(folder, ignore_errors=True)
