"""Stopping: what is waited for ends, nothing further begins, and who stopped is told."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from nnjit_studio.support.stopping import Stop, Stopped, check, ended_by_stop, stoppable


def test_a_process_that_is_waited_for_is_ended() -> None:
    stop, told = Stop(), []
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

    def work() -> None:
        try:
            with stoppable(stop), ended_by_stop(process.kill):
                threading.Timer(0.05, stop.set).start()
                process.wait()
                raise RuntimeError("it died")
        except BaseException as error:
            told.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert process.poll() is not None
    assert isinstance(told[0], Stopped)


def test_nothing_begins_once_it_was_stopped() -> None:
    stop = Stop()
    stop.set()
    with pytest.raises(Stopped), stoppable(stop):
        check()
    with pytest.raises(Stopped), stoppable(stop), ended_by_stop(lambda: None):
        pytest.fail("it began")


def test_work_that_nobody_may_stop_is_left_alone() -> None:
    stop = Stop()
    with stoppable(stop), ended_by_stop(lambda: pytest.fail("it has ended")):
        check()
    stop.set()
    check()
    with pytest.raises(ValueError, match="as it was"), stoppable(Stop()):
        raise ValueError("as it was")
