"""Inputs that a user gave a file, kept for its next opening by the file's content."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs

from nnjit_studio.errors import UserError
from nnjit_studio.model.survey import Survey
from nnjit_studio.support.files import replacing
from nnjit_studio.workbench.inputs.values import Arrays, read_npz

MOST_BYTES = 64 << 20
"""Of the inputs of one file."""
MOST_FILES = 40
"""Files whose inputs are kept, those that were given last."""


def folder() -> Path:
    """Where they lie, in the user's data."""
    return Path(platformdirs.user_data_dir("nnjit-studio", appauthor=False)) / "inputs"


def keep(sha256: str, arrays: Arrays) -> str:
    """Keep the inputs of a file; empty, or a sentence that says why they are not kept."""
    if sum(array.nbytes for array in arrays.values()) > MOST_BYTES:
        forget(sha256)  # what was given before them would come back in their place
        return f"Inputs of more than {MOST_BYTES >> 20} MiB are not kept for the next opening."
    path, held = _path(sha256), dict[str, Any](arrays)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as place, place.open("wb") as file:
            np.savez(file, **held)
        for old in sorted(path.parent.glob("*.npz"), key=_written, reverse=True)[MOST_FILES:]:
            old.unlink(missing_ok=True)
    except OSError as error:
        return f"The inputs are not kept for the next opening: {error.strerror}."
    return ""


def kept(survey: Survey) -> Arrays | None:
    """All inputs of a file, as they were given last; None for none, or where they do not fit."""
    path = _path(survey.sha256)
    if not path.is_file():
        return None
    try:
        found = read_npz(path, survey)
    except UserError:
        return None
    return found if set(found) == {port.name for port in survey.inputs} else None


def is_kept(sha256: str) -> bool:
    """Whether inputs are kept for a file."""
    return _path(sha256).is_file()


def forget(sha256: str) -> None:
    """Keep nothing of a file's inputs any more."""
    with contextlib.suppress(OSError):
        _path(sha256).unlink(missing_ok=True)


def _path(sha256: str) -> Path:
    return folder() / f"{sha256}.npz"


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another window took it away
        return 0.0
