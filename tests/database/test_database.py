"""The kernel database: storing, finding, refusing, exporting."""

import csv
import hashlib
import json
import math
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import sqlite_utils

from nnjit_studio.database import KernelDatabase, journal_mode, sqlite_safety
from nnjit_studio.database import connection as connection_module
from nnjit_studio.database import rows as rows_module
from nnjit_studio.database.rows import SPEEDUP
from nnjit_studio.database.schema import APPLICATION_ID, SCHEMA_VERSION, migrations
from nnjit_studio.errors import BugError, DatabaseError
from nnjit_studio.model import Workload
from nnjit_studio.records import KernelKey, TuningRecord

KEY = KernelKey(
    kind="matmul",
    dims="384x768x768",
    dtype="f32",
    layout="row-major+bias",
    fingerprint="0123456789ab",
    primitive_vector="unroll=1",
    device_id="cpu-1",
    target="embedded",
    tier="relaxed-simd",
    compiler_version="1",
)


def record(number: int = 0, wasm: bytes = b"\0asm", **changes: object) -> TuningRecord:
    base = TuningRecord(
        key=KEY,
        workload="matmul:384x768x768:f32+bias",
        settings=f"x0={number}",
        state="slower",
        median_ms=1.5 + number,
        gflops=50.25,
        samples_ms=(1.5, 1.25, 0.1 + 0.2),
        sha256=hashlib.sha256(wasm).hexdigest() if wasm else "",
        wasm=wasm,
        panels=((1, 8),),
        parallel_extent=96,
        compile_ms=3.25,
        browser="Chromium 140",
        flags="",
        timer_quantum_ms=0.1,
        created=f"2026-11-20T12:00:{number % 60:02}Z",
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def run(db: KernelDatabase, job: Callable[[sqlite_utils.Database], object]) -> object:
    """What a job returns that gets the open file itself."""
    return db._connection._run(job)


def view(path: Path, columns: str) -> list[tuple[object, ...]]:
    """Columns of the readable view, newest first, as any SQLite tool shows them."""
    with closing(sqlite3.connect(path)) as plain:
        return plain.execute(f"SELECT {columns} FROM measurements ORDER BY id DESC").fetchall()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kernels.db"


@pytest.fixture
def db(path: Path) -> Iterator[KernelDatabase]:
    with KernelDatabase.open(path) as database:
        yield database


def test_records_come_back_equal_and_oldest_first(db: KernelDatabase) -> None:
    stored = [
        record(1),
        record(2, wasm=b"", state="failed", error="no registers", samples_ms=(), panels=()),
        record(3, wasm=b"other"),
    ]
    assert [db.commit_record(r) for r in stored] == [1, 2, 3]
    assert db.records(KEY) == stored
    assert db.records(replace(KEY, compiler_version="2")) == []
    assert db.record(2) == stored[1]
    assert db.record(99) is None
    assert db.count() == 3


def test_records_survive_closing(path: Path) -> None:
    with KernelDatabase.open(path) as db:
        db.commit_record(record(1))
    with KernelDatabase.open(path) as db:
        assert db.records(KEY) == [record(1)]
        assert db.backup is None


def test_numbers_that_are_not_finite(db: KernelDatabase) -> None:
    db.commit_record(record(1, median_ms=math.inf, gflops=math.nan))
    got = db.records(KEY)[0]
    assert got.median_ms == math.inf
    assert math.isnan(got.gflops)
    with pytest.raises(BugError, match="no finite number"):
        db.commit_record(record(2, samples_ms=(1.0, math.nan)))


def test_a_wrong_sha_is_a_bug(db: KernelDatabase) -> None:
    with pytest.raises(BugError, match="sha256"):
        db.commit_record(record(1, sha256="0" * 64))
    assert db.count() == 0


def test_equal_modules_are_stored_once(db: KernelDatabase, path: Path) -> None:
    db.commit_record(record(1, wasm=b"", sha256=hashlib.sha256(b"\0asm").hexdigest()))
    for number in range(2, 5):
        db.commit_record(record(number))
    db.close()
    with sqlite3.connect(path) as plain:
        rows = plain.execute("SELECT sha256, wasm FROM kernels").fetchall()
    plain.close()
    assert rows == [(hashlib.sha256(b"\0asm").hexdigest(), b"\0asm")]


def test_history_holds_the_newest_of_a_kind_under_any_key_without_modules(
    db: KernelDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "HISTORY_LIMIT", 3)
    other = replace(KEY, dims="2x2x2", device_id="another")
    rows = [record(1), record(2, key=other), record(3, key=replace(KEY, kind="conv2d"))]
    rows += [record(4), record(5, key=other)]
    db.add_records(rows)
    found = db.history([Workload(KEY.kind, (1, 1, 1), "f32"), Workload(KEY.kind, (2,), "f32")])
    assert found == [replace(rows[i], wasm=b"") for i in (1, 3, 4)]
    assert db.history([]) == []


def test_filters(db: KernelDatabase, path: Path) -> None:
    db.commit_record(record(1, state="won"))
    db.commit_record(record(2, workload="conv2d:1x3:f32"))
    db.commit_record(record(3, state="won"))
    settings = [r.settings for r in db.all_records()]
    assert settings == ["x0=3", "x0=2", "x0=1"]
    assert [r.settings for r in db.all_records(2)] == ["x0=3", "x0=2"]
    assert [r.settings for r in db.all_records(workload="MatMul")] == ["x0=3", "x0=1"]
    assert [r.settings for r in db.all_records(1, workload="mul", state="WON")] == ["x0=3"]
    assert db.all_records(workload="%") == []
    assert view(path, "id, settings, wasm_bytes, tier")[1] == (2, "x0=2", 4, "relaxed-simd")


def test_many_threads_commit(db: KernelDatabase) -> None:
    ids: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: ids.append(db.commit_record(record(n))))
        for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ids) == list(range(1, 13))
    assert db.integrity() == "ok"


