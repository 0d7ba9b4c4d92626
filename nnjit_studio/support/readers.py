"""Work on a stranger's file, in processes of its own that have limits."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from typing import Any, TypeVar

from nnjit_studio.support.interrupts import unheard
from nnjit_studio.support.limits import (
    MEMORY_BYTES,
    PATIENCE,
    end_after,
    limit_this_process,
    ran_out,
)
from nnjit_studio.support.processes import usable_cores
from nnjit_studio.support.stopping import check

MOST = 4
"""Processes at a time."""
LOOK_S = 0.1

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


class Ended(Exception):
    """The work was ended; the text says why, as the end of a sentence, ``hint`` what to do."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.hint = hint


def spread(
    work: Callable[[_Job], _Result], jobs: Sequence[_Job], seconds: float
) -> Iterator[_Result]:
    """Results of the jobs as they are done, each process doing one job at a time.

    Parameters
    ----------
    work
        What is done with a job, a function of a module. What it raises is raised here.
    seconds
        Processor time that a job may take.

    Raises
    ------
    Ended
        When a job took too much memory or time, or its process died.
    Stopped
    """
    context, waiting = multiprocessing.get_context("spawn"), list(reversed(jobs))
    with contextlib.ExitStack() as stack:
        busy: dict[Any, _Reader] = {}
        for _ in range(min(MOST, usable_cores(), len(jobs))):
            reader = stack.enter_context(contextlib.closing(_Reader(context, work, seconds)))
            reader.give(waiting.pop())
            busy[reader.pipe] = reader
        while busy:
            check()
            for pipe in wait(list(busy), LOOK_S):
                yield busy[pipe].answer()
                if waiting:
                    busy[pipe].give(waiting.pop())
                else:
                    del busy[pipe]
            if any(time.monotonic() > reader.deadline for reader in busy.values()):
                raise Ended(
                    f"was not done after {PATIENCE * seconds:.0f} s",
                    "Try again when the machine is less busy.",
                )


class _Reader:
    """A process, and by when it has to answer."""

    def __init__(self, context: SpawnContext, work: Callable[..., Any], seconds: float) -> None:
        self.pipe, theirs = context.Pipe()
        self._seconds = seconds
        self._process = context.Process(target=_serve, args=(theirs, work, seconds), daemon=True)
        with unheard():
            self._process.start()
        theirs.close()

    def give(self, job: object) -> None:
        self.deadline = time.monotonic() + PATIENCE * self._seconds
        with contextlib.suppress(OSError):  # the missing answer says why
            self.pipe.send(job)

    def answer(self) -> Any:
        try:
            result, error, trace = self.pipe.recv()
        except (EOFError, OSError):  # it died: before its job, after it, or within its answer
            raise self._ended() from None
        if isinstance(error, MemoryError):
            raise Ended(f"took more than {MEMORY_BYTES >> 30} GiB of memory")
        if error is not None:
            raise error from RuntimeError(trace)
        return result

    def _ended(self) -> Ended:
        self._process.join()
        if ran_out(self._process.exitcode):
            return Ended(
                f"took more than {self._seconds:.3g} s of processor time",
                "The file may be damaged; if other programs read it, please report it.",
            )
        return Ended(
            f"ended: its process died (exit code {self._process.exitcode})",
            "The machine may be short of memory: close other programs and try again.",
        )

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()


def _serve(pipe: Connection, work: Callable[[Any], Any], seconds: float) -> None:
    limit_this_process()
    with contextlib.suppress(EOFError, OSError):  # nobody asks any more
        while True:
            job, result, error, trace = pipe.recv(), None, None, ""
            end_after(seconds)
            try:
                result = work(job)
            except Exception as e:
                error, trace = e, traceback.format_exc()
            end_after(0)
            pipe.send((result, error, trace))
