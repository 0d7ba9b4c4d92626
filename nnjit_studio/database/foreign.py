"""A stranger's database: nothing runs that its schema says, and reading it has an end."""

from __future__ import annotations

import re
import sqlite3
import sys
import time
from pathlib import Path

from sqlite_utils import Database

from nnjit_studio.database.schema import STEPS, check_version, migrations
from nnjit_studio.errors import DatabaseError
from nnjit_studio.support.limits import seconds_for

MAX_VALUE_BYTES = 64 << 20
_STEPS_BETWEEN = 100_000
_Schema = dict[tuple[str, str], str]


def guard(db: Database, path: Path) -> None:
    """Trust nothing in a file that is only read.

    Raises
    ------
    DatabaseError
        When it has a table, view, index or trigger that no kernel database has.
    """
    if sys.version_info >= (3, 11):
        db.conn.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    end = time.thread_time() + seconds_for(path.stat().st_size)  # SQLite keeps to its thread
    db.conn.set_progress_handler(lambda: time.thread_time() > end, _STEPS_BETWEEN)
    db.execute("PRAGMA trusted_schema=OFF")
    db.execute("PRAGMA cell_size_check=ON")
    ours = _of_version(check_version(db, path))
    for key, text in _schema(db).items():
        if ours.get(key) != text:
            raise DatabaseError(
                f"The kernel database {path} has {key[1]!r} ({key[0]}), which NNJIT Studio "
                "does not make.",
                "Ask whoever made the file for an export as .json.",
            )


def _of_version(version: int) -> _Schema:
    """The schema of a file as the Studio made it at that version."""
    db = Database(memory=True, execute_plugins=False)
    migrations.apply(db)
    known = {key: text for key, text in _schema(db).items() if "_sqlite" in key[1]}
    db.close()
    db = Database(memory=True, execute_plugins=False)
    for step in STEPS[:version]:
        step(db)
    known |= _schema(db)
    db.close()
    return known


def _schema(db: Database) -> _Schema:
    """The text of everything that has one, without quotes and spaces, which versions change."""
    rows = db.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {(str(kind), str(name)): re.sub(r"[\s\[\]\"'`]+", "", str(sql))
            for kind, name, sql in rows if name not in _OF_SQLITE}  # fmt: skip


_OF_SQLITE = ("sqlite_sequence", "sqlite_stat1", "sqlite_stat4")
"""Tables that SQLite makes itself; nothing is read from them here."""
