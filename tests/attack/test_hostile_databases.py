"""A stranger's database, and one that two Studios want."""

from __future__ import annotations

import csv
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from test_database import record

from nnjit_studio.database import KernelDatabase
from nnjit_studio.database.transfer import read_records
from nnjit_studio.errors import DatabaseError

ENDLESS = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM r) SELECT a.* FROM "


def database(path: Path, *changes: str) -> Path:
    with KernelDatabase.open(path) as db:
        db.commit_record(record())
    with closing(sqlite3.connect(path)) as raw:
        for change in changes:
            raw.execute(change)
        raw.commit()
    return path


@pytest.mark.parametrize(
    "changes",
    [
        ("DROP VIEW live_records", f"CREATE VIEW live_records AS {ENDLESS} records a, r"),
        (
            "ALTER TABLE records RENAME TO stored",
            f"CREATE VIEW records AS {ENDLESS} stored a, r",
        ),
        ("CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END",),
        ("CREATE VIRTUAL TABLE more USING fts5(x)",),
    ],
    ids=["recursive view", "view for a table", "trigger", "virtual table"],
)
def test_a_schema_that_is_not_ours_is_refused(tmp_path: Path, changes: tuple[str, ...]) -> None:
    evil = database(tmp_path / "evil.db", *changes)
    before = time.process_time()
    with pytest.raises(DatabaseError, match="does not make"):
        read_records(evil)
    assert time.process_time() - before < 5


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE records SET state = 'evil'",
        "UPDATE records SET browser = x'00ff'",
        f"UPDATE records SET samples_ms = '{'[' * 100_000}'",
        "UPDATE records SET browser = CAST(x'c3' AS TEXT)",
    ],
    ids=["state", "blob", "nested", "no UTF-8"],
)
def test_values_that_are_not_ours_are_refused_in_words(tmp_path: Path, change: str) -> None:
    with pytest.raises(DatabaseError):
        read_records(database(tmp_path / "evil.db", change))


def test_flipped_bytes_are_read_or_refused_in_words(tmp_path: Path) -> None:
    whole, rng = database(tmp_path / "whole.db").read_bytes(), random.Random(1)
    path = tmp_path / "flipped.db"
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 8, 64))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        try:
            read_records(path)
        except DatabaseError:
            continue


def test_no_cell_of_a_table_is_a_formula(tmp_path: Path) -> None:
    path = database(tmp_path / "k.db", "UPDATE records SET browser = '=cmd|x', flags = 'a\x1b[0m'")
    with KernelDatabase.open(path) as db:
        db.export_to(tmp_path / "k.csv")
    with (tmp_path / "k.csv").open(newline="", encoding="utf-8") as file:
        row = next(csv.DictReader(file))
    assert row["browser"] == "'=cmd|x"
    assert "\x1b" not in row["flags"]


def test_a_second_studio_works_on_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "k.db"
    with KernelDatabase.open(path) as first:
        first.commit_record(record())
        with KernelDatabase.open_or_copy(path) as second:
            assert not second.kept
            assert "another" in second.why_not_kept
            second.commit_record(record(settings="x"))
            assert len(second.all_records()) == 2
        assert len(first.all_records()) == 1
    with KernelDatabase.open_or_copy(path) as alone:
        assert alone.kept


def test_a_damaged_database_is_kept_and_its_backup_taken(tmp_path: Path) -> None:
    path = database(tmp_path / "k.db")
    KernelDatabase.open_or_copy(path).close()  # the backup of a healthy file
    data = bytearray(path.read_bytes())
    data[4096:8192] = b"\xff" * 4096
    path.write_bytes(data)
    with KernelDatabase.open_or_copy(path) as db:
        assert not db.kept
        assert "damaged" in db.why_not_kept
    assert path.read_bytes() == data
    KernelDatabase.take_backup(path)
    assert next(tmp_path.glob("k.damaged*.db")).read_bytes() == data
    with KernelDatabase.open(path) as db:
        assert len(db.all_records()) == 1
