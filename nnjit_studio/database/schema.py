"""The tables, their migrations and checks, and the marks by which a file is known as ours."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlite_utils import Database, Migrations

from nnjit_studio.errors import DatabaseError
from nnjit_studio.records.outcomes import NOT_TOLD_APART, SLOWER

APPLICATION_ID = 0x4E4A4954
"""ASCII "NJIT" at offset 68 of the file header."""

SCHEMA_VERSION = 8
"""``user_version`` of a file with every migration applied: their number."""

KEY_COLUMNS = (
    "kind",
    "dims",
    "dtype",
    "layout",
    "fingerprint",
    "primitive_vector",
    "device_id",
    "target",
    "tier",
    "compiler_version",
)


def m0001_tables(db: Database) -> None:
    """Keys, kernels (each module once) and records with all their samples."""
    db.execute(
        "CREATE TABLE kernel_keys (id INTEGER PRIMARY KEY, "
        + ", ".join(f"{name} TEXT NOT NULL" for name in KEY_COLUMNS)
        + f", UNIQUE ({', '.join(KEY_COLUMNS)}))"
    )
    db.execute(
        """
        CREATE TABLE kernels (
            sha256 TEXT PRIMARY KEY,
            wasm BLOB  -- NULL while only the hash is known
        )
        """
    )
    db.execute(
        """
        CREATE TABLE records (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            key_id INTEGER NOT NULL REFERENCES kernel_keys(id),
            workload TEXT NOT NULL,
            settings TEXT NOT NULL,
            state TEXT NOT NULL,
            median_ms REAL,
            gflops REAL,
            samples_ms TEXT NOT NULL,  -- JSON array, in order of time
            kernel_sha256 TEXT REFERENCES kernels(sha256),
            panels TEXT NOT NULL,  -- JSON array of [argument, width]
            parallel_extent INTEGER NOT NULL,
            compile_ms REAL,
            browser TEXT NOT NULL,
            flags TEXT NOT NULL,
            timer_quantum_ms REAL,
            created TEXT NOT NULL,  -- ISO 8601, UTC
            error TEXT NOT NULL
        )
        """
    )
    db["records"].create_index(["key_id", "state"])
    db["records"].create_index(["kernel_sha256"])


def m0002_readable(db: Database) -> None:
    """A view with one readable row for each record, for people with any SQLite tool."""
    db["records"].create_index(["workload"])
    _create_measurements(db, "records", "length(m.wasm) AS wasm_bytes", "")


def m0003_devices(db: Database) -> None:
    """What the device experiments found, every run of them."""
    db.execute(
        """
        CREATE TABLE devices (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            device_id TEXT NOT NULL,
            target TEXT NOT NULL,
            tier TEXT NOT NULL,
            created TEXT NOT NULL,  -- ISO 8601, UTC
            versions TEXT NOT NULL,  -- JSON object
            measured TEXT NOT NULL  -- JSON: all samples, and the limits that followed from them
        )
        """
    )
    db["devices"].create_index(["device_id", "target"])


def m0004_gpu(db: Database) -> None:
    """How a GPU kernel was timed, and what its pipeline took; bytes of WGSL are not of Wasm."""
    db.execute("ALTER TABLE records ADD COLUMN gpu_clock TEXT NOT NULL DEFAULT ''")
    db.execute("ALTER TABLE records ADD COLUMN pipeline_ms REAL NOT NULL DEFAULT 0")
    db["measurements"].drop()
    _create_measurements(db, "records", _CODE, "r.gpu_clock, r.pipeline_ms, ")


def m0005_notes(db: Database) -> None:
    """What people say of a record, and records that were deleted but can still come back.

    Tags are words, separated by spaces; ``deleted`` is when, ISO 8601, empty while it counts.
    """
    for name in ("note", "tags", "deleted"):
        db.execute(f"ALTER TABLE records ADD COLUMN {name} TEXT NOT NULL DEFAULT ''")
    db.create_view("live_records", "SELECT * FROM records WHERE deleted = ''")
    db["measurements"].drop()
    remarks = ",\n               r.note, r.tags"
    _create_measurements(db, "live_records", _CODE, "r.gpu_clock, r.pipeline_ms, ", remarks)


def m0006_outcomes(db: Database) -> None:
    """Three outcomes of a duel, with the speed-up that they follow from.

    ``slower`` was also what could not be told apart, and nothing in such a record tells which.
    """
    for name in ("speedup", "speedup_low", "speedup_high"):
        db.execute(f"ALTER TABLE records ADD COLUMN {name} REAL NOT NULL DEFAULT 0")
    db.execute(f"UPDATE records SET state = '{NOT_TOLD_APART}' WHERE state = '{SLOWER}'")
    for view in ("live_records", "measurements"):
        db[view].drop()
    db.create_view("live_records", "SELECT * FROM records WHERE deleted = ''")
    remarks = ",\n               r.note, r.tags, r.speedup, r.speedup_low, r.speedup_high"
    _create_measurements(db, "live_records", _CODE, "r.gpu_clock, r.pipeline_ms, ", remarks)


def m0007_in_place(db: Database) -> None:
    """What became of a duel's winner in the running model; empty where it was not tried there."""
    db.execute("ALTER TABLE records ADD COLUMN in_place TEXT NOT NULL DEFAULT ''")
    for view in ("live_records", "measurements"):
        db[view].drop()
    db.create_view("live_records", "SELECT * FROM records WHERE deleted = ''")
    names = ("note", "tags", "speedup", "speedup_low", "speedup_high", "in_place")
    remarks = "".join(f", r.{name}" for name in names)
    _create_measurements(db, "live_records", _CODE, "r.gpu_clock, r.pipeline_ms, ", remarks)


