"""Records as JSON (complete) and as CSV (for a spreadsheet)."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from nnjit_studio.database.rows import record_from_json, record_to_json
from nnjit_studio.errors import DatabaseError
from nnjit_studio.records import TuningRecord

FORMAT = "nnjit-records"
VERSION = 1
PROGRESS_EVERY = 100

OnProgress = Callable[[int, int], None]
"""Told how many records of how many are done; what it raises ends the job, undone."""


def untold(done: int, total: int) -> None:
    """Nobody wants to know."""


def telling(records: Sequence[TuningRecord], on_progress: OnProgress) -> Iterator[TuningRecord]:
    """The records, with progress told now and then."""
    for done, record in enumerate(records):
        if done % PROGRESS_EVERY == 0:
            on_progress(done, len(records))
        yield record


def read_json(path: Path) -> list[TuningRecord]:
    """Every record of a JSON export, oldest first.

    Raises
    ------
    DatabaseError
        When the file cannot be read or is not such an export.
    """
    try:
        data = json.loads(path.read_text("utf-8"))
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT!r}")
        if data.get("version") != VERSION:
            raise ValueError(f"version {data.get('version')!r} is not known")
        return [record_from_json(item) for item in data["records"]]
    except OSError as e:
        raise DatabaseError(
            f"The file {path} cannot be read: {e.strerror}.", "Choose another file."
        ) from e
    except (ValueError, KeyError, TypeError, RecursionError) as e:
        raise DatabaseError(
            f"The file {path} is not an export of kernel records: {e}.",
            "Choose a .json or .db file that NNJIT Studio wrote.",
        ) from e


def write_json(records: Sequence[TuningRecord], path: Path, on_progress: OnProgress) -> None:
    """Write records with their modules: :func:`read_json` gives them back."""
    data = {
        "format": FORMAT,
        "version": VERSION,
        "records": [record_to_json(record) for record in telling(records, on_progress)],
    }
    path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", "utf-8")


def write_csv(records: Sequence[TuningRecord], path: Path, on_progress: OnProgress) -> None:
    """Write one line a record, without the modules; key columns begin with ``key_``."""
    rows = []
    for record in telling(records, on_progress):
        row = record_to_json(record)
        del row["wasm"]
        key = row.pop("key")
        row["samples_ms"] = " ".join(map(str, record.samples_ms))
        row["panels"] = " ".join(f"{arg}:{width}" for arg, width in record.panels)
        rows.append(row | {f"key_{name}": value for name, value in key.items()})
    names = list(rows[0]) if rows else ["workload"]
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, names)
        table.writeheader()
        table.writerows(rows)
