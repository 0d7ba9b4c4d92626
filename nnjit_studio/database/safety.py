"""SQLite's safety: the journal that is safe with this version, and its errors in words."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from nnjit_studio.errors import DatabaseError


class UnusableError(DatabaseError):
    """The file is damaged, or cannot be read or written."""


class DiskFullError(UnusableError):
    """Nothing was lost, and the same may succeed once there is room."""


WAL_SAFE_SINCE = (3, 51, 3)
"""Older releases since 3.7.0 can corrupt a file when the WAL is reset under two connections."""


def journal_mode(version: tuple[int, int, int]) -> str:
    """Journal mode to use with an SQLite version: ``wal`` where it is safe, else ``truncate``."""
    return "wal" if version >= WAL_SAFE_SINCE else "truncate"


def sqlite_safety() -> dict[str, Any]:
    """What ``nnjit doctor`` tells about SQLite: version, journal mode and the reason for it."""
    mode = journal_mode(sqlite3.sqlite_version_info)
    least = ".".join(map(str, WAL_SAFE_SINCE))
    version = sqlite3.sqlite_version
    why = (
        f"SQLite {version} is {least} or newer: its write-ahead log is safe."
        if mode == "wal"
        else f"SQLite {version} is older than {least}, whose write-ahead log can corrupt a "
        "file; a rollback journal is used instead."
    )
    return {"version": version, "journal_mode": mode, "synchronous": "full", "why": why}


_MEANINGS = (
    (
        "disk is full",
        "The kernel database {path} cannot grow: the disk is full; earlier records are intact.",
        "Free some space and try again.",
    ),
    (
        "locked",
        "The kernel database {path} is locked by another program.",
        "Close the program that has it open and try again.",
    ),
    (
        "readonly",
        "The kernel database {path} cannot be written.",
        "Check the permissions of the file and its folder, or choose another place.",
    ),
    (
        "malformed",
        "The kernel database {path} is damaged.",
        "`nnjit db restore` takes the last backup; or move it away and start a new one.",
    ),
    (
        "interrupted",
        "The kernel database {path} took too long to read for its size.",
        "Ask whoever made the file for an export as .json.",
    ),
    (
        "decode to UTF-8",
        "The kernel database {path} is damaged: a text in it is not UTF-8.",
        "`nnjit db restore` takes the last backup; or move it away and start a new one.",
    ),
    (
        "not a database",
        "The file {path} is not an SQLite database.",
        "Choose another file, or move this one away.",
    ),
    (
        "unable to open",
        "The kernel database {path} cannot be opened.",
        "Check that the folder exists and that you may write there.",
    ),
)


def database_error(error: sqlite3.Error | OSError, path: Path) -> DatabaseError:
    """The words for an error of SQLite or of the file system on a database file."""
    if isinstance(error, OSError):
        reason = error.strerror or type(error).__name__
        return UnusableError(
            f"The kernel database {path} cannot be used: {reason}.",
            "Check the permissions of the file and its folder, or choose another place.",
        )
    for sign, sentence, hint in _MEANINGS:
        if sign in str(error):
            kind = DiskFullError if sign == "disk is full" else UnusableError
            return kind(sentence.format(path=path), hint)
    return DatabaseError(
        f"The kernel database {path} answered with an error: {error}.",
        "Close other programs that use it and try again; else import a backup into a new one.",
    )
