"""The modules that turbo makes of a file, written by the process that reads the file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnjit_studio.foreign_wasm.turbo.candidates import Candidate
from nnjit_studio.foreign_wasm.turbo.choose import Kept, bodies
from nnjit_studio.foreign_wasm.turbo.gate.pairs import Pairs, write_pairs
from nnjit_studio.foreign_wasm.turbo.kernels.gate import with_donors
from nnjit_studio.foreign_wasm.turbo.kernels.guard import Donor
from nnjit_studio.wasm_file import edit
from nnjit_studio.wasm_file.module import Module


@dataclass(frozen=True)
class Form:
    """A module to be made: its file, what is kept in it, and whether products may be fused."""

    file: str
    kept: Kept
    donors: Mapping[int, Donor]
    fma: bool


@dataclass(frozen=True)
class Written:
    """``original`` is the hash of the file that was read, ``pairs`` those of the first form."""

    original: str
    pairs: Pairs


def write_modules(
    module: Module, candidates: Sequence[Candidate], forms: Sequence[Form], folder: Path
) -> Written:
    """Write each form, and the changed functions of the first alone, before and after.

    Raises
    ------
    BugError
        When the proof of a body fails.
    """
    new = [bodies(candidates, form.kept, form.fma) for form in forms]
    for form, changed in zip(forms, new, strict=True):
        data = with_donors(edit.replace(module, changed), form.donors)
        (folder / form.file).write_bytes(data)
    original = hashlib.sha256(module.data).hexdigest()
    return Written(original, write_pairs(module, new[0], folder))
