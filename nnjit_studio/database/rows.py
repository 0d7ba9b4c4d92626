"""Tuning records as rows of the database: stored, found and read back."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from sqlite_utils import Database

from nnjit_studio.database.schema import KEY_COLUMNS
from nnjit_studio.errors import BugError
from nnjit_studio.records import KernelKey, TuningRecord

HISTORY_LIMIT = 2000
"""Records that :func:`select_history` gives at most, the newest."""

OF_KEY = " AND ".join(f"k.{name} = :{name}" for name in KEY_COLUMNS)
_SELECT = (
    f"SELECT r.*, {', '.join(f'k.{name}' for name in KEY_COLUMNS)}{{wasm}} "
    "FROM live_records AS r JOIN kernel_keys AS k ON k.id = r.key_id "
)
_WITHOUT_MODULES = _SELECT.format(wasm="")
"""The modules are most of a database."""
_WHOLE = _SELECT.format(wasm=", m.wasm") + "LEFT JOIN kernels AS m ON m.sha256 = r.kernel_sha256 "

SPEEDUP = ("speedup", "speedup_low", "speedup_high")
NUMBERS = ("median_ms", "gflops", "compile_ms", "timer_quantum_ms", "pipeline_ms", *SPEEDUP)
TEXTS = (
    "workload", "settings", "state", "browser", "flags", "created", "error", "gpu_clock", "note",
    "tags", "in_place",
)  # fmt: skip
"""Fields of a record that are columns of the same name."""


def select_records(db: Database, clause: str, values: Mapping[str, object]) -> list[TuningRecord]:
    """Records that an SQL clause after FROM picks; ``r`` is the record, ``k`` its key."""
    return [_from_row(row) for row in db.query(_WHOLE + clause, values)]


def select_history(db: Database, kinds: Collection[str]) -> list[TuningRecord]:
    """The newest records of these kinds of workloads, oldest first, without their modules."""
    newest = "WHERE k.kind IN (SELECT value FROM json_each(:kinds)) ORDER BY r.id DESC LIMIT :limit"
    values = {"kinds": json.dumps(sorted(kinds)), "limit": HISTORY_LIMIT}
    return [_from_row(row) for row in db.query(_WITHOUT_MODULES + newest, values)][::-1]


def _from_row(row: Mapping[str, Any]) -> TuningRecord:
    fields = {
        **row,
        "samples_ms": json.loads(row["samples_ms"]),
        "panels": json.loads(row["panels"]),
        "sha256": row["kernel_sha256"] or "",
    }
    return make_record(row, fields, row.get("wasm") or b"")


def make_record(key: Mapping[str, str], fields: Mapping[str, Any], wasm: bytes) -> TuningRecord:
    """A record from plain values. SQLite and JSON keep numbers that are not finite as null."""
    plain = {name: fields[name] for name in TEXTS}
    if not all(isinstance(text, str) for text in plain.values()):
        raise ValueError("a text field holds something else")
    plain |= {n: math.nan if fields[n] is None else float(fields[n]) for n in NUMBERS}
    return TuningRecord(
        key=KernelKey(**{name: key[name] for name in KEY_COLUMNS}),
        samples_ms=tuple(float(ms) for ms in fields["samples_ms"]),
        sha256=fields["sha256"],
        wasm=wasm,
        panels=tuple((int(arg), int(width)) for arg, width in fields["panels"]),
        parallel_extent=int(fields["parallel_extent"]),
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


def insert_records(db: Database, records: Iterable[TuningRecord], once: bool = False) -> list[int]:
    """Insert records, all or none.

    Parameters
    ----------
    once
        Skip a record that is already there: same key, settings, state, date and samples.
        One that was deleted comes back and counts as new.

    Returns
    -------
    list of int
        Ids of those that were not skipped.
    """
    with db.atomic():
        ids = [_insert(db, record, once) for record in records]
    return [i for i in ids if i is not None]


def _insert(db: Database, record: TuningRecord, once: bool) -> int | None:
    check_record(record)
    key_id = key_id_of(db, record.key)
    samples = json.dumps(record.samples_ms)
    if once:
        same = db.execute(
            "SELECT id, deleted FROM records WHERE key_id = ? AND settings = ? AND state = ? "
            "AND created = ? AND samples_ms = ? ORDER BY deleted",
            [key_id, record.settings, record.state, record.created, samples],
        ).fetchone()
        if same and same[1]:
            db.execute("UPDATE records SET deleted = '' WHERE id = ?", [same[0]])
        if same:
            return int(same[0]) if same[1] else None
    if record.sha256:
        db.execute(
            "INSERT INTO kernels (sha256, wasm) VALUES (?, ?) ON CONFLICT (sha256) "
            "DO UPDATE SET wasm = coalesce(wasm, excluded.wasm)",
            [record.sha256, record.wasm or None],
        )
    row = {
        "key_id": key_id,
        "samples_ms": samples,
        "kernel_sha256": record.sha256 or None,
        "panels": json.dumps(record.panels),
        "parallel_extent": record.parallel_extent,
        **{name: getattr(record, name) for name in (*TEXTS, *NUMBERS)},
    }
    return int(db["records"].insert(row).last_pk)


def key_id_of(db: Database, key: KernelKey) -> int:
    """The row of a key, which is made when missing."""
    values = asdict(key)
    names = ", ".join(KEY_COLUMNS)
    places = ", ".join(f":{name}" for name in KEY_COLUMNS)
    db.execute(f"INSERT OR IGNORE INTO kernel_keys ({names}) VALUES ({places})", values)
    found = db.execute(f"SELECT id FROM kernel_keys AS k WHERE {OF_KEY}", values)
    return int(found.fetchone()[0])
