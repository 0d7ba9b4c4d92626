"""Ctrl-C in a terminal reaches every process; those of a job leave it to the one in front."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from nnjit_studio.support.interrupts import unheard

_SAYS = "print('begun', flush=True); input(); print('ended')"


def run(code: str) -> subprocess.Popen[str]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", code], text=True, **pipes)


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no masks of signals")
def test_a_process_of_a_job_does_not_hear_ctrl_c() -> None:
    with unheard():
        process = run(_SAYS)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    os.kill(process.pid, signal.SIGINT)
    assert process.communicate("\n", 60) == ("ended\n", "")
    assert process.returncode == 0


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no masks of signals")
def test_one_that_spawns_the_first_process_of_its_program_neither() -> None:
    """Its own start of the tracker of resources unblocks the signal."""
    process = run(
        "import multiprocessing, os, signal, time\n"
        "from nnjit_studio.support.interrupts import unheard\n"
        "with unheard():\n"
        "    made = multiprocessing.get_context('spawn').Process(target=time.sleep, args=(0.2,))\n"
        "    made.start()\n"
        "os.kill(made.pid, signal.SIGINT)\n"
        "made.join()\n"
        "print(made.exitcode)\n"
    )
    assert process.communicate(timeout=120) == ("0\n", "")
