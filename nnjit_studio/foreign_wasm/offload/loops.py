"""The loops of a file, found in processes of their own: a large file has tens of thousands."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from pathlib import Path

from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.offload.cases import Loop
from nnjit_studio.foreign_wasm.offload.detect import of_function
from nnjit_studio.foreign_wasm.offload.job import case_of
from nnjit_studio.foreign_wasm.offload.report import loop_json
from nnjit_studio.support.interrupts import unheard
from nnjit_studio.support.limits import limit_this_process
from nnjit_studio.support.processes import usable_cores
from nnjit_studio.support.stopping import check
from nnjit_studio.wasm_file.module import MAX_BYTES, Module, read

WORKERS = 4
SHARE_BYTES = 1 << 18
"""Of functions that a process looks through at a time."""
LOOK_S = 0.1


def find_loops(path: Path, note: Callable[[str], None]) -> list[Loop]:
    """All loops of a file with their verdicts, in the order of their functions.

    Raises
    ------
    WasmError
        When the file is no module, or too large.
    Stopped
    """
    if path.stat().st_size > MAX_BYTES:
        raise WasmError(f"{path.name} is larger than any engine takes.")
    shares = _shares(read(path.read_bytes()))
    context = multiprocessing.get_context("spawn")
    workers = min(WORKERS, usable_cores(), len(shares)) or 1
    found: list[Loop] = []
    with unheard():
        pool = context.Pool(workers, _begin, (path,))
    with pool:
        coming = pool.imap_unordered(_loops_of, shares)
        for done in range(len(shares)):
            note(f"looked through {done} of {len(shares)} parts of the file, {len(found)} loops")
            while True:
                check()
                try:
                    found += coming.next(LOOK_S)
                    break
                except multiprocessing.TimeoutError:
                    continue
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


_MODULE: Module


def _begin(path: Path) -> None:
    global _MODULE
    limit_this_process()
    _MODULE = read(path.read_bytes())


def _loops_of(functions: Sequence[int]) -> list[Loop]:
    found = [verdict for index in functions for verdict in of_function(_MODULE, index)]
    return [Loop(loop_json(verdict), case_of(verdict)) for verdict in found]
