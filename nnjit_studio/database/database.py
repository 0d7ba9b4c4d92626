"""KernelDatabase: one file, one thread that owns it, one process that writes it."""

from __future__ import annotations

import datetime
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from filelock import FileLock
from sqlite_utils import Database

from nnjit_studio.database.connection import (
    NeedsWriter,
    OlderSchema,
    connect,
    empty_database,
    lock_file,
)
from nnjit_studio.database.devices import NEWEST_FIRST, device_from_row, insert_device
from nnjit_studio.database.measurement import SELECT_MEASUREMENTS, Measurement
from nnjit_studio.database.rows import (
    SELECT_OUTCOMES,
    SELECT_RECORDS,
    insert_record,
    record_from_row,
)
from nnjit_studio.database.safety import database_error
from nnjit_studio.database.schema import KEY_COLUMNS, check_header
from nnjit_studio.database.transfer import (
    OnProgress,
    read_json,
    telling,
    untold,
    write_csv,
    write_json,
)
from nnjit_studio.device.measured import MeasuredDevice
from nnjit_studio.errors import BugError, DatabaseError
from nnjit_studio.model import Workload
from nnjit_studio.records import KernelKey, TuningRecord
from nnjit_studio.support.files import replacing

HISTORY_LIMIT = 2000
"""Records that :meth:`KernelDatabase.history` gives at most, the newest."""
AT_A_TIME, BREATH_S = 250, 0.001
"""Rows that are made into objects before other threads get a turn: about a millisecond's work."""
T = TypeVar("T")


