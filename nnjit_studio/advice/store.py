"""The error that a user accepts of a model, remembered per file next to the kernel database."""

from __future__ import annotations

import json
from pathlib import Path

from nnjit_studio.advice.records import MAX_ERROR
from nnjit_studio.support.files import write_own_json

FILE = "accepted-errors.json"
LIMIT = 200


def accepted_error(folder: Path, model: Path) -> float:
    """What was last accepted of this model, else :data:`MAX_ERROR`."""
    return _all(folder).get(str(model.absolute()), MAX_ERROR)


def accept_error(folder: Path, model: Path, largest: float) -> None:
    """Remember the largest error that is accepted of a model.

    Raises
    ------
    UserError
        When the file cannot be written.
    """
    others = {p: e for p, e in _all(folder).items() if p != str(model.absolute())}
    newest = list(others.items())[-(LIMIT - 1) :]
    write_own_json(folder / FILE, dict([*newest, (str(model.absolute()), largest)]))


def _all(folder: Path) -> dict[str, float]:
    """Empty where nothing was accepted, or the file is none of ours."""
    try:
        found = json.loads((folder / FILE).read_text())
        return {str(path): float(error) for path, error in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
