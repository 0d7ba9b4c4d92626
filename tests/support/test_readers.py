"""Work in processes that have limits: what they find, and how each end is told."""

from __future__ import annotations

import os
import signal
import struct
import sys
import threading
import time

import pytest

from nnjit_studio.errors import WasmError
from nnjit_studio.support import limits, readers
from nnjit_studio.support.readers import Ended, spread
from nnjit_studio.support.stopping import Stop, Stopped, stoppable


def work(job: str) -> str:
    """Does what its job says."""
    if job == "wait":
        time.sleep(1.0)
    if job == "compute":
        sum(range(10**11))
    if job == "take memory":
        bytearray(2 * limits.MEMORY_BYTES)
    if job == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if job == "die within its answer":
        os.write(sys._getframe(1).f_locals["pipe"].fileno(), struct.pack("!i", 100) + b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    if job == "hang":
        time.sleep(600)
    if job == "refuse":
        raise WasmError("It is none.", "Take another.")
    return job * 2


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine starts processes late."""
    monkeypatch.setattr(readers, "PATIENCE", 1000)


def test_waiting_is_no_time_of_the_file() -> None:
    assert sorted(spread(work, ["wait", "a", "b"], 0.3)) == ["aa", "bb", "waitwait"]


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ("compute", r"took more than 0\.3 s of processor time"),
        ("take memory", "took more than 4 GiB of memory"),
        ("die", "its process died .exit code -9"),
        ("die within its answer", "its process died .exit code -9"),
    ],
)
def test_how_it_ended_is_told(job: str, why: str) -> None:
    with pytest.raises(Ended, match=why):
        list(spread(work, [job], 0.3))


class Deadly:
    """Ends the process that is to do it, which has not read its job then."""

    def __call__(self, job: str) -> str:
        return job

    def __reduce__(self) -> tuple[object, ...]:
        return os._exit, (3,)


def test_a_process_that_does_not_come_up_is_told() -> None:
    with pytest.raises(Ended, match=r"its process died .exit code 3"):
        list(spread(Deadly(), ["job"], 60))


def test_an_error_keeps_its_next_step() -> None:
    with pytest.raises(WasmError, match="It is none") as told:
        list(spread(work, ["refuse"], 60))
    assert told.value.hint == "Take another."


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "PATIENCE", 0.01)
    with pytest.raises(Ended, match="not done after 1 s"):
        list(spread(work, ["hang"], 60))


def test_it_can_be_stopped() -> None:
    stop = Stop()
    threading.Timer(0.2, stop.set).start()
    with pytest.raises(Stopped), stoppable(stop):
        list(spread(work, ["hang"], 60))
