"""A session as a file: model, selected workload, layout, settings and the results."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec

from nnjit_studio.errors import UserError
from nnjit_studio.support import files
from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.window import preferences

FORMAT, VERSION = "nnjit-session", 1
LIMIT_BYTES = 256 << 20
EVENTS = {kind.name: kind for kind in ev.Event.__subclasses__()}


@dataclass(frozen=True)
class SavedSession:
    """A session as it is read and written; ``layout`` is Qt's state of the docks."""

    model: Path | None
    workload: str
    layout: bytes
    settings: Mapping[str, Any]
    events: Sequence[ev.Event]


def write(path: Path, saved: SavedSession) -> None:
    """Write a session.

    Raises
    ------
    UserError
        When the file cannot be written.
    """
    files.write_json(
        path,
        {
            "format": FORMAT,
            "version": VERSION,
            "model": str(saved.model.absolute()) if saved.model else None,
            "workload": saved.workload,
            "layout": base64.b64encode(saved.layout).decode(),
            "settings": dict(saved.settings),
            "events": [event.to_json() for event in saved.events],
        },
    )


def read(path: Path) -> SavedSession:
    """Read a session; everything in it is checked before anything is done with it.

    Raises
    ------
    UserError
        When the file cannot be read or holds something else.
    """
    try:
        if path.stat().st_size > LIMIT_BYTES:
            raise ValueError("it is too large")
        data = json.loads(path.read_bytes())
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT!r}")
        if data.get("version") != VERSION:
            raise ValueError(f"version {data.get('version')!r} is not known")
        model, workload = data["model"], data["workload"]
        if not isinstance(workload, str) or not isinstance(model, str | None):
            raise ValueError("model or workload is no text")
        settings = {key: preferences.checked(key, v) for key, v in data["settings"].items()}
        return SavedSession(
            Path(model) if model else None,
            workload,
            base64.b64decode(data["layout"], validate=True),
            settings,
            [_event(item) for item in data["events"]],
        )
    except OSError as e:
        raise UserError(
            f"The session {path.name} cannot be read: {e.strerror or e}.", "Choose another file."
        ) from e
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UserError,
            binascii.Error) as e:  # fmt: skip
        raise UserError(
            f"{path.name} is not a session of this Studio: {e}.", "Save the session again."
        ) from e


def _event(data: Mapping[str, Any]) -> ev.Event:
    kind = EVENTS.get(data["event"])
    if kind is None:
        raise ValueError(f"there is no event {data['event']!r}")
    given = {name: value for name, value in data.items() if name != "event"}
    if not given.keys() <= {field.name for field in fields(kind)}:
        raise ValueError(f"{kind.__name__} has other fields")
    return msgspec.convert(given, kind)
