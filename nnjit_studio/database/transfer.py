"""Files of records: databases and JSON (complete), CSV (for a spreadsheet)."""

from __future__ import annotations

import base64
import csv
import json
import math
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from nnjit_studio.database.connection import Connection, OlderSchemaError
from nnjit_studio.database.rows import (
    NUMBERS,
    SPEEDUP,
    TEXTS,
    insert_records,
    make_record,
    select_records,
)
from nnjit_studio.errors import DatabaseError
from nnjit_studio.records import KernelKey, TuningRecord
from nnjit_studio.records.outcomes import NOT_TOLD_APART, SLOWER, STATES
from nnjit_studio.support.files import replacing
from nnjit_studio.support.terminal import printable

FORMAT = "nnjit-records"
VERSION = 1
PROGRESS_EVERY = 100
_FIELDS = {f.name for f in fields(TuningRecord)}
_KEY_FIELDS = {f.name for f in fields(KernelKey)}
_SINCE_VERSION_1 = {"gpu_clock": "", "pipeline_ms": 0.0, "note": "", "tags": "", "in_place": ""}
_SINCE_VERSION_1 |= dict.fromkeys(SPEEDUP, 0.0)
"""Fields that older files lack, with their values."""

OnProgress = Callable[[int, int], None]
"""Gets how many records of how many are done; what it raises ends the job, undone."""


def no_progress(done: int, total: int) -> None:
    """Nobody is told."""


def telling(records: Sequence[TuningRecord], on_progress: OnProgress) -> Iterator[TuningRecord]:
    """The records, with progress told now and then."""
    for done, record in enumerate(records):
        if done % PROGRESS_EVERY == 0:
            on_progress(done, len(records))
        yield record


def read_records(path: Path) -> list[TuningRecord]:
    """Every record of a database or of a JSON export, oldest first.

    Raises
    ------
    DatabaseError
        When the file cannot be read or is not one of ours.
    """
    if path.suffix.lower() == ".json":
        records = _read_json(path)
    else:
        with _source(path) as source:
            records = source.read(select_records, "ORDER BY r.id", {})
    unknown = next((r.state for r in records if r.state not in STATES), None)
    if unknown is not None:
        raise DatabaseError(
            f"A record of {path} has the state {unknown!r}, which is not known.",
            "Update NNJIT Studio, or ask whoever made the file.",
        )
    return records


def write_records(path: Path, records: Sequence[TuningRecord], on_progress: OnProgress) -> None:
    """Write a file of the kind that its suffix says, completely or not at all.

    Raises
    ------
    DatabaseError
        When the file cannot be written, or has another suffix.
    """
    writers = {".db": _write_database, ".json": _write_json, ".csv": _write_csv}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise DatabaseError(
            f"Records cannot be exported to {path.name!r}.",
            f"Use a name that ends in {', '.join(writers)}.",
        )
    with replacing(path, "The export", DatabaseError) as part:
        writer(telling(records, on_progress), part)


@contextmanager
def _source(path: Path) -> Iterator[Connection]:
    """A database to read from, never changed: one of an older schema is upgraded in a copy."""
    try:
        connection = Connection.open(path, foreign=True)
    except OlderSchemaError:
        with tempfile.TemporaryDirectory(prefix="nnjit-") as folder:
            copy = Path(folder) / "kernels.db"
            old = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
            with closing(old), closing(sqlite3.connect(copy)) as new:
                old.backup(new)
            with closing(Connection.open(copy)) as upgraded:
                yield upgraded
        return
    with closing(connection):
        yield connection


def _write_database(records: Iterator[TuningRecord], path: Path) -> None:
    with closing(Connection.open(path)) as connection:
        connection.write(insert_records, records)


def _read_json(path: Path) -> list[TuningRecord]:
    try:
        data = json.loads(path.read_text("utf-8"))
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT!r}")
        if data.get("version") != VERSION:
            raise ValueError(f"version {data.get('version')!r} is not known")
        return [_from_json(_upgraded(item)) for item in data["records"]]
    except OSError as e:
        raise DatabaseError(
            f"The file {path} cannot be read: {e.strerror}.", "Choose another file."
        ) from e
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise DatabaseError(
            f"The file {path} is not an export of kernel records: {e}.",
            "Choose a .json or .db file that NNJIT Studio wrote.",
        ) from e


def _upgraded(item: Mapping[str, Any]) -> dict[str, Any]:
    """A record of any version in the form of this one, as the schema's migrations do it."""
    old = item["state"] == SLOWER and "speedup" not in item
    return {**_SINCE_VERSION_1, **item} | ({"state": NOT_TOLD_APART} if old else {})


def _from_json(data: Mapping[str, Any]) -> TuningRecord:
    if data.keys() != _FIELDS or data["key"].keys() != _KEY_FIELDS:
        raise ValueError("a record lacks a field, or has one that is not known")
    texts = [*data["key"].values(), data["sha256"], *(data[name] for name in TEXTS)]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a text field holds something else")
    return make_record(data["key"], data, base64.b64decode(data["wasm"], validate=True))


def _to_json(record: TuningRecord) -> dict[str, Any]:
    """Numbers that are not finite become null."""
    data = asdict(record)
    data["wasm"] = base64.b64encode(record.wasm).decode()
    return data | {name: None for name in NUMBERS if not math.isfinite(data[name])}


def _write_json(records: Iterator[TuningRecord], path: Path) -> None:
    document = {"format": FORMAT, "version": VERSION, "records": [_to_json(r) for r in records]}
    path.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", "utf-8")


def _plain(value: object) -> object:
    """A text that no spreadsheet takes for a formula and no terminal for a command."""
    if not isinstance(value, str):
        return value
    text = printable(value, keep="\n\t")
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _write_csv(records: Iterator[TuningRecord], path: Path) -> None:
    """One line a record, without the modules; key columns begin with ``key_``."""
    rows = []
    for record in records:
        row = _to_json(record)
        del row["wasm"]
        key = row.pop("key")
        row["samples_ms"] = " ".join(map(str, record.samples_ms))
        row["panels"] = " ".join(f"{arg}:{width}" for arg, width in record.panels)
        row |= {f"key_{name}": value for name, value in key.items()}
        rows.append({name: _plain(value) for name, value in row.items()})
    names = list(rows[0]) if rows else ["workload"]
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, names)
        table.writeheader()
        table.writerows(rows)
