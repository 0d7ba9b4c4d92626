"""What is opened in place of the untouched model where rows of advice are applied."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nnjit_studio.advice.records import Row
from nnjit_studio.model.feeds import Feeds


def file_of(untouched: Path, rows: Sequence[Row], folder: Path) -> tuple[Path, Row | None]:
    """The file to open, and the row whose file it is; ``folder`` is made for that."""
    row = next((row for row in rows if row.apply.recipe), None)
    if row is None:
        return untouched, None
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{untouched.stem}-{row.name}.onnx", row


def feeds_of(feeds: Feeds, rows: Sequence[Row]) -> Feeds:
    """The inputs of the untouched model as far as they fit; none where their sizes change."""
    if any(row.apply.shapes for row in rows):
        return {}
    gone = {n for row in rows if row.apply.recipe for n in row.apply.recipe.constants}
    return {name: array for name, array in feeds.items() if name not in gone}
