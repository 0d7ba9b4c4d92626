"""Models opened before, the latest first, kept in the settings."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QSettings
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu

KEY = "recent_models"
DATES = "recent_models_opened"
LIMIT = 9


def recent(settings: QSettings) -> list[Path]:
    """The models, the latest first."""
    stored = settings.value(KEY, [])
    texts = stored if isinstance(stored, list) else [stored] if isinstance(stored, str) else []
    return [Path(text) for text in texts]


def remember(settings: QSettings, path: Path) -> None:
    """Put a model on top of the list, which has each model once."""
    path = path.absolute()
    dates = _dates(settings) | {str(path): datetime.date.today().isoformat()}
    paths = [str(p) for p in (path, *(p for p in recent(settings) if p != path))][:LIMIT]
    settings.setValue(KEY, paths)
    settings.setValue(DATES, json.dumps({p: dates[p] for p in paths if p in dates}))


def opened(settings: QSettings, path: Path) -> str:
    """When a model was opened last, in words; empty where that was not noted."""
    try:
        day = datetime.date.fromisoformat(_dates(settings).get(str(path), ""))
    except ValueError:
        return ""
    return day_in_words(day)


def day_in_words(day: datetime.date) -> str:
    """``today``, ``yesterday``, or the date."""
    ago = (datetime.date.today() - day).days
    return {0: "today", 1: "yesterday"}.get(ago, f"{day.day} {day:%b %Y}")


def _dates(settings: QSettings) -> dict[str, str]:
    try:
        held = json.loads(str(settings.value(DATES, "{}")))
    except ValueError:
        return {}
    return {str(p): str(day) for p, day in held.items()} if isinstance(held, dict) else {}


def forget(settings: QSettings) -> None:
    settings.remove(KEY)


def put_back(settings: QSettings, paths: Sequence[Path]) -> None:
    """The list as it was, below what was opened since."""
    every = dict.fromkeys([*recent(settings), *paths])
    settings.setValue(KEY, [str(p) for p in every][:LIMIT])


def fill_menu(
    menu: QMenu,
    settings: QSettings,
    open_model: Callable[[Path], object],
    clear: Callable[[], object],
) -> None:
    """The list as actions; models that are missing are greyed out."""
    menu.clear()
    for number, path in enumerate(recent(settings), 1):
        there = os.path.isfile(path)  # a folder that may not be read counts as missing
        text = f"&{number}  {path.name}" + ("" if there else "  (missing)")
        action = QAction(text, menu)
        action.setToolTip(str(path))
        action.setEnabled(there)
        action.triggered.connect(lambda _=False, path=path: open_model(path))
        menu.addAction(action)
    if menu.isEmpty():
        menu.addAction("No model was opened yet").setEnabled(False)
    else:
        menu.addSeparator()
        menu.addAction("Clear list").triggered.connect(lambda: clear())