def test_records_of_some_workloads_come_newest_first(db: KernelDatabase) -> None:
    other = record(3, workload="matmul:1x2x3:f32")
    db.add_records([record(1), record(2), other])
    assert db.records_of([record().workload]) == [record(2), record(1)]
    assert db.records_of([record().workload, other.workload])[0] == other
    assert db.records_of(["conv2d"]) == [] == db.records_of([])


def test_a_second_writer_is_refused_and_a_reader_is_not(db: KernelDatabase, path: Path) -> None:
    db.commit_record(record(1))
    with pytest.raises(DatabaseError, match=r"kernels\.db is in use.*--database"):
        KernelDatabase.open(path)
    with KernelDatabase.open(path, read_only=True) as reader:
        assert reader.records(KEY) == [record(1)]
        db.commit_record(record(2))
        assert reader.count() == 2
        with pytest.raises(DatabaseError, match="read-only"):
            reader.commit_record(record(3))
    db.close()
    with KernelDatabase.open(path) as again:
        assert again.count() == 2


def test_verbs_that_only_read_need_no_turn(db: KernelDatabase, path: Path) -> None:
    db.commit_record(record())
    with KernelDatabase.open_for_reading(path) as reader:
        assert [r.settings for r in reader.all_records()] == ["x0=0"]
        db.commit_record(record(1))
        assert reader.count() == 2
        with pytest.raises(DatabaseError, match="read-only"):
            reader.commit_record(record(2))


def test_reading_what_is_not_there_finds_nothing_and_writes_nothing(path: Path) -> None:
    with KernelDatabase.open_for_reading(path) as reader:
        assert reader.all_records() == []
        assert reader.devices() == []
    assert not path.exists()
    assert not list(path.parent.iterdir())


def test_a_writer_in_another_process_is_refused(path: Path) -> None:
    with KernelDatabase.open(path):
        code = (
            "import sys\nfrom pathlib import Path\n"
            "from nnjit_studio.database import KernelDatabase\n"
            "from nnjit_studio.errors import DatabaseError\n"
            "try:\n    KernelDatabase.open(Path(sys.argv[1]))\n"
            "except DatabaseError as e:\n    print(e.error)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
        )
    assert "is in use by another NNJIT Studio" in done.stdout


def test_closed_database_says_so(path: Path) -> None:
    db = KernelDatabase.open(path)
    db.close()
    db.close()
    with pytest.raises(DatabaseError, match="is closed"):
        db.commit_record(record(1))


