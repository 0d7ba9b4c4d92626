"""Backups of a database: made now and then when a Studio opens it, taken when it is damaged."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from nnjit_studio.errors import DatabaseError
from nnjit_studio.support.files import replacing

KEPT = 3
EVERY_S = 24 * 3600.0


def backups_of(path: Path) -> list[Path]:
    """Newest first."""
    names = (path.with_name(f"{path.stem}.backup-{n}{path.suffix}") for n in range(1, KEPT + 1))
    return [name for name in names if name.is_file()]


def back_up(connection: sqlite3.Connection, path: Path) -> None:
    """Copy a healthy database, unless a copy is younger than a day; the oldest one goes."""
    there = backups_of(path)
    if there and time.time() - there[0].stat().st_mtime < EVERY_S:
        return
    for number in range(KEPT, 1, -1):
        older = path.with_name(f"{path.stem}.backup-{number - 1}{path.suffix}")
        if older.is_file():
            older.replace(path.with_name(f"{path.stem}.backup-{number}{path.suffix}"))
    newest = path.with_name(f"{path.stem}.backup-1{path.suffix}")
    with (
        replacing(newest, "The backup", DatabaseError) as part,
        closing(sqlite3.connect(part)) as copy,
    ):
        connection.backup(copy)


def take_backup(path: Path) -> tuple[Path, Path]:
    """Put the newest backup in a database's place; the caller holds the database's lock.

    Returns
    -------
    tuple
        The backup, and where the old file is now.

    Raises
    ------
    DatabaseError
        When there is no backup.
    """
    there = backups_of(path)
    if not there:
        raise DatabaseError(
            f"There is no backup of {path}.", "Move the file away to start a new one."
        )
    number = 1
    while (kept := path.with_name(f"{path.stem}.damaged-{number}{path.suffix}")).exists():
        number += 1
    if path.exists():
        path.replace(kept)
    for suffix in ("-journal", "-wal", "-shm"):  # of the old file; the backup's own never exist
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    with replacing(path, "The database", DatabaseError) as part:
        part.write_bytes(there[0].read_bytes())
    return there[0], kept
