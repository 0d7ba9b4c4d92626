"""Tuning records as rows of the database and as JSON."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from sqlite_utils import Database

from nnjit_studio.database.schema import KEY_COLUMNS
from nnjit_studio.errors import BugError
from nnjit_studio.records import KernelKey, TuningRecord

SELECT_RECORDS = (
    "SELECT r.*, m.wasm, "
    + ", ".join(f"k.{name}" for name in KEY_COLUMNS)
    + " FROM live_records AS r JOIN kernel_keys AS k ON k.id = r.key_id"
    " LEFT JOIN kernels AS m ON m.sha256 = r.kernel_sha256"
)
SELECT_OUTCOMES = (
    "SELECT r.*, "
    + ", ".join(f"k.{name}" for name in KEY_COLUMNS)
    + " FROM live_records AS r JOIN kernel_keys AS k ON k.id = r.key_id"
)
"""Without the modules, which are most of a database."""

_NUMBERS = ("median_ms", "gflops", "compile_ms", "timer_quantum_ms", "pipeline_ms")
_TEXTS = (
    "workload",
    "settings",
    "state",
    "browser",
    "flags",
    "created",
    "error",
    "gpu_clock",
    "note",
    "tags",
)


def record_from_row(row: Mapping[str, Any]) -> TuningRecord:
    """A record from a row of ``SELECT_RECORDS``. SQLite keeps NaN as NULL."""
    plain: dict[str, Any] = {name: row[name] for name in _TEXTS}
    plain |= {name: math.nan if row[name] is None else float(row[name]) for name in _NUMBERS}
    return TuningRecord(
        key=KernelKey(**{name: row[name] for name in KEY_COLUMNS}),
        samples_ms=tuple(json.loads(row["samples_ms"])),
        sha256=row["kernel_sha256"] or "",
        wasm=row["wasm"] or b"",
        panels=tuple((arg, width) for arg, width in json.loads(row["panels"])),
        parallel_extent=row["parallel_extent"],
        **plain,
    )


def check_record(record: TuningRecord) -> None:
    """Refuse what the tables could not give back.

    Raises
    ------
    BugError
        When a sample is not finite, or the module has another sha256 than the record says.
    """
    if not all(math.isfinite(ms) for ms in record.samples_ms):
        raise BugError(f"A record of {record.workload} has a sample that is no finite number.")
    if record.wasm and hashlib.sha256(record.wasm).hexdigest() != record.sha256:
        raise BugError(f"A record of {record.workload} does not carry the sha256 of its module.")


def insert_record(db: Database, record: TuningRecord, once: bool = False) -> int | None:
    """Insert one record inside the caller's transaction.

    Parameters
    ----------
    once
        Skip a record that is already there: same key, settings, state, date and samples.
        One that was deleted comes back and counts as new.

    Returns
    -------
    int or None
        Its id; None where it was skipped.
    """
    check_record(record)
    key = asdict(record.key)
    names = ", ".join(KEY_COLUMNS)
    match = " AND ".join(f"{name} = :{name}" for name in KEY_COLUMNS)
    db.execute(
        f"INSERT OR IGNORE INTO kernel_keys ({names}) VALUES "
        f"({', '.join(':' + name for name in KEY_COLUMNS)})",
        key,
    )
    key_id = db.execute(f"SELECT id FROM kernel_keys WHERE {match}", key).fetchone()[0]
    samples = json.dumps(record.samples_ms)
    if once:
        same = db.execute(
            "SELECT id, deleted FROM records WHERE key_id = ? AND settings = ? AND state = ? "
            "AND created = ? AND samples_ms = ? ORDER BY deleted",
            [key_id, record.settings, record.state, record.created, samples],
        ).fetchone()
        if same and same[1]:
            db.execute("UPDATE records SET deleted = '' WHERE id = ?", [same[0]])
            return int(same[0])
        if same:
            return None
    if record.sha256:
        db.execute(
            "INSERT INTO kernels (sha256, wasm) VALUES (?, ?) ON CONFLICT (sha256) "
            "DO UPDATE SET wasm = coalesce(wasm, excluded.wasm)",
            [record.sha256, record.wasm or None],
        )
    return int(
        db["records"]
        .insert(
            {
                "key_id": key_id,
                "samples_ms": samples,
                "kernel_sha256": record.sha256 or None,
                "panels": json.dumps(record.panels),
                "parallel_extent": record.parallel_extent,
                **{name: getattr(record, name) for name in (*_TEXTS, *_NUMBERS)},
            }
        )
        .last_pk
    )


def record_to_json(record: TuningRecord) -> dict[str, Any]:
    """A record as JSON, module included (base64); numbers that are not finite become null."""
    data = asdict(record)
    data["wasm"] = base64.b64encode(record.wasm).decode()
    for name in _NUMBERS:
        if not math.isfinite(data[name]):
            data[name] = None
    return data


def record_from_json(data: Mapping[str, Any]) -> TuningRecord:
    """Inverse of :func:`record_to_json`; infinite numbers come back as NaN.

    Raises
    ------
    ValueError
        When a field is missing, unknown or of another type.
    """
    # Older files lack these.
    data = {"gpu_clock": "", "pipeline_ms": 0.0, "note": "", "tags": "", **data}
    try:
        key = KernelKey(**data["key"])
        record = TuningRecord(**{**data, "key": key})
        numbers: dict[str, Any] = {
            name: math.nan if data[name] is None else float(data[name]) for name in _NUMBERS
        }
        record = replace(
            record,
            samples_ms=tuple(float(ms) for ms in data["samples_ms"]),
            wasm=base64.b64decode(data["wasm"], validate=True),
            panels=tuple((int(arg), int(width)) for arg, width in data["panels"]),
            parallel_extent=int(data["parallel_extent"]),
            **numbers,
        )
    except (KeyError, TypeError, AttributeError, binascii.Error) as e:
        raise ValueError(f"it is not a tuning record ({e})") from e
    texts = [getattr(record, name) for name in (*_TEXTS, "sha256")]
    texts += [getattr(key, f.name) for f in fields(key)]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a text field holds something else")
    return record
