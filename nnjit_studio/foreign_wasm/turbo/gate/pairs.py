"""Whole functions before and after, run on random memory and arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.turbo.gate.engines import Engine
from nnjit_studio.foreign_wasm.turbo.gate.gate import Settings, job_of
from nnjit_studio.foreign_wasm.turbo.loops.operators import LOOP
from nnjit_studio.wasm_file import edit
from nnjit_studio.wasm_file.instructions import decode
from nnjit_studio.wasm_file.module import Module, read

PAGES = 16
"""Of the memory that a lifted function gets."""
_COUNT_DOWN = "{0} {0} 280200 4101 6b 360200 {0} 280200 45 0440 00 0b"
"""Takes one from the number at an address, and stops the function when none is left."""


@dataclass(frozen=True)
class Executed:
    """A function's runs: how many cases, how many ended by themselves, how many were equal.

    ``error`` says why it did not run; then all are 0.
    """

    index: int
    cases: int = 0
    ended: int = 0
    equal: int = 0
    error: str = ""

    @property
    def right(self) -> bool:
        return self.equal == self.cases


def counted(body: bytes, wide: bool) -> bytes:
    """The body with a count of its loops' iterations, so that no arguments keep it busy.

    Parameters
    ----------
    wide
        Whether memory is addressed with 64 bits.
    """
    count_down = bytes.fromhex(_COUNT_DOWN.format("4200" if wide else "4100"))
    pieces: list[bytes] = []
    code = decode(body).instructions
    pieces.append(body[: code[0].start])
    for instruction in code:
        pieces.append(body[instruction.start : instruction.end])
        if instruction.opcode == LOOP:
            pieces.append(count_down)
    return b"".join(pieces)


@dataclass(frozen=True)
class Pairs:
    """Functions before and after, as files that a page runs, and those that cannot stand alone."""

    jobs: Sequence[dict[str, Any]]
    failed: Sequence[Executed]


def write_pairs(module: Module, new: Mapping[int, bytes], folder: Path) -> Pairs:
    """Write functions alone, as they are and with their new bodies, to a folder."""
    jobs: list[dict[str, Any]] = []
    failed: list[Executed] = []
    for index, body in new.items():
        try:
            jobs.append(_pair(module, index, body, folder))
        except WasmError as error:
            failed.append(Executed(index, error=error.error))
    return Pairs(jobs, failed)


def executed(
    pairs: Pairs, engine: Engine, folder: Path, settings: Settings, modules: Sequence[str]
) -> tuple[list[Executed], list[bool]]:
    """Run old and new functions, and validate whole modules, files of the folder.

    Returns
    -------
    tuple
        One row for each function; for each of ``modules`` whether the engine takes it.
    """
    rows = list(pairs.failed)
    job = job_of(settings, pairs=list(pairs.jobs), modules=list(modules))
    valid: list[bool] = []
    for row in engine.rows(job, folder):
        if "pair" in row:
            rows.append(Executed(**row["pair"]))
        else:
            valid.append(row["module"]["valid"])
    return rows, valid


def _pair(module: Module, index: int, body: bytes, folder: Path) -> dict[str, Any]:
    names = {"before": f"before{index}.wasm", "after": f"after{index}.wasm"}
    imports: list[str] = []
    wide = any(memory.in_64_bits for memory in module.memories[:1])
    for name, code in zip(names.values(), (module.body(index), body), strict=True):
        changed = read(edit.replace(module, {index: counted(code, wide)}))
        lifted = edit.lift(changed, [index], PAGES)
        (folder / name).write_bytes(lifted)
        imports = [i.name for i in read(lifted).imports if i.kind == "func"]
    return {
        "index": index,
        **names,
        "params": list(module.type_of(index).params),
        "imports": imports,
    }
