"""The compile process: models are parsed and kernels are made here, under limits."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from multiprocessing.connection import Connection

from nnjit_studio.compiler.process import codec
from nnjit_studio.compiler.process.handlers.registry import State, handler_of
from nnjit_studio.compiler.process.operations import OPERATIONS, Failure
from nnjit_studio.errors import BugError, NnjitError, UserError


def serve(pipe: Connection, chatter_file: str, memory_bytes: int, ahead: bool = False) -> None:
    """Main loop of the child; ends when the parent closes the pipe.

    ``ahead`` loads the importer before the first job asks for it: TVM takes a second.
    """
    chatter = os.open(chatter_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(chatter, 1)
    os.dup2(chatter, 2)
    _limit_memory(memory_bytes)
    # TVM imports PyTorch where it is installed; its libraries alone can map more than the limit.
    sys.modules["torch"] = None  # type: ignore[assignment]
    # Ctrl-C goes to every process of the terminal; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(5)  # what is measured on the same cores goes first
    state = State(lambda phase: codec.send(pipe, "phase", phase))
    if ahead:
        import nnjit_studio.compiler.importer  # noqa: F401
    with contextlib.suppress(EOFError, OSError):
        while True:
            kind, body = codec.receive(pipe)
            _answer(pipe, state, kind, body)


def _answer(pipe: Connection, state: State, kind: str, body: bytes) -> None:
    """Send the reply to a request, or how it failed."""
    try:
        row = OPERATIONS[kind]
        codec.send(pipe, "reply", handler_of(row)(state, codec.decode(body, row.request)))
        if row.loads:
            _settle()
    except NnjitError as e:
        codec.send(pipe, "failure", Failure(e.error, e.hint, type(e).__name__))
    except MemoryError:
        full = "The compile process ran out of memory."
        hint = "Close other programs or split the model."
        codec.send(pipe, "failure", Failure(full, hint, UserError.__name__))
    except Exception as e:
        text = f"The compile process failed: {type(e).__name__}: {e}"[:500]
        hint = "Please report this with the log."
        codec.send(pipe, "failure", Failure(f"{text}.", hint, BugError.__name__))


def _limit_memory(memory_bytes: int) -> None:
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _settle() -> None:
    """Keep what is loaded out of later garbage collections.

    With TVM loaded a full collection walks its objects for 40 to 80 ms, in the
    middle of some candidate's compilation: without this it was the 99th percentile.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
