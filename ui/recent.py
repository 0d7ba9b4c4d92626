"""Models opened before, the latest first, kept in the settings."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSettings

KEY = "recent_models"
LIMIT = 9


def recent(settings: QSettings) -> list[Path]:
    stored = settings.value(KEY, [])
    texts = [stored] if isinstance(stored, str) else list(stored or [])
    return [Path(text) for text in texts]


def remember(settings: QSettings, path: Path) -> None:
    """Put a model on top of the list; a model stands in it once."""
    path = path.absolute()
    paths = [path, *(p for p in recent(settings) if p != path)]
    settings.setValue(KEY, [str(p) for p in paths[:LIMIT]])


def forget(settings: QSettings) -> None:
    settings.remove(KEY)
