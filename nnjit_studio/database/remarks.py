"""Remarks of people on records: notes, tags, and what was put aside."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence

from sqlite_utils import Database


def annotate(db: Database, texts: Mapping[int, tuple[str, str]]) -> None:
    """Set note and tags of records by their ids, all or none."""
    _update(
        db,
        "note = ?, tags = ? WHERE id = ?",
        ((note, " ".join(tags.split()), i) for i, (note, tags) in texts.items()),
    )


def delete(db: Database, ids: Sequence[int]) -> None:
    """Put records aside."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    _update(db, "deleted = ? WHERE id = ? AND deleted = ''", ((now, i) for i in ids))


def restore(db: Database, ids: Sequence[int]) -> None:
    """Bring deleted records back."""
    _update(db, "deleted = '' WHERE id = ?", ((i,) for i in ids))


def purge(db: Database) -> int:
    """Remove deleted records and what only they used, and give the space back; their number."""
    with db.atomic():
        gone = int(db.execute("DELETE FROM records WHERE deleted != ''").rowcount)
        db.execute(
            "DELETE FROM kernels WHERE sha256 NOT IN "
            "(SELECT kernel_sha256 FROM records WHERE kernel_sha256 IS NOT NULL)"
        )
        db.execute(
            "DELETE FROM kernel_keys WHERE id NOT IN "
            "(SELECT key_id FROM records UNION SELECT key_id FROM size_tunings)"
        )
    db.vacuum()
    return gone


def _update(db: Database, change: str, rows: Iterable[tuple[object, ...]]) -> None:
    with db.atomic():
        db.conn.executemany(f"UPDATE records SET {change}", rows)