class KernelDatabase:
    """All tuning records, good and bad.

    Every call may come from any thread; one thread of its own does the work in
    order of arrival and hands results and errors back. Open it with
    :meth:`open`, as a context manager or with :meth:`close` at the end.
    """

    def __init__(
        self, path: Path, executor: ThreadPoolExecutor, lock: FileLock | None, db: Database
    ) -> None:
        self.path = path
        self.backup: Path | None = None
        self._executor = executor
        self._lock = lock
        self._db = db

    @classmethod
    def open(cls, path: Path, read_only: bool = False) -> KernelDatabase:
        """Open a database file; unless ``read_only``, create or upgrade it as needed.

        Before an upgrade a copy is made beside the file; ``backup`` names it.

        Raises
        ------
        DatabaseError
            When another process writes it, when it is not a kernel database or
            one of a newer Studio (it is then left as it is), or when the file
            or its folder cannot be read or written.
        """
        path = Path(path).absolute()
        try:
            check_header(path)
            if read_only and not (path.exists() and path.stat().st_size):
                raise DatabaseError(
                    f"There is no kernel database at {path}.", "Tune a model first, or import one."
                )
            lock = None if read_only else lock_file(path)
        except OSError as e:
            raise database_error(e, path) from e
        executor = ThreadPoolExecutor(1, thread_name_prefix="nnjit-database")
        try:
            db, backup = executor.submit(connect, path, read_only).result()
        except BaseException as e:
            executor.shutdown()
            if lock:
                lock.release()
            if isinstance(e, (sqlite3.Error, OSError)):
                raise database_error(e, path) from e
            raise
        database = cls(path, executor, lock, db)
        database.backup = backup
        return database

    @classmethod
    def open_for_reading(cls, path: Path) -> KernelDatabase:
        """Open a database that is only read: beside a Studio that writes it, too.

        A file that is not there is an empty database, which is not written anywhere.
        One with an older schema, or one whose writer was killed while it wrote, is
        opened for writing once, which upgrades it or takes the half record back.

        Raises
        ------
        DatabaseError
            As :meth:`open`.
        """
        path = Path(path).absolute()
        if not (path.exists() and path.stat().st_size):
            executor = ThreadPoolExecutor(1, thread_name_prefix="nnjit-database")
            return cls(path, executor, None, executor.submit(empty_database).result())
        try:
            return cls.open(path, read_only=True)
        except NeedsWriter:
            cls.open(path).close()
            return cls.open(path, read_only=True)

    def __enter__(self) -> KernelDatabase:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Finish what was asked for, close the file and free the lock. May be called twice."""
        try:
            self._executor.submit(self._db.close).result()
        except RuntimeError:
            return
        self._executor.shutdown()
        if self._lock:
            self._lock.release()

    def commit_record(self, record: TuningRecord) -> int:
        """Store a record; it is on disk when this returns.

        Returns
        -------
        int
            The id of the record.

        Raises
        ------
        DatabaseError
            When the disk is full or the file cannot be written; what was
            stored before stays.
        BugError
            When the record contradicts itself.
        """
        return self._write(lambda: self._insert([record], once=False))[0]

    def add_records(self, records: Sequence[TuningRecord], on_progress: OnProgress = untold) -> int:
        """Store those records that are not there yet, all or none; how many were new."""
        return len(self._write(lambda: self._insert(records, True, on_progress)))

    def commit_device(self, device: MeasuredDevice) -> int:
        """Store what the device experiments found; it is on disk when this returns.

        Returns
        -------
        int
            The id of the run.

        Raises
        ------
        DatabaseError
            When the disk is full or the file cannot be written.
        """

        def insert() -> int:
            with self._db.atomic():
                return insert_device(self._db, device)

        return self._write(insert)

    def devices(self) -> list[MeasuredDevice]:
        """Every run of the device experiments, newest first."""
        return self._decoded(
            lambda: [device_from_row(row) for row in self._db.query(NEWEST_FIRST)], "device"
        )

    def device(self, device_id: str, target: str) -> MeasuredDevice | None:
        """The newest steady run on a device in a target, the newest of all if none is steady."""
        runs = [d for d in self.devices() if (d.device_id, d.target) == (device_id, target)]
        return next((d for d in runs if d.steady), runs[0] if runs else None)

    def records(self, key: KernelKey) -> list[TuningRecord]:
        """All records of a key, oldest first."""
        match = " AND ".join(f"k.{name} = :{name}" for name in KEY_COLUMNS)
        return self._select(f"WHERE {match} ORDER BY r.id", asdict(key))

    def history(self, workloads: Sequence[Workload]) -> list[TuningRecord]:
        """The newest records of these workloads' kinds under any key, oldest first, no modules."""
        kinds = {f"kind{i}": kind for i, kind in enumerate(sorted({w.kind for w in workloads}))}
        names = ", ".join(f":{name}" for name in kinds)
        newest = self._decoded(
            lambda: [
                record_from_row({**row, "wasm": None})
                for row in self._db.query(
                    f"{SELECT_OUTCOMES} WHERE k.kind IN ({names}) ORDER BY r.id DESC LIMIT :limit",
                    {**kinds, "limit": HISTORY_LIMIT},
                )
            ],
            "record",
        )
        return newest[::-1]

    def record(self, record_id: int) -> TuningRecord | None:
        """The record of an id."""
        found = self._select("WHERE r.id = :id", {"id": record_id})
        return found[0] if found else None

    def all_records(
        self,
        limit: int | None = None,
        *,
        workload: str = "",
        state: str = "",
        target: str = "",
    ) -> list[TuningRecord]:
        """Records newest first; each filter is a part of the text, in any case."""
        where, values = _filter(workload, state, target, limit)
        ids = f"SELECT id FROM measurements {where}"
        return self._select(f"WHERE r.id IN ({ids}) ORDER BY r.id DESC", values)

    def records_of(self, workloads: Iterable[str]) -> list[TuningRecord]:
        """Records of these workloads under any key, newest first."""
        names = {f"w{i}": name for i, name in enumerate(sorted(set(workloads)))}
        if not names:
            return []
        wanted = ", ".join(f":{name}" for name in names)
        return self._select(f"WHERE r.workload IN ({wanted}) ORDER BY r.id DESC", names)

    def count(self) -> int:
        """How many records there are."""
        return self._call(lambda: int(self._db["live_records"].count))

    def measurements(self) -> list[Measurement]:
        """Every record as a line of a table, newest first, deleted ones too, without samples."""

        def read() -> list[Measurement]:
            found: list[Measurement] = []
            cursor = self._db.execute(SELECT_MEASUREMENTS)
            while rows := cursor.fetchmany(AT_A_TIME):
                found += [Measurement(*row) for row in rows]
                # The interpreter's lock goes to whoever draws: it would wait for all of it.
                time.sleep(BREATH_S)
            return found

        return self._call(read)

    def annotate(self, remarks: Mapping[int, tuple[str, str]]) -> None:
        """Set note and tags of records by their ids, all or none."""
        self._update(
            "UPDATE records SET note = ?, tags = ? WHERE id = ?",
            [(note, " ".join(tags.split()), i) for i, (note, tags) in remarks.items()],
        )

    def delete(self, ids: Sequence[int]) -> None:
        """Put records aside: nothing reads them any more, but :meth:`restore` brings them back.

        :meth:`vacuum` takes them off the disk.
        """
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
        self._update(
            "UPDATE records SET deleted = ? WHERE id = ? AND deleted = ''", [(now, i) for i in ids]
        )

    def restore(self, ids: Sequence[int]) -> None:
        """Bring deleted records back."""
        self._update("UPDATE records SET deleted = '' WHERE id = ?", [(i,) for i in ids])

    @staticmethod
    def look_into(path: Path) -> list[Measurement]:
        """What :meth:`import_from` would read of a file, without adding it; ids count from 1.

        Raises
        ------
        DatabaseError
            When the file cannot be read or is not one of ours.
        """
        records = _read_source(Path(path))
        return [Measurement.of(number, record) for number, record in enumerate(records, 1)]

    def import_from(self, path: Path, on_progress: OnProgress = untold) -> int:
        """Add the records of another database or of a JSON export; how many were new.

        Raises
        ------
        DatabaseError
            When the file cannot be read or is not one of ours; nothing is added then.
        """
        path = Path(path)
        records = _read_source(path)
        try:
            return self.add_records(records, on_progress)
        except BugError as e:
            raise DatabaseError(f"The file {path} is damaged: {e}", "Export it again.") from e

    def export_to(
        self,
        path: Path,
        *,
        workload: str = "",
        state: str = "",
        target: str = "",
        on_progress: OnProgress = untold,
    ) -> int:
        """Write records to ``.db``, ``.json`` (both complete) or ``.csv`` (without modules).

        An existing file is replaced only when the new one is complete.

        Returns
        -------
        int
            How many records were written.
        """
        path = Path(path).absolute()
        writers = {".db": _write_database, ".json": write_json, ".csv": write_csv}
        writer = writers.get(path.suffix.lower())
        if writer is None:
            raise DatabaseError(
                f"Records cannot be exported to {path.name!r}.",
                f"Use a name that ends in {', '.join(writers)}.",
            )
        if path == self.path:
            raise DatabaseError(f"{path} is the open database itself.", "Choose another name.")
        records = self.all_records(workload=workload, state=state, target=target)[::-1]
        with replacing(path, "The export", DatabaseError) as part:
            writer(records, part, on_progress)
        return len(records)

    def vacuum(self) -> int:
        """Remove deleted records for good and give unused space back; how many they were."""

        def purge() -> int:
            db = self._db
            with db.atomic():
                gone = int(db.execute("DELETE FROM records WHERE deleted != ''").rowcount)
                db.execute(
                    "DELETE FROM kernels WHERE sha256 NOT IN "
                    "(SELECT kernel_sha256 FROM records WHERE kernel_sha256 IS NOT NULL)"
                )
                db.execute("DELETE FROM kernel_keys WHERE id NOT IN (SELECT key_id FROM records)")
            db.vacuum()
            return gone

        return self._write(purge)

    def integrity(self) -> str:
        """``ok``, or what SQLite's own checks found."""

        def check() -> str:
            problems = [row[0] for row in self._db.execute("PRAGMA integrity_check").fetchall()]
            orphans = self._db.execute("PRAGMA foreign_key_check").fetchall()
            if problems == ["ok"]:
                problems = []
            problems += [f"row {row[1]} of {row[0]} refers to nothing" for row in orphans]
            return "; ".join(problems) or "ok"

        return self._call(check)

    def _insert(
        self,
        records: Sequence[TuningRecord],
        once: bool,
        on_progress: OnProgress = untold,
    ) -> list[int]:
        with self._db.atomic():
            ids = [insert_record(self._db, r, once) for r in telling(records, on_progress)]
        return [i for i in ids if i is not None]

    def _update(self, sql: str, rows: Sequence[tuple[object, ...]]) -> None:
        def update() -> None:
            with self._db.atomic():
                self._db.conn.executemany(sql, rows)

        self._write(update)

    def _select(self, where: str, values: dict[str, Any]) -> list[TuningRecord]:
        sql = f"{SELECT_RECORDS} {where}"
        return self._decoded(
            lambda: [record_from_row(r) for r in self._db.query(sql, values)], "record"
        )

    def _decoded(self, job: Callable[[], T], what: str) -> T:
        try:
            return self._call(job)
        except (ValueError, TypeError, KeyError) as e:
            raise DatabaseError(
                f"The kernel database {self.path} is damaged: a {what} cannot be read ({e}).",
                "Move it away to start a new one, then import a backup or an export.",
            ) from e

    def _write(self, job: Callable[[], T]) -> T:
        if self._lock is None:
            raise DatabaseError(
                f"The kernel database {self.path} is open read-only.", "Open it for writing."
            )
        return self._call(job)

    def _call(self, job: Callable[[], T]) -> T:
        try:
            future = self._executor.submit(job)
        except RuntimeError as e:
            raise DatabaseError(f"The kernel database {self.path} is closed.") from e
        try:
            return future.result()
        except sqlite3.Error as e:
            raise database_error(e, self.path) from e