def m0008_sizes(db: Database) -> None:
    """Kernels for any size: what their settings are worth at each size that was measured.

    The dims of such a key have a question mark in the place of an extent that stays open.
    """
    db.execute(
        """
        CREATE TABLE size_tunings (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            key_id INTEGER NOT NULL REFERENCES kernel_keys(id),
            workload TEXT NOT NULL,
            created TEXT NOT NULL,  -- ISO 8601, UTC
            measured TEXT NOT NULL  -- JSON: the first guess, and each size with its speed-ups
        )
        """
    )
    db["size_tunings"].create_index(["key_id"])


_CODE = """CASE WHEN k.tier LIKE 'wgsl%' THEN 'WGSL' ELSE 'Wasm' END AS code,
               length(m.wasm) AS code_bytes,
               CASE WHEN k.tier LIKE 'wgsl%' THEN NULL ELSE length(m.wasm) END AS wasm_bytes"""


def _create_measurements(
    db: Database, records: str, code: str, timing: str, remarks: str = ""
) -> None:
    """The view of readable rows, with what a version of the schema has more than the first."""
    keys = ", ".join(f"k.{name}" for name in KEY_COLUMNS)
    db.create_view(
        "measurements",
        f"""
        SELECT r.id, r.workload, r.settings, r.state, r.gflops, r.median_ms, r.compile_ms,
               {code},
               r.kernel_sha256, {keys}, r.browser, r.flags,
               r.timer_quantum_ms, {timing}r.samples_ms, r.created, r.error{remarks}
        FROM {records} AS r
        JOIN kernel_keys AS k ON k.id = r.key_id
        LEFT JOIN kernels AS m ON m.sha256 = r.kernel_sha256
        """,
    )


migrations = Migrations("nnjit_studio")
STEPS = (
    m0001_tables, m0002_readable, m0003_devices, m0004_gpu, m0005_notes, m0006_outcomes,
    m0007_in_place, m0008_sizes,
)  # fmt: skip
for _step in STEPS:
    migrations()(_step)


def check_header(path: Path) -> None:
    """Refuse a file that is not a kernel database, without opening it in SQLite.

    An absent or empty file passes: it becomes a new database.

    Raises
    ------
    DatabaseError
        When the file is no SQLite file, or one of another program.
    OSError
        When it cannot be read.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        header = file.read(100)
    if not header:
        return
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        raise DatabaseError(
            f"The file {path} is not an SQLite database.",
            "Choose another file, or move this one away.",
        )
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise DatabaseError(
            f"The file {path} is a database of another program.",
            "Choose another file; this one was left as it is.",
        )


def check_version(db: Database, path: Path) -> int:
    """Schema version of an open file; refuses one that a newer Studio wrote."""
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > SCHEMA_VERSION:
        raise DatabaseError(
            f"The kernel database {path} was written by a newer NNJIT Studio "
            f"(schema {version}, this one knows {SCHEMA_VERSION}).",
            "Update NNJIT Studio, or choose another file; this one was left as it is.",
        )
    return version


def check_integrity(db: Database) -> str:
    """``ok``, or what SQLite's own checks found."""
    problems = [row[0] for row in db.execute("PRAGMA integrity_check").fetchall() if row != ("ok",)]
    orphans = db.execute("PRAGMA foreign_key_check").fetchall()
    problems += [f"row {row[1]} of {row[0]} refers to nothing" for row in orphans]
    return "; ".join(problems) or "ok"


def migrate(db: Database, path: Path) -> Path | None:
    """Bring a file to the latest schema, all or nothing.

    Returns
    -------
    Path or None
        The copy of the old file in the same folder; None where the file was new
        or up to date.
    """
    version = check_version(db, path)
    if version == SCHEMA_VERSION:
        return None
    # Outside the write-ahead log, so that the marks are in the file itself when this returns.
    db.execute("PRAGMA journal_mode=truncate").fetchone()
    copy = _backup(db.conn, path, version) if version else None
    with db.atomic():
        db.execute(f"PRAGMA application_id={APPLICATION_ID}")
        migrations.apply(db)
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    return copy


def _backup(connection: sqlite3.Connection, path: Path, version: int) -> Path:
    number = 1
    while (copy := path.with_name(f"{path.stem}.schema{version}-{number}{path.suffix}")).exists():
        number += 1
    with closing(sqlite3.connect(copy)) as target:
        connection.backup(target)
    return copy
