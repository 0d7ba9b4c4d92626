"""The connection to a database file: one thread that owns it, one process that writes it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from filelock import FileLock, Timeout
from sqlite_utils import Database

from nnjit_studio.database.foreign import guard
from nnjit_studio.database.safety import UnusableError, database_error, journal_mode
from nnjit_studio.database.schema import SCHEMA_VERSION, check_header, check_version, migrate
from nnjit_studio.errors import DatabaseError

BUSY_TIMEOUT_S = 5.0
P = ParamSpec("P")
T = TypeVar("T")


class DatabaseInUseError(DatabaseError):
    """Another Studio writes it."""


class NeedsWriterError(DatabaseError):
    """It cannot be read before somebody has written to it."""


class OlderSchemaError(NeedsWriterError):
    """Its tables are those of an earlier Studio."""


class Connection:
    """An open database file. Jobs may come from any thread; they run in order of arrival.

    Attributes
    ----------
    backup
        The copy that was made before an upgrade; None without one.
    kept
        Whether what is written is on disk.
    """

    def __init__(
        self,
        path: Path,
        open_file: Callable[[], tuple[Database, Path | None]],
        lock: FileLock | None = None,
        kept: bool = True,
    ) -> None:
        self.path = path
        self.kept = kept
        self._lock = lock
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="nnjit-database")
        try:
            self._db, self.backup = self._executor.submit(open_file).result()
        except BaseException as e:
            self._end()
            if isinstance(e, (sqlite3.Error, OSError)):
                raise database_error(e, path) from e
            if isinstance(e, _NONSENSE):
                raise _damaged(path, e) from e
            raise

    @classmethod
    def open(cls, path: Path, read_only: bool = False, foreign: bool = False) -> Connection:
        """Open a file; see :meth:`KernelDatabase.open`.

        One that is ``foreign`` is only read, and trusted in nothing.
        """
        path = Path(path).absolute()
        try:
            check_header(path)
            if (read_only or foreign) and not _has_content(path):
                raise DatabaseError(
                    f"There is no kernel database at {path}.", "Tune a model first, or import one."
                )
            lock = None if read_only or foreign else _lock(path)
        except OSError as e:
            raise database_error(e, path) from e
        return cls(path, lambda: _open_file(path, read_only or foreign, foreign), lock)

    @classmethod
    def open_copy(cls, path: Path) -> Connection:
        """A copy in memory, which may be written but is kept nowhere."""
        path = Path(path).absolute()
        return cls(path, lambda: (_copied(path), None), kept=False)

    @classmethod
    def open_nothing(cls, path: Path) -> Connection:
        """An empty database in memory."""
        return cls(Path(path).absolute(), _empty, kept=False)

    @classmethod
    def open_for_reading(cls, path: Path) -> Connection:
        """Open a file that is only read; see :meth:`KernelDatabase.open_for_reading`."""
        path = Path(path).absolute()
        if not _has_content(path):
            return cls(path, _empty)
        try:
            return cls.open(path, read_only=True)
        except NeedsWriterError:
            cls.open(path).close()
            return cls.open(path, read_only=True)

    def close(self) -> None:
        """Finish what was asked for, close the file and free the lock. May be called twice."""
        try:
            self._executor.submit(self._db.close).result()
        except RuntimeError:
            return
        self._end()

    def read(
        self, job: Callable[Concatenate[Database, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The result of ``job(db, ...)``.

        Raises
        ------
        DatabaseError
            Also when the job cannot make sense of what is stored.
        """
        try:
            return self._run(job, *args, **kwargs)
        except _NONSENSE as e:
            raise _damaged(self.path, e) from e

    def write(
        self, job: Callable[Concatenate[Database, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The result of ``job(db, ...)``, which may change the file.

        Raises
        ------
        DatabaseError
            Also when the file is open to be read only.
        """
        if self._lock is None and self.kept:
            raise DatabaseError(
                f"The kernel database {self.path} is open read-only.", "Open it for writing."
            )
        return self._run(job, *args, **kwargs)

    def _run(
        self, job: Callable[Concatenate[Database, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        try:
            future = self._executor.submit(job, self._db, *args, **kwargs)
        except RuntimeError as e:
            raise DatabaseError(
                f"The kernel database {self.path} is closed.", "Open it again."
            ) from e
        try:
            return future.result()
        except sqlite3.Error as e:
            raise database_error(e, self.path) from e

    def _end(self) -> None:
        self._executor.shutdown()
        if self._lock:
            self._lock.release()


_NONSENSE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""What stored values raise that are not as they should be."""


def _damaged(path: Path, error: Exception) -> DatabaseError:
    return UnusableError(
        f"The kernel database {path} is damaged: an entry cannot be read ({error}).",
        "`nnjit db restore` takes the last backup; or move it away and start a new one.",
    )


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """No Studio has the database open meanwhile."""
    lock = _lock(path)
    try:
        yield
    finally:
        lock.release()


def _lock(path: Path) -> FileLock:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Opened in one thread and closed in another is fine, so the lock is not a thread's own.
    lock = FileLock(f"{path}.lock", timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout as e:
        raise DatabaseInUseError(
            f"The kernel database {path} is in use by another NNJIT Studio.",
            "Close the other Studio, or choose another file with --database.",
        ) from e
    return lock


def _empty() -> tuple[Database, None]:
    db = Database(memory=True, execute_plugins=False)
    migrate(db, Path())
    return db, None


def _copied(path: Path) -> Database:
    db = Database(memory=True, execute_plugins=False)
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as source:
        source.backup(db.conn)
    _check_readable(db, path)
    return db


def _open_file(path: Path, read_only: bool, foreign: bool = False) -> tuple[Database, Path | None]:
    uri = f"{path.as_uri()}?mode={'ro' if read_only else 'rwc'}"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S)
    try:
        # Plugins of sqlite-utils are other people's code: never loaded here.
        db = Database(connection, execute_plugins=False)
        if foreign:
            guard(db, path)
        if read_only:
            _check_readable(db, path)
            return db, None
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA foreign_keys=ON")
        backup = migrate(db, path)
        db.execute(f"PRAGMA journal_mode={journal_mode(sqlite3.sqlite_version_info)}").fetchone()
        return db, backup
    except BaseException:
        connection.close()
        raise


def _check_readable(db: Database, path: Path) -> None:
    try:
        version = check_version(db, path)
    except sqlite3.OperationalError as e:
        if "readonly" not in str(e):
            raise
        raise NeedsWriterError(
            f"The kernel database {path} was left in the middle of a record.",
            "`nnjit db vacuum` takes that back.",
        ) from e
    if version < SCHEMA_VERSION:
        raise OlderSchemaError(
            f"The kernel database {path} has an older schema.", "`nnjit db vacuum` upgrades it."
        )
