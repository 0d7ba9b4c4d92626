"""Long work that another thread stops: what it waits for is ended, and nothing further begins.

A thread says once who may stop it. The places that start a process lie many calls below, in code
that nobody stops on the command line, so they find that out by themselves.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from nnjit_studio.errors import UserError


class Stopped(UserError):
    """Somebody stopped the work."""

    def __init__(self) -> None:
        super().__init__("It was stopped.")


class Stop:
    """Stops the work of the threads that are :func:`stoppable` by it. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set = False
        self._ends: list[Callable[[], None]] = []

    def set(self) -> None:
        """End what is waited for now; the work raises :class:`Stopped` soon."""
        with self._lock:
            self._set = True
            ends = list(self._ends)
        for end in ends:
            end()

    @property
    def is_set(self) -> bool:
        return self._set

    @contextlib.contextmanager
    def holding(self, end: Callable[[], None]) -> Iterator[None]:
        """Within the block :meth:`set` also calls ``end``."""
        with self._lock:
            if self._set:
                raise Stopped
            self._ends.append(end)
        try:
            yield
        finally:
            with self._lock:
                self._ends.remove(end)


_NOW: ContextVar[Stop | None] = ContextVar("_NOW", default=None)


@contextlib.contextmanager
def stoppable(stop: Stop) -> Iterator[None]:
    """Let ``stop`` end the work of this thread within the block.

    Raises
    ------
    Stopped
        In place of whatever error comes of a process that was ended.
    """
    before = _NOW.set(stop)
    try:
        yield
    except Exception:
        if stop.is_set:
            raise Stopped from None
        raise
    finally:
        _NOW.reset(before)


def check() -> None:
    """Raise :class:`Stopped` where this thread's work was stopped."""
    stop = _NOW.get()
    if stop is not None and stop.is_set:
        raise Stopped


@contextlib.contextmanager
def ended_by_stop(end: Callable[[], None]) -> Iterator[None]:
    """Within the block, whoever stops this thread's work calls ``end``, which must not wait."""
    stop = _NOW.get()
    with contextlib.nullcontext() if stop is None else stop.holding(end):
        yield
