"""The compile process as its parent sees it: started, asked, killed, started anew."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nnjit_studio.compiler.process import codec, worker
from nnjit_studio.compiler.process.operations import Failure
from nnjit_studio.compiler.process.table import OPERATIONS, Operation
from nnjit_studio.errors import BugError, ModelError, NnjitError, UnsupportedOpError, UserError
from nnjit_studio.support.interrupts import unheard
from nnjit_studio.support.limits import SECONDS, ran_out
from nnjit_studio.support.phases import OnPhase, quiet
from nnjit_studio.support.temporary import process_folder

NO_PROGRAMS: Mapping[str, bytes] = MappingProxyType({})
ERRORS: dict[str, type[NnjitError]] = {
    c.__name__: c for c in (ModelError, UnsupportedOpError, UserError)
}
"""Errors that keep their class on the way; any other is a bug where a kernel is not to blame."""


def spawned(pipe: Connection, chatter_file: str, memory_bytes: int, ahead: bool) -> SpawnProcess:
    """A compile process as a fresh Python, which shares nothing with this one."""
    process = multiprocessing.get_context("spawn").Process(
        target=worker.serve,
        args=(pipe, chatter_file, memory_bytes, ahead),
        name="nnjit-compile",
        daemon=True,
    )
    # Measured kernels share the cores: the reference's BLAS stays on one.
    with _environment(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1"), unheard():
        process.start()
    return process


class _Lost(Exception):
    """The process is gone, or too late: the text says why."""


class Child:
    """A process that does one job at a time. Thread-safe.

    A job that is late or dies costs that job alone: the process is started
    anew and gets the programs back that it made.

    Attributes
    ----------
    running
        The operation that runs, with its arguments; None where none does.
    programs
        By workload key, as the process has made them or been given.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()
        self.process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self.programs: dict[str, bytes] = {}
        self._killed = threading.Event()
        self.running: tuple[str, tuple[Any, ...]] | None = None
        handle, self._chatter = tempfile.mkstemp(".log", "compile-", process_folder())
        os.close(handle)

    def start(self) -> None:
        """Start the process, and have it load the importer, ahead of its first import; harmless
        when it runs.
        """
        with self._lock:
            self._ensure(ahead=True)

    def close(self) -> None:
        self.kill()
        with contextlib.suppress(OSError):
            os.unlink(self._chatter)

    def kill(self) -> None:
        """End whatever runs; a waiting caller gets its error. For any thread."""
        self._killed.set()
        process = self.process
        if process is not None and process.is_alive():
            process.kill()
            process.join()

    def call(
        self,
        name: str,
        arguments: tuple[Any, ...],
        on_phase: OnPhase = quiet,
        programs: Mapping[str, bytes] = NO_PROGRAMS,
    ) -> Any:
        """Have an operation done; its programs are kept for the next process.

        ``programs`` of another process are what it works on.

        Raises
        ------
        NnjitError
            As the row of the operation says.
        """
        row = OPERATIONS[name]
        with self._lock:
            self.running = name, arguments
            try:
                pipe = self._ensure()
                if given := {k: v for k, v in programs.items() if k not in self.programs}:
                    self._exchange(pipe, "restore", (given,))
                    self.programs.update(given)
                reply = self._exchange(pipe, name, arguments, on_phase)
            except _Lost as e:
                raise _loss(row, arguments, f"{e}.") from None
            finally:
                self.running = None
            if isinstance(reply, Failure):
                raise (row.raises or ERRORS.get(reply.name, BugError))(reply.error, reply.hint)
            return reply

    def _ensure(self, ahead: bool = False) -> Connection:
        if self.process is not None and self.process.is_alive() and self._pipe is not None:
            return self._pipe
        ours, theirs = multiprocessing.Pipe()
        self.process = spawned(theirs, self._chatter, self._memory_bytes, ahead)
        theirs.close()
        self._pipe = ours
        if self.programs:
            self._exchange(ours, "restore", (self.programs,))
        return ours

    def _exchange(
        self, pipe: Connection, name: str, arguments: tuple[Any, ...], on_phase: OnPhase = quiet
    ) -> Any:
        row = OPERATIONS[name]
        types = {
            "reply": row.reply, "failure": Failure, "phase": str, "programs": dict[str, bytes],
        }  # fmt: skip
        self._killed.clear()
        try:
            codec.send(pipe, name, arguments)
            while True:
                if not pipe.poll(row.timeout_s):
                    raise _Lost(f"no answer within {row.timeout_s:.0f} s")
                kind, body = codec.receive(pipe)
                if self._killed.is_set():  # the pipe holds what was sent before
                    raise EOFError
                message = codec.decode(body, types.get(kind, row.reply), f"{kind} of {name}")
                if kind == "phase":
                    on_phase(message)
                elif kind == "programs":
                    self.programs.update(message)
                else:
                    return message
        except (EOFError, OSError):
            self.kill()
            raise _Lost(self._why_it_died()) from None
        except BaseException:
            self.kill()  # its answer must not be taken for that of the next job
            raise

    def _why_it_died(self) -> str:
        code = self.process.exitcode if self.process is not None else None
        if ran_out(code):
            return f"it computed for {SECONDS:.0f} s or more without getting on"
        lines = Path(self._chatter).read_text(errors="replace").strip().splitlines()
        said = f", its last words: {lines[-1][:200]}" if lines else ""
        return f"the compile process died (exit code {code}){said}"


def _loss(row: Operation, arguments: tuple[Any, ...], why: str) -> NnjitError:
    """A stranger's model can end the process, which is no bug of ours."""
    if row.lost:
        return ModelError(
            f"{row.subject(arguments)} ended: {why}",
            "The model may be damaged or too large for this machine.",
        )
    return (row.raises or BugError)(why)


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
