"""The loops of a file, found in processes of their own: a large file has tens of thousands."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
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
"""Of a file that a process looks through at a time."""


def find_loops(path: Path, note: Callable[[str], None]) -> list[Loop]:
    """All loops of a file with their verdicts, in the order of their functions.

    Raises
    ------
    WasmError
        When the file is no module, too large, or takes more time or memory than allowed.
    Stopped
    """
    try:
        nbytes = path.stat().st_size
    except OSError as e:
        raise WasmError(f"{path.name} cannot be read: {e.strerror}.", "Check the name.") from e
    if nbytes > MAX_BYTES:
        raise WasmError(f"{path.name} is larger than any engine takes.")
    count = nbytes // SHARE_BYTES + 1
    jobs = [(path, n, count) for n in range(count)]
    found: list[Loop] = []

    def tell(done: int) -> None:
        note(f"looked through {done} of {count} parts of the file, {len(found)} loops")

    tell(0)
    try:
        coming = spread(_loops_of, jobs, seconds_for(nbytes))
        for done, loops in enumerate(coming, 1):
            found += loops
            tell(done)
    except Ended as e:
        raise WasmError(f"Looking for loops in {path.name} {e}.", e.hint) from e
    return sorted(found, key=lambda loop: (loop.told["function"], loop.told["loop"]))


@cache
def _module(path: Path) -> Module:
    return read(path.read_bytes())


def _loops_of(job: tuple[Path, int, int]) -> list[Loop]:
    path, n, of = job
    module = _module(path)
    found = [verdict for index in module.share(n, of) for verdict in of_function(module, index)]
    return [Loop(loop_json(verdict), case_of(verdict)) for verdict in found]