def _write_database(records: Sequence[TuningRecord], path: Path, on_progress: OnProgress) -> None:
    with KernelDatabase.open(path) as database:
        database._call(lambda: database._insert(records, False, on_progress))


def _read_source(path: Path) -> list[TuningRecord]:
    """Records of another database or of a JSON export, oldest first."""
    if path.suffix.lower() == ".json":
        return read_json(path)
    with _source(path) as source:
        return source.all_records()[::-1]


@contextmanager
def _source(path: Path) -> Iterator[KernelDatabase]:
    """A database to read from, never changed: one of an older schema is upgraded in a copy."""
    try:
        database = KernelDatabase.open(path, read_only=True)
    except OlderSchema:
        with tempfile.TemporaryDirectory(prefix="nnjit-") as folder:
            copy = Path(folder) / "kernels.db"
            old = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
            with closing(old), closing(sqlite3.connect(copy)) as new:
                old.backup(new)
            with KernelDatabase.open(copy) as upgraded:
                yield upgraded
        return
    with database:
        yield database


def _filter(
    workload: str, state: str, target: str, limit: int | None
) -> tuple[str, dict[str, Any]]:
    values = {"workload": workload, "state": state, "target": target}
    terms = [f"instr(lower({name}), lower(:{name}))" for name, text in values.items() if text]
    where = f"WHERE {' AND '.join(terms)} " if terms else ""
    return where + "ORDER BY id DESC LIMIT :limit", {
        **values,
        "limit": -1 if limit is None else limit,
    }
