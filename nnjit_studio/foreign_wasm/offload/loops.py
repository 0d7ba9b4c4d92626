"""The loops of a file, found in processes of their own: a large file has tens of thousands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nnjit_studio.foreign_wasm.apart import Part, each, parts_of
from nnjit_studio.foreign_wasm.offload.cases import Loop
from nnjit_studio.foreign_wasm.offload.detect import of_function
from nnjit_studio.foreign_wasm.offload.job import case_of
from nnjit_studio.foreign_wasm.offload.report import loop_json
from nnjit_studio.wasm_file.module import Module

SHARE_BYTES = 1 << 18
"""Of a file that a process looks through at a time."""


def find_loops(path: Path, note: Callable[[str], None]) -> list[Loop]:
    """All loops of a file with their verdicts, in the order of their functions.

    Raises
    ------
    WasmError
        When the file is no module, too large, or takes more time or memory than allowed.
    Stopped
    """
    parts = parts_of(path, SHARE_BYTES)
    found: list[Loop] = []

    def tell(done: int) -> None:
        note(f"looked through {done} of {len(parts)} parts of the file, {len(found)} loops")

    tell(0)
    for done, loops in enumerate(each(_loops_of, parts), 1):
        found += loops
        tell(done)
    return sorted(found, key=lambda loop: (loop.told["function"], loop.told["loop"]))


def _loops_of(module: Module, part: Part) -> list[Loop]:
    functions = part.functions(module)
    found = [verdict for index in functions for verdict in of_function(module, index)]
    return [Loop(loop_json(verdict), case_of(verdict)) for verdict in found]
