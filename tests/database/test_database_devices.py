"""Measured devices in the kernel database."""

from __future__ import annotations

import json
import sqlite3

import pytest
from device_fakes import measured_device

from nnjit_studio.database import KernelDatabase
from nnjit_studio.device.measured import SPILL, Curve
from nnjit_studio.errors import DatabaseError


def with_spill(*samples: list[float]) -> str:
    """A row with such samples for the first points of a curve."""
    document = measured_device().to_json()
    curve = document["curves"][SPILL]
    curve["samples"] = [*samples, *curve["samples"][len(samples) :]]
    return json.dumps(document)


NO_SAMPLES, NO_TIME = with_spill([1.0]), with_spill([1.0, 0.0, 2.0])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "kernels.db"


def test_runs_come_back_newest_first_with_all_samples(path):
    first = measured_device()
    second = measured_device(created="2026-11-22T00:00:00.000+00:00")
    other = measured_device("b" * 16, target="chromium")
    with KernelDatabase.open(path) as database:
        assert database.devices() == []
        assert database.device(first.device_id, "embedded") is None
        ids = [database.commit_device(d) for d in (first, second, other)]
    assert ids == [1, 2, 3]
    with KernelDatabase.open(path, read_only=True) as database:
        assert database.devices() == [other, second, first]
        assert database.device(first.device_id, "embedded") == second
        assert database.device(first.device_id, "chromium") is None
        with pytest.raises(DatabaseError, match="read-only"):
            database.commit_device(first)


def test_a_run_on_a_busy_machine_hides_no_steady_one(path):
    steady = measured_device()
    restless = Curve(steady.curves[SPILL].x, tuple((1.0, 0.5) for _ in steady.curves[SPILL].x))
    busy = measured_device(curves={**steady.curves, SPILL: restless})
    with KernelDatabase.open(path) as database:
        database.commit_device(busy)
        assert database.device(steady.device_id, "embedded") == busy
        database.commit_device(steady)
        database.commit_device(busy)
        assert database.device(steady.device_id, "embedded") == steady


def test_a_database_of_the_schema_before_gets_the_table_and_keeps_a_copy(path):
    KernelDatabase.open(path).close()
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE devices")
        db.execute("DELETE FROM _sqlite_migrations WHERE name = 'm0003_devices'")
        db.execute("PRAGMA user_version=2")
    db.close()
    with KernelDatabase.open(path) as database:
        assert database.backup is not None and database.backup.exists()
        database.commit_device(measured_device())
        assert len(database.devices()) == 1
        assert database.integrity() == "ok"


@pytest.mark.parametrize(
    "damage", ["{}", "[]", "no json", '{"curves": {}, "effects": []}', NO_SAMPLES, NO_TIME]
)
def test_a_damaged_row_is_one_sentence(path, damage):
    with KernelDatabase.open(path) as database:
        database.commit_device(measured_device())
    with sqlite3.connect(path) as db:
        db.execute("UPDATE devices SET measured = ?", (damage,))
    db.close()
    with (
        KernelDatabase.open(path) as database,
        pytest.raises(DatabaseError, match="an entry cannot be read"),
    ):
        database.devices()


def test_any_tool_can_read_what_was_measured_when(path):
    with KernelDatabase.open(path) as database:
        database.commit_device(measured_device())
    db = sqlite3.connect(path)
    row = db.execute(
        "SELECT device_id, target, tier, created, json_extract(measured, '$.limits.l1_bytes')"
        " FROM devices"
    ).fetchone()
    db.close()
    created = measured_device().created
    assert row == ("a" * 16, "embedded", "relaxed-simd", created, 48 << 10)
