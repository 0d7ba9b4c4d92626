"""Reading a stranger's Wasm file in processes of its own, under limits of time and memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.inspection.facts import FunctionFacts, facts
from nnjit_studio.support.limits import seconds_for
from nnjit_studio.support.readers import Ended, spread
from nnjit_studio.wasm_file.module import MAX_BYTES, Module, Section, read

PART_BYTES = 1 << 20
"""Of a file that a process looks through at a time."""
MOST_PARTS = 16


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


def survey_file(path: Path, note: Callable[[str], object] = lambda text: None) -> Survey:
    """Read a Wasm file; the work is split over the processors. ``note`` gets how far it is.

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
    count = min(MOST_PARTS, nbytes // PART_BYTES + 1)
    jobs = [(path, n, count) for n in range(count)]
    parts: list[Survey] = []
    try:
        for part in spread(_survey_part, jobs, seconds_for(nbytes)):
            parts.append(part)
            if len(parts) < count:
                note(f"Reading {path.name}: {len(parts)} of {count} parts.")
        return _joined(parts)
    except Ended as e:
        raise WasmError(f"Reading {path} {e}.", e.hint) from e
    except OSError as e:
        raise _unread(path, e) from e
    except WasmError as e:
        said = e.error[:1].lower() + e.error[1:]
        raise WasmError(f"The file {path} cannot be read: {said}", e.hint) from e


def _unread(path: Path, error: OSError) -> WasmError:
    return WasmError(f"The file {path} cannot be read: {error.strerror}.", "Check the name.")


@cache
def _module(path: Path) -> tuple[bytes, Module]:
    data = path.read_bytes()
    return data, read(data)


def _survey_part(job: tuple[Path, int, int]) -> Survey:
    """A share of the functions, and of the first part the rest of the file."""
    path, n, of = job
    data, module = _module(path)
    first = n == 0
    return Survey(
        path=path,
        nbytes=len(data),
        sha256=hashlib.sha256(data).hexdigest() if first else "",
        imported=module.imported_functions,
        sections=module.sections if first else (),
        functions=tuple(facts(module, module.share(n, of))),
        names=dict(module.names) if first else {},
        callers={},
    )


def _joined(parts: Sequence[Survey]) -> Survey:
    surveys = sorted(parts, key=lambda s: not s.sha256)
    functions = sorted((f for s in surveys for f in s.functions), key=lambda f: f.index)
    callers: dict[int, list[int]] = {}
    for function in functions:
        for callee in function.callees:
            callers.setdefault(callee, []).append(function.index)
    found = {callee: tuple(calling) for callee, calling in callers.items()}
    return replace(surveys[0], functions=tuple(functions), callers=found)
