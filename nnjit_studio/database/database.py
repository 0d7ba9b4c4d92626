"""The kernel database as other rooms see it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from sqlite_utils import Database

from nnjit_studio.database import remarks, rows, transfer
from nnjit_studio.database.backups import back_up, take_backup
from nnjit_studio.database.connection import Connection, DatabaseInUseError, locked
from nnjit_studio.database.devices import insert_device, read_devices
from nnjit_studio.database.measurement import Measurement, read_measurements
from nnjit_studio.database.safety import UnusableError
from nnjit_studio.database.schema import check_integrity
from nnjit_studio.database.sizes import insert_size_tuning, read_size_tunings
from nnjit_studio.database.transfer import OnProgress, no_progress
from nnjit_studio.device.measured import MeasuredDevice
from nnjit_studio.errors import BugError, DatabaseError
from nnjit_studio.model import Workload
from nnjit_studio.records import KernelKey, TuningRecord
from nnjit_studio.records.size_tuning import SizeTuning

LOGGER = logging.getLogger(__name__)


class KernelDatabase:
    """All tuning records, good and bad, and all runs of the device experiments.

    Every call may come from any thread. Open it with :meth:`open`, as a context
    manager or with :meth:`close` at the end.

    Attributes
    ----------
    path
        The file.
    backup
        The copy that was made before an upgrade; None without one.
    why_not_kept
        Why what is written here stays in memory; empty where it is on disk.
    """

    def __init__(self, connection: Connection, why_not_kept: str = "") -> None:
        self._connection = connection
        self.path = connection.path
        self.backup = connection.backup
        self.why_not_kept = why_not_kept

    @property
    def kept(self) -> bool:
        """Whether what is written is on disk."""
        return not self.why_not_kept

    @classmethod
    def open(cls, path: Path, read_only: bool = False) -> KernelDatabase:
        """Open a database file; unless ``read_only``, create or upgrade it as needed.

        Before an upgrade a copy is made in the same folder; ``backup`` names it.

        Raises
        ------
        DatabaseError
            When another process writes it, when it is not a kernel database or
            one of a newer Studio (it is then left as it is), or when the file
            or its folder cannot be read or written.
        """
        return cls(Connection.open(path, read_only))

    @classmethod
    def open_for_reading(cls, path: Path) -> KernelDatabase:
        """Open a database that is only read, even while a Studio writes it.

        A file that is not there is an empty database, which is not written anywhere.
        One with an older schema, or one whose writer was killed while it wrote, is
        opened for writing once, which upgrades it or takes the half record back.

        Raises
        ------
        DatabaseError
            As :meth:`open`.
        """
        return cls(Connection.open_for_reading(path))

    @classmethod
    def open_or_copy(cls, path: Path) -> KernelDatabase:
        """Open a database with a daily backup, or work in memory where that is impossible.

        What another Studio has open is copied; a file that is damaged or cannot be used stays
        as it is, and the database in memory is empty. ``why_not_kept`` tells which it is.

        Raises
        ------
        DatabaseError
            When the file is not a kernel database, or one of a newer Studio.
        """
        try:
            connection = Connection.open(path)
            try:
                connection.read(_checked_and_backed_up, connection.path)
            except BaseException:
                connection.close()
                raise
            return cls(connection)
        except DatabaseInUseError as e:
            why = f"{e.error} This is a copy: what is measured here is not kept."
            return cls(Connection.open_copy(path), why)
        except UnusableError as e:
            why = f"{e.error} It stays as it is; what is measured here is not kept. {e.hint}"
            return cls(Connection.open_nothing(path), why)

    @staticmethod
    def take_backup(path: Path) -> tuple[Path, Path]:
        """Put the newest backup in the place of a damaged file, which is kept.

        Returns
        -------
        tuple
            The backup, and where the old file is now.

        Raises
        ------
        DatabaseError
            When there is no backup, or a Studio has the database open.
        """
        with locked(path := Path(path).absolute()):
            return take_backup(path)

    def __enter__(self) -> KernelDatabase:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish what was asked for, close the file and free the lock. May be called twice."""
        self._connection.close()

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
        return self._connection.write(rows.insert_records, [record])[0]

    def add_records(
        self, records: Sequence[TuningRecord], on_progress: OnProgress = no_progress
    ) -> int:
        """Store those records that are not there yet, all or none; how many were new."""
        told = transfer.telling(records, on_progress)
        return len(self._connection.write(rows.insert_records, told, once=True))

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
        return self._connection.write(insert_device, device)

    def devices(self) -> list[MeasuredDevice]:
        """Every run of the device experiments, newest first."""
        return self._connection.read(read_devices)

    def device(self, device_id: str, target: str) -> MeasuredDevice | None:
        """The newest steady run on a device in a target, the newest of all if none is steady."""
        runs = [d for d in self.devices() if (d.device_id, d.target) == (device_id, target)]
        return next((d for d in runs if d.steady), runs[0] if runs else None)

    def commit_size_tuning(self, tuning: SizeTuning) -> int:
        """Store what settings are worth at several sizes; it is on disk when this returns.

        Returns
        -------
        int
            The id of the row.

        Raises
        ------
        DatabaseError
            When the disk is full or the file cannot be written.
        """
        return self._connection.write(insert_size_tuning, tuning)

    def size_tunings(self) -> list[SizeTuning]:
        """Of all kernels for any size, newest first."""
        return self._connection.read(read_size_tunings)

    def records(self, key: KernelKey) -> list[TuningRecord]:
        """All records of a key, oldest first."""
        clause = f"WHERE {rows.OF_KEY} ORDER BY r.id"
        return self._connection.read(rows.select_records, clause, asdict(key))

    def history(self, workloads: Sequence[Workload]) -> list[TuningRecord]:
        """The newest records of these workloads' kinds under any key, oldest first, no modules."""
        return self._connection.read(rows.select_history, {w.kind for w in workloads})

    def record(self, record_id: int) -> TuningRecord | None:
        """The record of an id."""
        found = self._connection.read(rows.select_records, "WHERE r.id = :id", {"id": record_id})
        return found[0] if found else None

    def all_records(
        self, limit: int | None = None, *, workload: str = "", state: str = ""
    ) -> list[TuningRecord]:
        """Records newest first; each filter is a part of the text, in any case."""
        clause = (
            "WHERE instr(lower(r.workload), lower(:workload)) "
            "AND instr(lower(r.state), lower(:state)) ORDER BY r.id DESC LIMIT :limit"
        )
        values = {"workload": workload, "state": state, "limit": -1 if limit is None else limit}
        return self._connection.read(rows.select_records, clause, values)

    def records_of(self, workloads: Iterable[str]) -> list[TuningRecord]:
        """Records of these workloads under any key, newest first."""
        clause = "WHERE r.workload IN (SELECT value FROM json_each(:names)) ORDER BY r.id DESC"
        names = json.dumps(list(workloads))
        return self._connection.read(rows.select_records, clause, {"names": names})

    def count(self) -> int:
        """How many records there are."""
        return self._connection.read(lambda db: int(db["live_records"].count))

    def measurements(self, after: int = 0) -> list[Measurement]:
        """Records as lines of a table, newest first, deleted ones too, without samples.

        Of all records those that were stored ``after`` the one of an id.
        """
        return self._connection.read(read_measurements, after)

    def annotate(self, texts: Mapping[int, tuple[str, str]]) -> None:
        """Set note and tags of records by their ids, all or none."""
        self._connection.write(remarks.annotate, texts)

    def delete(self, ids: Sequence[int]) -> None:
        """Put records aside: nothing reads them any more, but :meth:`restore` brings them back.

        :meth:`vacuum` takes them off the disk.
        """
        self._connection.write(remarks.delete, ids)

    def restore(self, ids: Sequence[int]) -> None:
        """Bring deleted records back."""
        self._connection.write(remarks.restore, ids)

    def vacuum(self) -> int:
        """Remove deleted records for good and give unused space back; how many they were."""
        return self._connection.write(remarks.purge)

    def integrity(self) -> str:
        """``ok``, or what SQLite's own checks found."""
        return self._connection.read(check_integrity)

    @staticmethod
    def look_into(path: Path) -> list[Measurement]:
        """What :meth:`import_from` would read of a file, without adding it; ids count from 1.

        Raises
        ------
        DatabaseError
            When the file cannot be read or is not one of ours.
        """
        records = transfer.read_records(Path(path))
        return [Measurement.of(number, record) for number, record in enumerate(records, 1)]

    def import_from(self, path: Path, on_progress: OnProgress = no_progress) -> int:
        """Add the records of another database or of a JSON export; how many were new.

        Raises
        ------
        DatabaseError
            When the file cannot be read or is not one of ours; nothing is added then.
        """
        try:
            return self.add_records(transfer.read_records(Path(path)), on_progress)
        except BugError as e:
            raise DatabaseError(f"The file {path} is damaged: {e}", "Export it again.") from e

    def export_to(self, path: Path, *, on_progress: OnProgress = no_progress) -> int:
        """Write records to ``.db``, ``.json`` (both complete) or ``.csv`` (without modules).

        An existing file is replaced only when the new one is complete.

        Returns
        -------
        int
            How many records were written.
        """
        path = Path(path).absolute()
        if path == self.path:
            raise DatabaseError(f"{path} is the open database itself.", "Choose another name.")
        records = self.all_records()[::-1]
        transfer.write_records(path, records, on_progress)
        return len(records)


def _checked_and_backed_up(db: Database, path: Path) -> None:
    if (found := check_integrity(db)) != "ok":
        raise UnusableError(
            f"The kernel database {path} is damaged ({found[:80]}).",
            "`nnjit db restore` takes the last backup.",
        )
    try:
        back_up(db.conn, path)
    except DatabaseError as e:
        LOGGER.warning("No backup: %s", e)
