"""The compile process: models are parsed and kernels are made here, under limits."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import signal
import sys
import tempfile
import threading
from contextlib import nullcontext, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from nnjit_studio.compiler.onnx_file.budget import limited, progress
from nnjit_studio.compiler.process import codec
from nnjit_studio.compiler.process.handlers.registry import State, handler_of
from nnjit_studio.compiler.process.operations import Failure
from nnjit_studio.compiler.process.sandbox import confine
from nnjit_studio.compiler.process.table import OPERATIONS, Operation
from nnjit_studio.errors import BugError, ModelError, NnjitError, UserError
from nnjit_studio.support.freed_memory import few_arenas
from nnjit_studio.support.garbage import look_seldom

IMPORTER = "nnjit_studio.compiler.process.handlers.models"
MEASURED_BESIDE = ("compile_kernel", "seeded_fixture")
"""Jobs beside which kernels may be measured."""


def serve(pipe: Connection, chatter_file: str, memory_bytes: int, ahead: bool = False) -> None:
    """Main loop of the child; ends when the parent closes the pipe.

    ``ahead`` loads the importer before the first job asks for it: TVM takes a second, or half a
    minute on a busy machine. A file is read meanwhile: that needs no TVM.
    """
    chatter = os.open(chatter_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(chatter, 1)
    os.dup2(chatter, 2)
    _limit_memory(memory_bytes)
    few_arenas()
    look_seldom()
    confined = confine((Path(tempfile.gettempdir()), Path(os.devnull)))
    # TVM imports PyTorch where it is installed; its libraries alone can map more than the limit.
    sys.modules["torch"] = None  # type: ignore[assignment]
    # Ctrl-C goes to every process of the terminal; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def phase(name: str) -> None:
        progress()
        codec.send(pipe, "phase", name)

    state = State(phase, partial(codec.send, pipe, "programs"), confined)
    if ahead:
        load = partial(importlib.import_module, IMPORTER)
        threading.Thread(target=load, name="load-importer", daemon=True).start()
    first = True
    with suppress(EOFError, OSError):
        while True:
            kind, body = codec.receive(pipe)
            if first and kind in MEASURED_BESIDE and hasattr(os, "nice"):
                # From now on kernels may be measured on the same cores, which go first; until then
                # a user waits for a model to open.
                os.nice(5)
                first = False
            _answer(pipe, state, kind, body)


def _answer(pipe: Connection, state: State, kind: str, body: bytes) -> None:
    """Send the reply to a request, or how it failed."""
    row, subject = OPERATIONS[kind], ""
    try:
        request = codec.decode(body, row.request, f"request of {kind}")
        subject = row.subject(request)
        handler = handler_of(row)
        given = dict(zip(row.types, request, strict=False))
        budget = limited(_size(given["path"]), row.imports) if row.imports else nullcontext()
        with budget:
            reply = handler(state, **given)
        codec.send(pipe, "reply", reply)
        if row.loads and (row.imports or not state.settled):
            _settle(state)  # a kernel that was only spelled out leaves little
    except Exception as e:
        codec.send(pipe, "failure", _failure(row, subject, e))


def _failure(row: Operation, named: str, error: Exception) -> Failure:
    """An error as the parent raises it; those of a stranger's file are not the Studio's."""
    subject = named or "The compile process"
    text = f"{type(error).__name__}: {error}"[:500]
    if isinstance(error, NnjitError):
        text, hint, kind = error.error, error.hint, type(error)
    elif isinstance(error, MemoryError):
        allowed = "a file of its size is allowed" if row.imports else "there is"
        text = f"{subject} needs more memory than {allowed}."
        hint, kind = "Close other programs or split the model.", UserError
    elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        text = f"{subject} found no room in {tempfile.gettempdir()!r}."
        hint, kind = "Make room, or set TMPDIR to another folder.", UserError
    elif isinstance(error, ImportError):
        text = f"{subject} failed: a package of the Studio does not load: {error}."
        hint, kind = "Install the Studio again; its packages stand in pyproject.toml.", UserError
    elif named:
        text = f"{subject} failed: {text}."
        hint, kind = (
            "The file may be damaged; if other programs read it, please report it.",
            ModelError,
        )
    else:
        text = f"{subject} failed: {text}."
        hint, kind = "Please report this with the log.", BugError
    return Failure(text, hint, kind.__name__)


def _limit_memory(memory_bytes: int) -> None:
    if sys.platform == "linux":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        allowed = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
        resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _settle(state: State) -> None:
    """Keep what is loaded out of later garbage collections.

    With TVM loaded a full collection walks its objects for 40 to 80 ms, in the
    middle of some candidate's compilation: without this it was the 99th percentile.
    What was kept out before the first model is no model's, and stays so.
    """
    if state.settled:
        gc.unfreeze()
    state.settled = True
    gc.collect()
    gc.freeze()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # the job says it better
        return 0
