"""Connections to the file of a kernel database, and the lock of whoever writes it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from filelock import FileLock, Timeout
from sqlite_utils import Database

from nnjit_studio.database.safety import journal_mode
from nnjit_studio.database.schema import SCHEMA_VERSION, check_version, migrate
from nnjit_studio.errors import DatabaseError

BUSY_TIMEOUT_S = 5.0


def lock_file(path: Path) -> FileLock:
    """Take the lock of a database for this process.

    Raises
    ------
    DatabaseError
        When another process has it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Opened in one thread and closed in another is fine, so the lock is not a thread's own.
    lock = FileLock(f"{path}.lock", timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout as e:
        raise DatabaseError(
            f"The kernel database {path} is in use by another NNJIT Studio.",
            "Close the other Studio, or choose another file with --database.",
        ) from e
    return lock


class NeedsWriter(DatabaseError):
    """It cannot be read before somebody has written to it."""


class OlderSchema(NeedsWriter):
    """Its tables are those of an earlier Studio."""


def empty_database() -> Database:
    """A database that is written nowhere."""
    db = Database(memory=True, execute_plugins=False)
    migrate(db, Path())
    return db


def connect(path: Path, read_only: bool) -> tuple[Database, Path | None]:
    """Open a file; with it the copy that was made before its tables were upgraded, if any."""
    uri = f"{path.as_uri()}?mode={'ro' if read_only else 'rwc'}"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S)
    try:
        # Plugins of sqlite-utils are other people's code: never loaded here.
        db = Database(connection, execute_plugins=False)
        if read_only:
            try:
                version = check_version(db, path)
            except sqlite3.OperationalError as e:
                if "readonly" not in str(e):
                    raise
                raise NeedsWriter(
                    f"The kernel database {path} was left in the middle of a record.",
                    "`nnjit db vacuum` takes that back.",
                ) from e
            if version < SCHEMA_VERSION:
                raise OlderSchema(
                    f"The kernel database {path} has an older schema.",
                    "`nnjit db vacuum` upgrades it.",
                )
            return db, None
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA foreign_keys=ON")
        backup = migrate(db, path)
        db.execute(f"PRAGMA journal_mode={journal_mode(sqlite3.sqlite_version_info)}").fetchone()
        return db, backup
    except BaseException:
        connection.close()
        raise
