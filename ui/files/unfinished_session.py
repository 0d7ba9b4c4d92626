"""Tuning that did not end: noted while it runs, offered at the next start."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QSettings

KEY = "unfinished_tuning"


@dataclass(frozen=True)
class Unfinished:
    """A model whose tuning began at ``since`` (ISO 8601, local) and was not told to have ended."""

    model: Path
    since: str

    def __str__(self) -> str:
        return (
            f"Tuning of {self.model.name}, begun {self.since}, did not end: what it measured is "
            "in the database. Resume it (Ctrl+Shift+F5) to go on from there."
        )


def note(settings: QSettings, model: Path) -> None:
    """A session of this model begins. Qt writes it to the disk within the next turns."""
    since = datetime.datetime.now().isoformat(" ", timespec="minutes")
    settings.setValue(KEY, json.dumps({"model": str(model.absolute()), "since": since}))


def forget(settings: QSettings) -> None:
    """It ended, well or not, with the user looking."""
    settings.remove(KEY)


def read(settings: QSettings) -> Unfinished | None:
    """What did not end; None where there is nothing, or the model is not there any more."""
    try:
        held = json.loads(str(settings.value(KEY, "")))
        model, since = Path(held["model"]), str(held["since"])
        return Unfinished(model, since) if model.is_file() else None
    except (ValueError, KeyError, TypeError, OSError):
        return None
