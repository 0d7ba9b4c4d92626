"""Reading a stranger's Wasm file in processes of its own, under limits of time and memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nnjit_studio.foreign_wasm.apart import Part, each, parts_of
from nnjit_studio.foreign_wasm.inspection.facts import FunctionFacts, facts
from nnjit_studio.wasm_file.module import Module, Section

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
    parts = parts_of(path, PART_BYTES, MOST_PARTS)
    found: list[Survey] = []
    for part in each(_survey_part, parts):
        found.append(part)
        if len(found) < len(parts):
            note(f"Reading {path.name}: {len(found)} of {len(parts)} parts.")
    return _joined(found)


def _survey_part(module: Module, part: Part) -> Survey:
    """A share of the functions, and of the first part the rest of the file."""
    return Survey(
        path=part.path,
        nbytes=len(module.data),
        sha256=hashlib.sha256(module.data).hexdigest() if part.first else "",
        imported=module.imported_functions,
        sections=module.sections if part.first else (),
        functions=tuple(facts(module, part.functions(module))),
        names=dict(module.names) if part.first else {},
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
