"""Faster forms of modules that were made before: one of each module and engine, in the cache.

Each update of an engine or of a module leaves one behind, so those used longest ago go.
"""

from __future__ import annotations

import contextlib
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


def made_before(module: Path, options: TurboOptions, folder: Path | None = None) -> Path | None:
    """The faster form of a module if it is in the cache, which counts as a use of it.

    Raises
    ------
    TargetError
        When the engine of the options is not there.
    """
    place = kept_turbo(module, options, folder)
    if not place.is_file():
        return None
    with contextlib.suppress(OSError):  # a cache that may only be read still serves
        os.utime(place.parent)
    return place


def make_turbo(module: Path, options: TurboOptions, note: Note, folder: Path | None = None) -> Path:
    """The faster form of a module, made if it is not in the cache, which keeps those used last.

    Raises
    ------
    UserError, TargetError, PageError
        As :func:`~nnjit_studio.foreign_wasm.turbo.job.turbo`; nothing is kept then.
    """
    if found := made_before(module, options, folder):
        return found
    place = kept_turbo(module, options, folder)
    turbo(module, place, options, note)
    os.utime(place.parent)
    for old in sorted(place.parent.parent.iterdir(), key=_used, reverse=True)[MOST_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return place


def _used(kept: Path) -> float:
    try:
        return kept.stat().st_mtime
    except FileNotFoundError:  # another Studio has just removed it
        return 0
