"""Reading a stranger's Wasm file in processes of its own, under limits of time and memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.inspection.facts import FunctionFacts, facts
from nnjit_studio.support.limits import seconds_for
from nnjit_studio.support.readers import MOST, Ended, spread
from nnjit_studio.wasm_file.module import MAX_BYTES, Module, Section, read

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


def survey_file(path: Path) -> Survey:
    """Read a Wasm file; the work is split over the processors.

    Raises
    ------
    WasmError
        When the file cannot be read or is no module, or reading takes more time or
        memory than allowed.
    Stopped
    """
    try:
        nbytes = path.stat().st_size
    except OSError as e:
        raise _unread(path, e) from e
    if nbytes > MAX_BYTES:
        raise WasmError(f"The file {path} has {nbytes} bytes, more than any engine takes.")
    parts = 1 if nbytes < SMALL_BYTES else max(1, min(MOST, os.cpu_count() or 1))
    jobs = [(path, n, parts) for n in range(parts)]
    try:
        return _joined(list(spread(_survey_part, jobs, seconds_for(nbytes))))
    except Ended as e:
        raise WasmError(f"Reading {path} {e}.", e.hint) from e
    except OSError as e:
        raise _unread(path, e) from e
    except WasmError as e:
        said = e.error[:1].lower() + e.error[1:]
        raise WasmError(f"The file {path} cannot be read: {said}", e.hint) from e


def _unread(path: Path, error: OSError) -> WasmError:
    return WasmError(f"The file {path} cannot be read: {error.strerror}.", "Check the name.")


def _survey_part(job: tuple[Path, int, int]) -> Survey:
    """What one process finds: its share of the functions, and the first the rest of the file."""
    path, n, of = job
    data = path.read_bytes()
    module = read(data)
    first = n == 0
    return Survey(
        path=path,
        nbytes=len(data),
        sha256=hashlib.sha256(data).hexdigest() if first else "",
        imported=module.imported_functions,
        sections=module.sections if first else (),
        functions=tuple(facts(module, _share(module, n, of))),
        names=dict(module.names) if first else {},
        callers={},
    )


def _share(module: Module, n: int, of: int) -> Sequence[int]:
    """Every ``of``-th function by size, so that each process gets as many bytes."""
    first = module.imported_functions
    sizes = [end - start for start, end in module.bodies]
    ranked = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    return sorted(i + first for i in ranked[n::of])


def _joined(parts: Sequence[Survey]) -> Survey:
    surveys = sorted(parts, key=lambda s: not s.sha256)
    functions = sorted((f for s in surveys for f in s.functions), key=lambda f: f.index)
    callers: dict[int, list[int]] = {}
    for function in functions:
        for callee in function.callees:
            callers.setdefault(callee, []).append(function.index)
    found = {callee: tuple(calling) for callee, calling in callers.items()}
    return replace(surveys[0], functions=tuple(functions), callers=found)
