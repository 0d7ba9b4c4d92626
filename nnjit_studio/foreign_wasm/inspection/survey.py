"""Reading a stranger's Wasm file in processes of its own, under limits of time and memory."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnjit_studio.errors import NnjitError, WasmError
from nnjit_studio.foreign_wasm.inspection.facts import FunctionFacts, facts
from nnjit_studio.support.interrupts import unheard
from nnjit_studio.support.limits import MEMORY_BYTES, limit_this_process
from nnjit_studio.support.processes import usable_cores
from nnjit_studio.wasm_file.module import MAX_BYTES, Module, Section, read

TIMEOUT_S = 120.0
WORKERS = 4
LOOK_S = 0.1
SMALL_BYTES = 1 << 20
"""A smaller file is not worth a second process."""


@dataclass(frozen=True)
class Survey:
    """A file's functions, with names and direct callers by index, and its sections.

    ``imported`` counts the functions that it imports: their indices come first.
    """

    path: Path
    nbytes: int
    sha256: str
    imported: int
    sections: tuple[Section, ...]
    functions: tuple[FunctionFacts, ...]
    names: dict[int, str]
    callers: dict[int, tuple[int, ...]]

    def name(self, index: int) -> str:
        """The function's name, empty when it has none."""
        return self.names.get(index, "")


def survey_file(
    path: Path, timeout_s: float = TIMEOUT_S, stopped: Callable[[], bool] = lambda: False
) -> Survey:
    """Read a Wasm file; the work is split over the processors.

    ``stopped`` is asked ten times a second whether to give up.

    Raises
    ------
    WasmError
        When the file cannot be read or is no module, reading takes more time or
        memory than allowed, or was stopped.
    """
    try:
        nbytes = path.stat().st_size
    except OSError as e:
        raise WasmError(f"The file {path} cannot be read: {e.strerror}.", "Check the name.") from e
    if nbytes > MAX_BYTES:
        raise WasmError(f"The file {path} has {nbytes} bytes, more than any engine takes.")
    workers = 1 if nbytes < SMALL_BYTES else min(WORKERS, usable_cores())
    context = multiprocessing.get_context("spawn")
    with unheard():
        pool = context.Pool(workers, limit_this_process)
    with pool:
        jobs = [(path, n, workers) for n in range(workers)]
        reading = pool.starmap_async(_read_part, jobs)
        deadline = time.monotonic() + timeout_s
        while not reading.ready():
            if stopped():
                raise WasmError(f"Reading {path} was stopped.")
            if time.monotonic() >= deadline:
                raise WasmError(
                    f"Reading {path} took more than {timeout_s:.0f} s.",
                    "Try a smaller file, or one that is not damaged.",
                )
            reading.wait(LOOK_S)
        return _joined(path, reading.get())


@dataclass(frozen=True)
class _Part:
    """What one process found, or why it could not read."""

    survey: Survey | None
    error: str = ""
    hint: str = ""


def _read_part(path: Path, n: int, of: int) -> _Part:
    try:
        return _Part(_survey_part(path, n, of))
    except NnjitError as e:
        return _Part(None, f"The file {path} cannot be read: {_lower(e.error)}", e.hint)
    except OSError as e:
        return _Part(None, f"The file {path} cannot be read: {e.strerror}.", "Check the name.")
    except MemoryError:
        return _Part(None, f"Reading {path} took more than {MEMORY_BYTES >> 30} GiB of memory.")


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _survey_part(path: Path, n: int, of: int) -> Survey:
    import hashlib

    data = path.read_bytes()
    module = read(data)
    functions = tuple(facts(module, _share(module, n, of)))
    first = n == 0
    return Survey(
        path=path,
        nbytes=len(data),
        sha256=hashlib.sha256(data).hexdigest() if first else "",
        imported=module.imported_functions,
        sections=module.sections if first else (),
        functions=functions,
        names=dict(module.names) if first else {},
        callers={},
    )


def _share(module: Module, n: int, of: int) -> Sequence[int]:
    """Every ``of``-th function by size, so that each process gets as many bytes."""
    first = module.imported_functions
    sizes = [end - start for start, end in module.bodies]
    ranked = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    return sorted(i + first for i in ranked[n::of])


def _joined(path: Path, parts: Sequence[_Part]) -> Survey:
    surveys: list[Survey] = []
    for part in parts:
        if part.survey is None:
            raise WasmError(part.error, part.hint)
        surveys.append(part.survey)
    functions = sorted((f for s in surveys for f in s.functions), key=lambda f: f.index)
    callers: dict[int, list[int]] = {}
    for function in functions:
        for callee in function.callees:
            callers.setdefault(callee, []).append(function.index)
    first = surveys[0]
    return Survey(
        path,
        first.nbytes,
        first.sha256,
        first.imported,
        first.sections,
        tuple(functions),
        first.names,
        {callee: tuple(found) for callee, found in callers.items()},
    )
