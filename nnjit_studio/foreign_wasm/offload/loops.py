"""The loops of a file, found in processes of their own: a large file has tens of thousands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.offload.cases import Loop
from nnjit_studio.foreign_wasm.offload.detect import of_function
from nnjit_studio.foreign_wasm.offload.job import case_of
from nnjit_studio.foreign_wasm.offload.report import loop_json
from nnjit_studio.support.limits import seconds_for
from nnjit_studio.support.readers import Ended, spread
from nnjit_studio.wasm_file.module import MAX_BYTES, Module, read

SHARE_BYTES = 1 << 18
"""Of functions that a process looks through at a time."""


def find_loops(path: Path, note: Callable[[str], None]) -> list[Loop]:
    """All loops of a file with their verdicts, in the order of their functions.

    Raises
    ------
    WasmError
        When the file is no module, too large, or takes more time or memory than allowed.
    Stopped
    """
    nbytes = path.stat().st_size
    if nbytes > MAX_BYTES:
        raise WasmError(f"{path.name} is larger than any engine takes.")
    shares = _shares(read(path.read_bytes()))
    found: list[Loop] = []

    def tell(done: int) -> None:
        note(f"looked through {done} of {len(shares)} parts of the file, {len(found)} loops")

    tell(0)
    try:
        coming = spread(partial(_loops_of, path), shares, seconds_for(nbytes))
        for done, loops in enumerate(coming, 1):
            found += loops
            tell(done)
    except Ended as e:
        raise WasmError(f"Looking for loops in {path.name} {e}.", e.hint) from e
    return sorted(found, key=lambda loop: (loop.told["function"], loop.told["loop"]))


def _shares(module: Module) -> list[list[int]]:
    """Functions in parts of about equal bytes, so that the progress is even."""
    shares: list[list[int]] = [[]]
    nbytes = 0
    for index in module.defined:
        nbytes += len(module.body(index))
        shares[-1].append(index)
        if nbytes > SHARE_BYTES:
            shares.append([])
            nbytes = 0
    return [share for share in shares if share]


@cache
def _module(path: Path) -> Module:
    return read(path.read_bytes())


def _loops_of(path: Path, functions: Sequence[int]) -> list[Loop]:
    module = _module(path)
    found = [verdict for index in functions for verdict in of_function(module, index)]
    return [Loop(loop_json(verdict), case_of(verdict)) for verdict in found]
