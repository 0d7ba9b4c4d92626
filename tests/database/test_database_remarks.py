"""Notes, tags, soft delete, progress, and records as lines of a table."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlite_utils
from click.testing import CliRunner

from nnjit_studio.cli.main import cli
from nnjit_studio.database import KernelDatabase, Measurement
from nnjit_studio.database.measurement import groups, mean_ratio, side_by_side
from nnjit_studio.database.schema import APPLICATION_ID, STEPS
from nnjit_studio.errors import DatabaseError, UserError
from nnjit_studio.records import KernelKey, TuningRecord

KEY = KernelKey(
    "matmul", "8x8x8", "f32", "row-major", "0123456789ab", "unroll=1", "cpu-1", "embedded",
    "relaxed-simd", "1",
)  # fmt: skip


def record(number: int = 0, **changes: object) -> TuningRecord:
    wasm = f"module {number}".encode()
    base = TuningRecord(
        KEY, "matmul:8x8x8:f32", f"x0={number}", "won", 1.5, 50.0, (1.5, 1.25),
        hashlib.sha256(wasm).hexdigest(), wasm, ((1, 8),), 96, 3.25, "Chromium 140", "", 0.1,
        f"2026-11-20T12:00:{number % 60:02}Z",
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[KernelDatabase]:
    with KernelDatabase.open(tmp_path / "kernels.db") as database:
        yield database


def test_notes_and_tags_stay_and_travel(db: KernelDatabase, tmp_path: Path) -> None:
    first, second = (db.commit_record(record(n)) for n in (1, 2))
    db.annotate({first: ("on battery", " slow  laptop ")})
    assert db.record(first) == record(1, note="on battery", tags="slow laptop")
    assert db.record(second) == record(2)
    assert [line.tags for line in db.measurements()] == ["", "slow laptop"]
    for name in ("all.json", "all.db"):
        db.export_to(tmp_path / name)
        with KernelDatabase.open(tmp_path / f"from-{name}.db") as other:
            assert other.import_from(tmp_path / name) == 2
            assert other.all_records() == db.all_records()
    assert "on battery" in (tmp_path / "all.json").read_text()


def test_an_export_without_notes_is_read(db: KernelDatabase, tmp_path: Path) -> None:
    out = tmp_path / "all.json"
    db.commit_record(record(1))
    db.export_to(out)
    data = json.loads(out.read_text())
    for name in ("note", "tags"):
        del data["records"][0][name]
    out.write_text(json.dumps(data))
    with KernelDatabase.open(tmp_path / "other.db") as other:
        other.import_from(out)
        assert other.all_records() == [record(1)]


def test_deleted_records_are_out_of_sight_until_they_are_restored(db: KernelDatabase) -> None:
    ids = [db.commit_record(record(n)) for n in range(3)]
    db.delete(ids[1:])
    assert db.count() == 1
    assert db.records(KEY) == db.all_records() == [record(0)]
    assert db.record(ids[2]) is None
    assert [bool(m.deleted) for m in db.measurements()] == [True, True, False]
    db.restore(ids[2:])
    assert db.records(KEY) == [record(0), record(2)]
    assert db.integrity() == "ok"


def test_importing_a_deleted_record_brings_it_back(db: KernelDatabase, tmp_path: Path) -> None:
    first = db.commit_record(record(1))
    db.export_to(tmp_path / "all.db")
    db.delete([first])
    assert db.import_from(tmp_path / "all.db") == 1
    assert db.import_from(tmp_path / "all.db") == 0
    assert db.all_records() == [record(1)] and len(db.measurements()) == 1


def test_vacuum_removes_deleted_records_and_what_only_they_used(tmp_path: Path) -> None:
    path = tmp_path / "kernels.db"
    with KernelDatabase.open(path) as db:
        db.commit_record(record(0))
        shared = db.commit_record(record(0, settings="same module"))
        alone = db.commit_record(record(1, key=replace(KEY, dims="9x9x9")))
        db.delete([shared, alone])
    result = CliRunner().invoke(cli, ["db", "vacuum", "--json", "--database", str(path)])
    assert json.loads(result.output)["purged"] == 2
    with KernelDatabase.open(path) as db:
        assert db.all_records() == [record(0)] and len(db.measurements()) == 1
        assert db.integrity() == "ok"
    plain = sqlite3.connect(path)
    counts = [
        plain.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in ("records", "kernels", "kernel_keys")
    ]
    plain.close()
    assert counts == [1, 1, 1]


def test_an_import_tells_how_far_it_is_and_can_be_stopped(
    db: KernelDatabase, tmp_path: Path
) -> None:
    with KernelDatabase.open(tmp_path / "other.db") as other:
        other.add_records([record(n) for n in range(250)])
    told: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> None:
        told.append((done, total))
        if done:
            raise UserError("Stopped.")

    with pytest.raises(UserError, match="Stopped"):
        db.import_from(tmp_path / "other.db", stop)
    assert told == [(0, 250), (100, 250)] and db.count() == 0
    told.clear()
    assert db.import_from(tmp_path / "other.db", lambda *at: told.append(at)) == 250
    assert told == [(0, 250), (100, 250), (200, 250)]


def test_a_database_that_is_only_read_is_not_annotated(tmp_path: Path) -> None:
    path = tmp_path / "kernels.db"
    with KernelDatabase.open(path) as db:
        first = db.commit_record(record(1))
    with KernelDatabase.open(path, read_only=True) as db:
        for change in (lambda: db.delete([first]), lambda: db.annotate({first: ("a", "b")})):
            with pytest.raises(DatabaseError, match="read-only"):
                change()
        assert db.all_records() == [record(1)]


def test_measurements_are_what_the_records_say(db: KernelDatabase) -> None:
    stored = [record(1), record(2, state="failed", gflops=0.0, median_ms=0.0, samples_ms=())]
    ids = [db.commit_record(r) for r in stored]
    assert db.measurements()[::-1] == [
        Measurement.of(i, r) for i, r in zip(ids, stored, strict=True)
    ]
    assert [m.timed for m in db.measurements()] == [False, True]
    assert db.measurements(after=ids[0]) == [Measurement.of(ids[1], stored[1])]
    assert not db.measurements(after=ids[1])


def line(number: int, workload: str, device: str, ms: float | None, state: str) -> Measurement:
    base = Measurement.of(number, record(number))
    gflops = 100 / ms if ms else None
    return replace(base, workload=workload, device=device, median_ms=ms, gflops=gflops, state=state)


LINES = [
    line(1, "a", "fast", 2.0, "won"),
    line(2, "a", "fast", 1.0, "wrong"),
    line(3, "a", "slow", 4.0, "slower"),
    line(4, "a", "slow", 5.0, "default"),
    line(5, "b", "fast", 9.0, "won"),
    line(6, "b", "slow", 3.0, "won"),
    line(7, "c", "slow", None, "failed"),
]


def test_groups_hold_their_best(db: KernelDatabase) -> None:
    by_device = groups(LINES, "device")
    assert [(g.name, g.records, g.workloads) for g in by_device] == [("slow", 4, 3), ("fast", 3, 2)]
    assert [g.best.id for g in by_device if g.best] == [6, 1]
    by_workload = groups(LINES, "workload")
    assert [(g.name, g.best.id if g.best else None) for g in by_workload] == [
        ("a", 1), ("b", 6), ("c", None),
    ]  # fmt: skip


def test_two_places_side_by_side() -> None:
    pairs = side_by_side(LINES, "device", "slow", "fast")
    assert [(p.workload, p.first.id, p.second.id, p.ratio) for p in pairs] == [
        ("b", 6, 5, pytest.approx(1 / 3)),
        ("a", 3, 1, 2.0),
    ]
    assert mean_ratio(pairs) == pytest.approx((2 / 3) ** 0.5)
    assert side_by_side(LINES, "device", "slow", "nowhere") == []
    assert mean_ratio([]) is None


def test_an_older_database_is_imported_and_stays_as_it_is(
    db: KernelDatabase, tmp_path: Path
) -> None:
    path, newer = tmp_path / "older.db", tmp_path / "newer.db"
    with KernelDatabase.open(newer) as other:
        other.commit_record(record(1))
    older, steps = sqlite_utils.Database(path), sqlite_utils.Migrations("nnjit_studio")
    for step in STEPS[:4]:
        steps()(step)
    steps.apply(older)
    older.execute(f"PRAGMA application_id={APPLICATION_ID}")
    older.execute("PRAGMA user_version=4")
    older.attach("newer", newer)
    for table in ("kernel_keys", "kernels", "records"):
        names = ", ".join(older[table].columns_dict)
        older.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM newer.{table}")
    older.conn.commit()
    older.close()
    before = path.read_bytes()
    assert [m.settings for m in db.look_into(path)] == ["x0=1"]
    assert db.import_from(path) == 1 and db.all_records() == [record(1)]
    assert path.read_bytes() == before
