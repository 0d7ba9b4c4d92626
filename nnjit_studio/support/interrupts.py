"""Ctrl-C, and the signals with which terminals and system managers end a program: all alike."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


@contextlib.contextmanager
def interrupts(handle: Callable[[int], None]) -> Iterator[None]:
    """Call ``handle`` with the number of each such signal, in the main thread.

    One that is ignored (``nohup``) stays so, but for Ctrl-C: shells ignore it for what they start
    in the background, and whoever sends it there means it.
    """
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    heard = [n for n in numbers if n == signal.SIGINT or signal.getsignal(n) != signal.SIG_IGN]
    before = {n: signal.signal(n, lambda number, frame: handle(number)) for n in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Processes that this thread starts meanwhile do not hear Ctrl-C, from their first moment.

    It goes to every process of a terminal, and the one in front decides what it means. Where a
    system has no masks of signals, a process hears it until it says otherwise.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # its own start would end the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stop(number: int) -> None:
    """As Python does on Ctrl-C."""
    raise KeyboardInterrupt
