"""The last verdicts of this user, one of each model, in a file next to the kernel database."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from nnjit_studio.support.files import write_own_json
from nnjit_studio.verdict.result import Verdict, from_json

FILE = "verdicts.json"
LIMIT = 20


def last_verdicts(folder: Path) -> list[Verdict]:
    """The newest first; empty where nothing was measured, or the file is none of ours."""
    try:
        return [from_json(each) for each in json.loads((folder / FILE).read_text())]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def remember(folder: Path, verdict: Verdict) -> None:
    """Put a verdict in the place of the model's last one.

    Raises
    ------
    UserError
        When the file cannot be written.
    """
    others = [each for each in last_verdicts(folder) if each.path != verdict.path]
    write_own_json(folder / FILE, [each.to_json() for each in (verdict, *others)[:LIMIT]])


def verdict_of(folder: Path, path: Path) -> Verdict | None:
    """The last verdict of a model's file."""
    return next((v for v in last_verdicts(folder) if v.path == str(path.absolute())), None)


def usual_ms(verdicts: Sequence[Verdict], browser: str = "") -> float:
    """Of the sentinel on this machine in its best moments; 0 when it was never measured."""
    seen = [v.sentinel_ms for v in verdicts if v.sentinel_ms > 0 and v.browser == browser]
    return min(seen, default=0.0)
