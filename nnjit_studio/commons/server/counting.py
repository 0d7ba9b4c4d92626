"""Writing reports: many in one transaction, each counted or refused by itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import msgspec
import sqlalchemy as sa

from nnjit_studio.commons.report.buckets import bucket_of
from nnjit_studio.commons.report.document import Place
from nnjit_studio.commons.report.freshness import check_order
from nnjit_studio.commons.report.signed import SignedReport
from nnjit_studio.commons.rule.ballot import Ballot
from nnjit_studio.commons.server.connection import upsert
from nnjit_studio.commons.server.tables import ballots, devices, places
from nnjit_studio.errors import CommonsError

DAY_S = 86_400
MOST_A_DAY = 200
"""Reports of one device in a day."""
Counted = bool | CommonsError
"""Whether a report was new, or why it is refused."""


class QuotaError(CommonsError):
    """A device sent more reports than it may in a day."""


@dataclass(frozen=True)
class Arrival:
    """A genuine report, the hash of where it came from, and when (s since 1970)."""

    signed: SignedReport
    source: str
    now: int

    @property
    def voices(self) -> Iterable[tuple[Place, Ballot, int]]:
        for finding in self.signed.report.findings:
            ranked = tuple((t.settings, finding.default.ms / t.ms) for t in finding.best)
            yield finding.place, Ballot(self.signed.key, self.source, "", ranked), self.now


def count_all(connection: sa.Connection, arrivals: Sequence[Arrival]) -> list[Counted]:
    """Count reports in the order in which they came; the transaction is the caller's.

    Everyone locks devices first and keys of kernels then, both sorted, so that no two transactions
    wait for each other.
    """
    keys = sorted({arrival.signed.key for arrival in arrivals})
    first = {"number": 0, "digest": "", "seen": 0, "day": 0, "reports": 0}
    connection.execute(
        upsert(connection, devices).on_conflict_do_nothing(), [{"key": k, **first} for k in keys]
    )
    own = sa.select(devices).where(devices.c.key.in_(keys)).order_by(devices.c.key)
    known = {row.key: dict(row._mapping) for row in connection.execute(own.with_for_update())}
    told = [_count(known[arrival.signed.key], arrival) for arrival in arrivals]
    new = [arrival for arrival, result in zip(arrivals, told, strict=True) if result is True]
    if new:
        changed = [_renamed(known[key]) for key in sorted({a.signed.key for a in new})]
        update = sa.update(devices).where(devices.c.key == sa.bindparam("of"))
        connection.execute(update, changed)
        put_all(connection, [voice for arrival in new for voice in arrival.voices])
    return told


def _renamed(row: dict[str, Any]) -> dict[str, Any]:
    """With another name for the key: in an update its own would be the new value."""
    return {"of": row["key"], **{name: row[name] for name in row if name != "key"}}


def _count(row: dict[str, Any], arrival: Arrival) -> Counted:
    """Bring a device's row up."""
    number, digest = arrival.signed.report.number, arrival.signed.digest
    try:
        last = (row["number"], row["digest"]) if row["number"] else None
        if not check_order(number, digest, last):
            return False
    except CommonsError as e:
        return e
    today = arrival.now // DAY_S
    count = row["reports"] + 1 if row["day"] == today else 1
    if count > MOST_A_DAY:
        return QuotaError("The device has sent enough for today.", "Go on tomorrow.")
    row.update(number=number, digest=digest, seen=arrival.now, day=today, reports=count)
    return True


def put_all(connection: sa.Connection, voices: Sequence[tuple[Place, Ballot, int]]) -> None:
    """Each voice on its key, in place of that device's earlier one; the last of equals counts."""
    newest = {(digest_of(place), b.voter): (place, b, now) for place, b, now in voices}
    named = {digest: place for (digest, _), (place, _, _) in newest.items()}
    ids = _ids(connection, list(named))
    missing = [_row(digest, named[digest]) for digest in sorted(set(named) - set(ids))]
    if missing:
        insert = upsert(connection, places).on_conflict_do_nothing()
        connection.execute(insert, missing)
        ids |= _ids(connection, [row["digest"] for row in missing])
    rows = [
        {
            "place": ids[digest],
            "voter": voter,
            "source": ballot.source,
            "ranked": json.dumps(ballot.ranked),
            "received": now,
        }
        for (digest, voter), (_, ballot, now) in sorted(newest.items(), key=lambda item: item[0])
    ]
    insert = upsert(connection, ballots)
    over = {name: insert.excluded[name] for name in ("source", "ranked", "received")}
    connection.execute(
        insert.on_conflict_do_update(index_elements=["place", "voter"], set_=over), rows
    )


def _ids(connection: sa.Connection, digests: Sequence[str]) -> dict[str, int]:
    chosen = sa.select(places.c.digest, places.c.id).where(places.c.digest.in_(digests))
    return {row.digest: row.id for row in connection.execute(chosen)}


def _row(digest: str, place: Place) -> dict[str, Any]:
    return {
        "digest": digest,
        "family": family_digest(place),
        "device": place.device,
        "version": place.version,
        "document": msgspec.json.encode(place).decode(),
        "bucket": bucket_of(*place.workload),
    }


def digest_of(place: Place) -> str:
    """SHA-256 of a key's fields, in hexadecimal digits."""
    return hashlib.sha256("\n".join(map(str, astuple(place))).encode()).hexdigest()


def family_digest(place: Place) -> str:
    """Of what devices share that learn of each other: no workload, exact device or version."""
    return digest_of(replace(place, kind="", dims="", dtype="", layout="", device="", version=0))
