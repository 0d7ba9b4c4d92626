"""Reports: a result as text for a terminal and as a dated section of a Markdown file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.bench.conditions import conditions
from nnjit_studio.support.files import replacing
from nnjit_studio.support.tables import text_table

TITLE = (
    "# Results\n\nEach section is one run, newest last; how to repeat one: benchmarks/README.md.\n"
)


@dataclass(frozen=True)
class Table:
    """Rows under their titles."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        return text_table(self.head, self.rows)

    def markdown(self) -> str:
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@dataclass(frozen=True)
class Report:
    """A result for people."""

    result: Mapping[str, Any]
    """Its document, with date and conditions."""
    title: str
    """The heading of the section."""
    about: str
    """How it was measured, in sentences; for the file alone."""
    parts: Sequence[Table | str]
    """Tables and paragraphs in order, empty ones left out."""

    def text(self) -> str:
        parts = (p if isinstance(p, str) else p.text() for p in self.parts)
        return "\n\n".join(filter(None, parts))

    def markdown(self) -> str:
        head = f"## {self.result['date'][:10]}: {self.title}"
        about = f"{conditions(self.result)} {self.about}".strip()
        parts = (p if isinstance(p, str) else p.markdown() for p in self.parts)
        return "\n\n".join(filter(None, (head, about, *parts)))


def append(path: Path, section: str) -> None:
    """Add a section to a file of results; the file is made when missing."""
    before = path.read_text(encoding="utf-8") if path.exists() else TITLE
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        part.write_text(f"{before.rstrip()}\n\n{section.strip()}\n", encoding="utf-8")


def spread_text(ms: Mapping[str, float], digits: int = 3) -> str:
    """Median, least value and interquartile range, as the heads of columns announce them."""
    median, least, iqr = (f"{ms[name]:.{digits}f}" for name in ("median", "min", "iqr"))
    return f"{median} ({least}; {iqr})"
