"""Faster forms of modules that were made before: one of each module and engine, in the cache.

Each update of an engine or of a module leaves one behind, so those used longest ago go.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import platformdirs

from nnjit_studio.foreign_wasm.turbo.gate.engines import engine_of
from nnjit_studio.foreign_wasm.turbo.job import Note, TurboOptions, turbo

MOST_KEPT = 8
"""Of 14 MB each for ONNX Runtime Web's module."""


def kept_turbo(module: Path, options: TurboOptions, folder: Path | None = None) -> Path:
    """Where the faster form of a module is, or would be, as these options make it.

    Parameters
    ----------
    folder
        Of the cache; by default the user's.

    Raises
    ------
    TargetError
        When the engine of the options is not there.
    """
    version = engine_of(options.target, options.no_sandbox).version
    passes = "-".join(word for word in ("fma", "kernels") if getattr(options, word))
    made_by = hashlib.sha256(f"{version} {passes}".encode()).hexdigest()
    made_of = hashlib.sha256(module.read_bytes()).hexdigest()
    folder = folder or Path(platformdirs.user_cache_dir("nnjit-studio", appauthor=False)) / "turbo"
    return folder / f"{made_of[:16]}-{made_by[:8]}" / f"{module.stem}.turbo.wasm"


def make_turbo(module: Path, options: TurboOptions, note: Note, folder: Path | None = None) -> Path:
    """The faster form of a module, made if it is not in the cache, which keeps those used last.

    Raises
    ------
    UserError, TargetError, PageError
        As :func:`~nnjit_studio.foreign_wasm.turbo.job.turbo`; nothing is kept then.
    """
    place = kept_turbo(module, options, folder)
    if not place.is_file():
        turbo(module, place, options, note)
    os.utime(place.parent)
    others = sorted(place.parent.parent.iterdir(), key=lambda kept: -kept.stat().st_mtime)
    for old in others[MOST_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return place
