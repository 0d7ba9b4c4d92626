"""Changes that a pass made: two texts as one, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

SAME, ADDED, REMOVED = " ", "+", "-"
MOST_LINES = 4000
"""Longer texts are not compared: it would take seconds."""


@dataclass(frozen=True)
class ChangedLine:
    """``mark`` is :data:`SAME`, :data:`ADDED` or :data:`REMOVED`."""

    mark: str
    text: str


def changes(before: str, after: str) -> tuple[ChangedLine, ...]:
    """All lines of both texts; of a changed place what was removed comes first."""
    old, new = before.splitlines(), after.splitlines()
    lines: list[ChangedLine] = []
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, old, new).get_opcodes():
        if tag == "equal":
            lines += (ChangedLine(SAME, text) for text in new[b0:b1])
        else:
            lines += (ChangedLine(REMOVED, text) for text in old[a0:a1])
            lines += (ChangedLine(ADDED, text) for text in new[b0:b1])
    return tuple(lines)


def as_text(lines: Sequence[ChangedLine], context: int | None = None) -> str:
    """With its mark before each line; only ``context`` lines around each change, if given."""
    near = range(len(lines))
    if context is not None:
        marked = [i for i, line in enumerate(lines) if line.mark != SAME]
        shown = {j for i in marked for j in range(i - context, i + context + 1)}
        near = [i for i in range(len(lines)) if i in shown]  # type: ignore[assignment]
    out: list[str] = []
    last = -1
    for i in near:
        if i != last + 1 and context is not None:
            out.append(f"@@ line {i + 1}")
        out.append(f"{lines[i].mark} {lines[i].text}".rstrip())
        last = i
    return "\n".join(out) + ("\n" if out else "")
