"""A session as a file: model, selected workload, layout, settings and the results."""

from __future__ import annotations

import base64
import binascii
import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

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
    event: ev.Event = _decode(kind, {k: v for k, v in data.items() if k != "event"})
    return event


def _decode(hint: Any, value: Any) -> Any:
    """JSON as a type: numbers, texts, tuples, mappings, dataclasses.

    Raises
    ------
    ValueError
        When the value is of another type.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint)
        known = {field.name for field in fields(hint)}
        if not isinstance(value, dict) or not set(value) <= known:
            raise ValueError(f"{hint.__name__} has other fields")
        return hint(**{name: _decode(hints[name], v) for name, v in value.items()})
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        return _decode(next(i for i in inner if i is not type(None)), value)
    if origin is tuple:
        if not isinstance(value, list):
            raise ValueError("a list is something else")
        if inner[-1] is ...:
            return tuple(_decode(inner[0], item) for item in value)
        return tuple(_decode(i, item) for i, item in zip(inner, value, strict=True))
    if hint is Any:
        return value
    kind = origin or hint
    if kind is float:
        wanted: Any = (int, float)
    else:
        wanted = dict if issubclass(kind, Mapping) else kind
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{value!r} is no {kind.__name__}")
    return value
