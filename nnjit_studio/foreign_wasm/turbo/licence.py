"""The licence of a module: what its package says of itself."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

_LEVELS = 4
"""Folders above the module in which its package is looked for."""


@dataclass(frozen=True)
class Licence:
    """Of the package that a module lies in; empty fields are not told.

    Attributes
    ----------
    notices
        Files with licences and notices; they must go where the module goes.
    """

    package: str = ""
    version: str = ""
    licence: str = ""
    notices: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @property
    def text(self) -> str:
        """For a person."""
        if not self.licence:
            return "No licence lies beside the file: make sure that you may change and ship it."
        files = f"; keep {', '.join(self.notices)} with it" if self.notices else ""
        return f"{self.package} {self.version} is under {self.licence}{files}.".replace("  ", " ")


def licence_of(file: Path) -> Licence:
    """Looks for ``package.json`` and licence files beside the module and above it."""
    for folder in file.resolve().parents[:_LEVELS]:
        notices = tuple(
            sorted(
                f.name
                for f in folder.iterdir()
                if f.is_file() and f.stem.lower() in ("license", "licence", "notice", "copying")
            )
        )
        told = _package(folder / "package.json")
        if told or notices:
            name, version, licence = told or ("", "", "")
            return Licence(name, version, licence or ("see notices" if notices else ""), notices)
    return Licence()


def _package(file: Path) -> tuple[str, str, str] | None:
    try:
        told = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(told, dict):
        return None
    name, version, licence = (told.get(key) for key in ("name", "version", "license"))
    return str(name or ""), str(version or ""), str(licence or "")