def test_pragmas(db: KernelDatabase) -> None:
    names = ("journal_mode", "synchronous", "foreign_keys", "application_id", "user_version")
    found = [
        run(db, lambda raw, n=name: raw.execute(f"PRAGMA {n}").fetchone()[0]) for name in names
    ]
    mode = journal_mode(sqlite3.sqlite_version_info)
    assert found == [mode, 2, 1, APPLICATION_ID, SCHEMA_VERSION]
    assert len(run(db, migrations.applied)) == SCHEMA_VERSION


def test_the_journal_follows_the_version() -> None:
    assert journal_mode((3, 40, 1)) == "truncate"
    assert journal_mode((3, 51, 2)) == "truncate"
    assert journal_mode((3, 51, 3)) == "wal"
    assert journal_mode((4, 0, 0)) == "wal"
    safety = sqlite_safety()
    assert safety["version"] == sqlite3.sqlite_version
    assert safety["journal_mode"] == journal_mode(sqlite3.sqlite_version_info)
    assert sqlite3.sqlite_version in safety["why"]


def test_write_ahead_log_and_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "journal_mode", lambda version: "wal")
    with KernelDatabase.open(path) as db:
        db.commit_record(record(1))
        assert run(db, lambda raw: raw.journal_mode) == "wal"
        with KernelDatabase.open(path, read_only=True) as reader:
            assert reader.count() == 1
    monkeypatch.undo()
    monkeypatch.setattr(connection_module, "journal_mode", lambda version: "truncate")
    with KernelDatabase.open(path) as db:
        assert run(db, lambda raw: raw.journal_mode) == "truncate"
        assert db.records(KEY) == [record(1)]


@pytest.mark.parametrize("content", [b"hello, I am a text file", b"\0" * 4096])
def test_a_file_that_is_no_database_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for read_only in (False, True):
        with pytest.raises(DatabaseError, match="is not an SQLite database"):
            KernelDatabase.open(path, read_only)
    assert path.read_bytes() == content
    assert os.listdir(path.parent) == [path.name]


def test_a_foreign_database_is_left_alone(path: Path) -> None:
    plain = sqlite3.connect(path)
    plain.execute("CREATE TABLE places (url TEXT)")
    plain.commit()
    plain.close()
    before = path.read_bytes()
    with pytest.raises(DatabaseError, match="another program"):
        KernelDatabase.open(path)
    assert path.read_bytes() == before


def test_a_newer_schema_is_left_alone(path: Path) -> None:
    KernelDatabase.open(path).close()
    plain = sqlite3.connect(path)
    plain.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    plain.close()
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(DatabaseError, match="newer NNJIT Studio"):
            KernelDatabase.open(path, read_only)
    assert path.read_bytes() == before


def test_a_damaged_file_is_named(path: Path) -> None:
    with KernelDatabase.open(path) as db:
        for number in range(50):
            db.commit_record(record(number, wasm=bytes([number]) * 500))
    content = bytearray(path.read_bytes())
    content[4096 * 2 :] = b"\x55" * (len(content) - 4096 * 2)
    path.write_bytes(content)
    with (
        pytest.raises(DatabaseError, match="is damaged"),
        KernelDatabase.open(path) as db,
    ):
        db.all_records()


def test_missing_file_read_only(path: Path) -> None:
    with pytest.raises(DatabaseError, match="There is no kernel database"):
        KernelDatabase.open(path, read_only=True)
    assert not path.exists()


def test_an_unusable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DatabaseError, match="cannot be used"):
        KernelDatabase.open(tmp_path / "file" / "kernels.db")


