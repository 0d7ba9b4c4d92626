"""Whole functions before and after, run on random memory and arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.turbo.gate.engines import Engine
from nnjit_studio.foreign_wasm.turbo.gate.gate import Settings
from nnjit_studio.foreign_wasm.turbo.loops.operators import LOOP
from nnjit_studio.wasm_file import edit
from nnjit_studio.wasm_file.instructions import decode
from nnjit_studio.wasm_file.module import Module, read

PAGES = 16
"""Of the memory that a lifted function gets."""
_COUNT_DOWN = bytes.fromhex("4100 4100 280200 4101 6b 360200 4100 280200 45 0440 00 0b")
"""Takes one from the number at address 0, and stops the function when none is left."""


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


def counted(body: bytes) -> bytes:
    """The body with a count of its loops' iterations, so that no arguments keep it busy."""
    pieces: list[bytes] = []
    code = decode(body).instructions
    pieces.append(body[: code[0].start])
    for instruction in code:
        pieces.append(body[instruction.start : instruction.end])
        if instruction.opcode == LOOP:
            pieces.append(_COUNT_DOWN)
    return b"".join(pieces)


def executed(
    module: Module,
    new: Mapping[int, bytes],
    engine: Engine,
    folder: Path,
    settings: Settings,
    written: Sequence[bytes],
) -> tuple[list[Executed], list[bool]]:
    """Run old and new functions, and validate whole modules.

    Returns
    -------
    tuple
        One row for each function; for each of ``written`` whether the engine takes it.
    """
    rows: list[Executed] = []
    pairs: list[dict[str, Any]] = []
    for index, body in new.items():
        try:
            pairs.append(_pair(module, index, body, folder))
        except WasmError as error:
            rows.append(Executed(index, error=error.error))
    for n, data in enumerate(written):
        (folder / f"whole{n}.wasm").write_bytes(data)
    job = {
        "settings": asdict(settings),
        "functions": [],
        "pairs": pairs,
        "modules": [f"whole{n}.wasm" for n in range(len(written))],
    }
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
    for name, code in zip(names.values(), (module.body(index), body), strict=True):
        changed = read(edit.replace(module, {index: counted(code)}))
        lifted = edit.lift(changed, [index], PAGES)
        (folder / name).write_bytes(lifted)
        imports = [i.name for i in read(lifted).imports if i.kind == "func"]
    return {
        "index": index,
        **names,
        "params": list(module.type_of(index).params),
        "imports": imports,
    }
