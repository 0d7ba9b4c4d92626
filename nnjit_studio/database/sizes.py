"""What settings are worth at several sizes, as rows of the database."""

from __future__ import annotations

import json
from dataclasses import asdict

import msgspec
from sqlite_utils import Database

from nnjit_studio.database.rows import key_id_of
from nnjit_studio.database.schema import KEY_COLUMNS
from nnjit_studio.records import KernelKey
from nnjit_studio.records.size_tuning import AtSize, SizeTuning


def insert_size_tuning(db: Database, tuning: SizeTuning) -> int:
    """Add what was measured of a kernel; its id."""
    measured = {
        "guess": tuning.guess,
        "before": tuning.before,
        "at": [asdict(row) for row in tuning.at],
    }
    with db.atomic():
        row = {
            "key_id": key_id_of(db, tuning.key),
            "workload": tuning.workload,
            "created": tuning.created,
            "measured": json.dumps(measured, allow_nan=False),
        }
        return int(db["size_tunings"].insert(row).last_pk)


def read_size_tunings(db: Database) -> list[SizeTuning]:
    """All of them, newest first."""
    names = ", ".join(f"k.{name}" for name in KEY_COLUMNS)
    found = db.query(
        f"SELECT s.workload, s.created, s.measured, {names} FROM size_tunings AS s "
        "JOIN kernel_keys AS k ON k.id = s.key_id ORDER BY s.id DESC"
    )
    return [_from_row(row) for row in found]


def _from_row(row: dict[str, str]) -> SizeTuning:
    measured = json.loads(row["measured"])
    key = KernelKey(**{name: row[name] for name in KEY_COLUMNS})
    at = msgspec.convert(measured["at"], tuple[AtSize, ...])
    guess, before = measured["guess"], measured["before"]
    return SizeTuning(key, row["workload"], guess, at, row["created"], before)