@pytest.mark.skipif(
    os.name == "nt" or getattr(os, "geteuid", lambda: 1)() == 0,
    reason="permissions bind no root user",
)
def test_a_read_only_folder(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    with pytest.raises(DatabaseError, match="cannot be"):
        KernelDatabase.open(folder / "kernels.db")


def test_no_permission_is_told_in_words(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(connection_module.FileLock, "acquire", refuse)
    with pytest.raises(DatabaseError, match=r"Permission denied.*Check the permissions"):
        KernelDatabase.open(path)


def test_a_full_disk_keeps_what_is_there(db: KernelDatabase) -> None:
    kept = [record(n) for n in range(3)]
    for r in kept:
        db.commit_record(r)
    pages = run(db, lambda raw: raw.execute("PRAGMA page_count").fetchone()[0])
    run(db, lambda raw: raw.execute(f"PRAGMA max_page_count={pages}").fetchall())
    with pytest.raises(DatabaseError, match="disk is full") as caught:
        db.commit_record(record(9, wasm=b"x" * 100_000))
    assert "Free some space" in caught.value.hint
    assert db.records(KEY) == kept
    assert db.integrity() == "ok"
    run(db, lambda raw: raw.execute("PRAGMA max_page_count=1000000").fetchall())
    db.commit_record(record(9, wasm=b"x" * 100_000))
    assert db.records(KEY)[-1] == record(9, wasm=b"x" * 100_000)


def test_vacuum_and_integrity(db: KernelDatabase, path: Path) -> None:
    db.commit_record(record(1, wasm=b"x" * 200_000))
    run(db, lambda raw: raw["records"].delete_where())
    run(db, lambda raw: raw["kernels"].delete_where())
    before = path.stat().st_size
    db.vacuum()
    assert path.stat().st_size < before - 150_000
    assert db.integrity() == "ok"


def test_integrity_finds_an_orphan(db: KernelDatabase) -> None:
    db.commit_record(record(1))
    run(db, lambda raw: raw.execute("PRAGMA foreign_keys=OFF"))
    run(db, lambda raw: raw["kernels"].delete_where())
    assert "records refers to nothing" in db.integrity()


@pytest.mark.parametrize("suffix", [".db", ".json"])
def test_export_and_import_lose_nothing(db: KernelDatabase, tmp_path: Path, suffix: str) -> None:
    stored = [record(1), record(1), record(2, wasm=b"", state="failed", error='"<b>\n,=1')]
    for r in stored:
        db.commit_record(r)
    out = tmp_path / f"export{suffix}"
    out.write_text("an old file to replace")
    assert db.export_to(out) == 3
    with KernelDatabase.open(tmp_path / "other.db") as other:
        assert other.import_from(out) == 2  # equal records count once
        assert other.import_from(out) == 0
        assert other.records(KEY) == stored[1:]
    assert [p.name for p in tmp_path.glob("*export*")] == [out.name]


def test_export_to_csv(db: KernelDatabase, tmp_path: Path) -> None:
    db.commit_record(record(1, error="a, b\n"))
    db.export_to(tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1
    assert rows[0]["workload"] == "matmul:384x768x768:f32+bias"
    assert rows[0]["key_tier"] == "relaxed-simd"
    assert [float(x) for x in rows[0]["samples_ms"].split()] == [1.5, 1.25, 0.1 + 0.2]
    assert rows[0]["error"] == "a, b\n"


def test_export_refuses(db: KernelDatabase, path: Path, tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="Use a name that ends in"):
        db.export_to(tmp_path / "x.txt")
    with pytest.raises(DatabaseError, match="open database itself"):
        db.export_to(path)
    with pytest.raises(DatabaseError, match="cannot be written"):
        db.export_to(tmp_path / "no" / "folder.json")


def test_a_record_that_cannot_be_read_is_an_error_in_words(
    db: KernelDatabase, path: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.db"
    with KernelDatabase.open(other) as source:
        source.commit_record(record(1))
    connection = sqlite3.connect(other)
    with connection:
        connection.execute("UPDATE records SET samples_ms = 'oops'")
    connection.close()
    with pytest.raises(DatabaseError, match=r"other\.db is damaged"):
        db.import_from(other)
    assert db.count() == 0


def test_import_refuses_and_adds_nothing(db: KernelDatabase, tmp_path: Path) -> None:
    db.commit_record(record(1))
    out = tmp_path / "export.json"
    db.export_to(out)
    data = json.loads(out.read_text())
    item = data["records"][0]
    for bad in (
        [],
        {"format": "other"},
        data | {"version": 2},
        data | {"records": [item, {k: v for k, v in item.items() if k != "state"}]},
        data | {"records": [item | {"workload": 3}]},
        data | {"records": [item | {"wasm": "%%"}]},
        data | {"records": [item | {"created": "later"}, item | {"sha256": "0" * 64}]},
    ):
        out.write_text(json.dumps(bad))
        with pytest.raises(DatabaseError, match=r"export\.json"):
            db.import_from(out)
    with pytest.raises(DatabaseError):
        db.import_from(tmp_path / "missing.db")
    assert db.records(KEY) == [record(1)]


SINCE_THEN = {"gpu_clock", "pipeline_ms", "note", "tags", "in_place", "deleted", *SPEEDUP}


def test_an_older_schema_upgrades_with_a_copy(path: Path) -> None:
    with KernelDatabase.open(path) as db:
        for number in range(5):
            db.commit_record(record(number))
    connection = sqlite3.connect(path)
    old = sqlite_utils.Database(connection)
    with old.atomic():  # back to the first migration
        old["measurements"].drop()
        old["live_records"].drop()
        old["devices"].drop()
        old["size_tunings"].drop()
        old["records"].transform(drop=SINCE_THEN)
        old.execute("DROP INDEX idx_records_workload")
        old.execute("DELETE FROM _sqlite_migrations WHERE name > 'm0001_tables'")
        old.execute("PRAGMA user_version=1")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(DatabaseError, match="older schema"):
        KernelDatabase.open(path, read_only=True)
    with KernelDatabase.open(path) as db:
        assert db.backup == path.with_name("kernels.schema1-1.db")
        # Records of that time do not tell slower kernels from those that may be as fast.
        told = [replace(record(n), state="not told apart") for n in range(5)]
        assert db.records(KEY) == told
        assert len(view(path, "id")) == 5
        assert db.integrity() == "ok"
    copy = sqlite3.connect(path.with_name("kernels.schema1-1.db"))
    assert copy.execute("SELECT count(*) FROM records").fetchone() == (5,)
    assert copy.execute("PRAGMA user_version").fetchone() == (1,)
    copy.close()
    assert path.read_bytes() != before


def test_reading_upgrades_an_older_schema_first(path: Path) -> None:
    old = sqlite_utils.Database(path)
    old.execute(f"PRAGMA application_id={APPLICATION_ID}")
    migrations.apply(old, stop_before=[m.name for m in migrations.pending(old)][-1])
    old.execute(f"PRAGMA user_version={SCHEMA_VERSION - 1}")
    old.close()
    with KernelDatabase.open_for_reading(path) as reader:
        assert reader.count() == 0
    with KernelDatabase.open(path, read_only=True) as reader:
        assert reader.devices() == []


def test_a_failing_upgrade_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with KernelDatabase.open(path) as db:
        db.commit_record(record(1))
    grown = list(migrations._migrations)
    monkeypatch.setattr(migrations, "_migrations", grown)
    monkeypatch.setattr("nnjit_studio.database.schema.SCHEMA_VERSION", SCHEMA_VERSION + 1)

    @migrations()
    def m0003_breaks(db: sqlite_utils.Database) -> None:
        db.execute("DROP TABLE records")
        db.execute("SELECT * FROM nowhere")

    with pytest.raises(DatabaseError, match="nowhere"):
        KernelDatabase.open(path)
    monkeypatch.undo()
    with KernelDatabase.open(path) as db:
        assert db.records(KEY) == [record(1)]
        assert db.integrity() == "ok"


def test_wgsl_kernels_say_so(db: KernelDatabase, path: Path) -> None:
    document = b'{"dispatches":[],"requires":[],"scratch":[],"version":1}'
    db.commit_record(record(1))
    on_gpu = record(2, wasm=document, key=replace(KEY, tier="wgsl"), gpu_clock="timestamp")
    db.commit_record(replace(on_gpu, pipeline_ms=12.5))
    gpu, cpu = view(path, "code, code_bytes, wasm_bytes, gpu_clock, pipeline_ms")
    assert gpu == ("WGSL", len(document), None, "timestamp", 12.5)
    assert cpu == ("Wasm", 4, 4, "", 0.0)


def test_an_export_without_the_gpus_fields_is_read(db: KernelDatabase, tmp_path: Path) -> None:
    out = tmp_path / "export.json"
    with KernelDatabase.open(tmp_path / "other.db") as other:
        other.commit_record(record(1))
        other.export_to(out)
    data = json.loads(out.read_text())
    for item in data["records"]:
        for name in ("gpu_clock", "pipeline_ms", "in_place", *SPEEDUP):
            del item[name]
    out.write_text(json.dumps(data))
    assert db.import_from(out) == 1
    assert db.records(KEY) == [record(1, state="not told apart")]
