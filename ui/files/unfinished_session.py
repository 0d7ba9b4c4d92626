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
    """A model whose tuning began at ``since`` (ISO 8601, local) and was not seen to end."""

    model: Path
    since: str

    def __str__(self) -> str:
        return (
            f"Tuning of {self.model.name}, begun {self.since}, did not end: its measurements are "
            "in the database, and it can go on from there."
        )


def note(settings: QSettings, model: Path) -> None:
    """Note that a session of this model begins; Qt writes that to the disk soon."""
    since = datetime.datetime.now().isoformat(" ", timespec="minutes")
    settings.setValue(KEY, json.dumps({"model": str(model.absolute()), "since": since}))


def forget(settings: QSettings) -> None:
    """The session ended, well or not, while the window was open."""
    settings.remove(KEY)


def read(settings: QSettings) -> Unfinished | None:
    """The session that did not end; None without one, and where its model is missing."""
    try:
        held = json.loads(str(settings.value(KEY, "")))
        model, since = Path(held["model"]), str(held["since"])
        return Unfinished(model, since) if model.is_file() else None
    except (ValueError, KeyError, TypeError, OSError):
        return None
