"""What the server keeps: each device's newest voice on each key. All calls block."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace

import msgspec
import sqlalchemy as sa

from nnjit_studio.commons.report import Finding, Place, SignedReport, check_order
from nnjit_studio.commons.report.buckets import bucket_of
from nnjit_studio.commons.rule import Ballot
from nnjit_studio.commons.server.connection import open_database, upsert
from nnjit_studio.commons.server.tables import ballots, devices, places, secrets, snapshots
from nnjit_studio.errors import CommonsError

DAY_S = 86_400
MOST_A_DAY = 200
"""Reports of one device in a day."""
_MOST_BALLOTS = 20_000
"""Newest ballots that one answer is made of."""


class QuotaError(CommonsError):
    """A device sent more reports than it may in a day."""


class Store:
    """A database of the commons.

    Parameters
    ----------
    url
        ``sqlite:///FILE`` or ``postgresql://USER@HOST/NAME``.
    """

    def __init__(self, url: str) -> None:
        self.engine = open_database(url)
        self._reading = self.engine.execution_options(reading=True)
        with self.engine.begin() as connection:
            found = connection.execute(sa.select(secrets.c.value)).scalar_one()
        self._secret = bytes.fromhex(found)

    def close(self) -> None:
        self.engine.dispose()

    def source(self, address: str) -> str:
        """A block of addresses (IPv4 /24, IPv6 /48) as a keyed hash; the address is not kept."""
        try:
            ip = ipaddress.ip_address(address)
        except ValueError:
            block = "unknown"
        else:
            bits = 24 if ip.version == 4 else 48
            block = str(ipaddress.ip_network((ip, bits), strict=False))
        return hmac.new(self._secret, block.encode(), hashlib.sha256).hexdigest()[:32]

    def accept(self, signed: SignedReport, source: str, now: int) -> bool:
        """Count a report in one transaction; False where it was counted before.

        Raises
        ------
        CommonsError
            When the device sent this number before, with other content.
        QuotaError
        """
        number, digest = signed.report.number, signed.digest
        today = now // DAY_S
        with self.engine.begin() as connection:
            first = {"number": 0, "digest": "", "seen": now, "day": today, "reports": 0}
            insert = upsert(connection, devices).values(key=signed.key, **first)
            connection.execute(insert.on_conflict_do_nothing())
            own = sa.select(devices).where(devices.c.key == signed.key).with_for_update()
            row = connection.execute(own).one()
            last = (row.number, row.digest) if row.number else None
            if not check_order(number, digest, last):
                return False
            count = row.reports + 1 if row.day == today else 1
            if count > MOST_A_DAY:
                raise QuotaError("The device has sent enough for today.", "Go on tomorrow.")
            changed = {"number": number, "digest": digest, "seen": now}
            update = sa.update(devices).where(devices.c.key == signed.key)
            connection.execute(update.values(**changed, day=today, reports=count))
            # One order for everyone, so that two reports never wait for each other.
            for finding in sorted(signed.report.findings, key=lambda f: f.place):
                self._count(connection, finding, signed.key, source, now)
        return True

    def _count(
        self, connection: sa.Connection, finding: Finding, voter: str, source: str, now: int
    ) -> None:
        ranked = [(t.settings, finding.default.ms / t.ms) for t in finding.best]
        self.put(connection, finding.place, Ballot(voter, source, "", tuple(ranked)), now)

    def put(self, connection: sa.Connection, place: Place, ballot: Ballot, now: int) -> None:
        """One voice on one key, in place of that device's earlier one."""
        digest = digest_of(place)
        row = {
            "digest": digest,
            "family": digest_of(_home(place)),
            "device": place.device,
            "version": place.version,
            "document": msgspec.json.encode(place).decode(),
            "bucket": bucket_of(place.kind, place.dims, place.dtype, place.layout),
        }
        connection.execute(upsert(connection, places).values(**row).on_conflict_do_nothing())
        known = sa.select(places.c.id).where(places.c.digest == digest)
        new = {"source": ballot.source, "ranked": json.dumps(ballot.ranked), "received": now}
        insert = upsert(connection, ballots).values(
            place=connection.execute(known).scalar_one(), voter=ballot.voter, **new
        )
        connection.execute(
            insert.on_conflict_do_update(index_elements=["place", "voter"], set_=new)
        )

    def voices(self, home: Place) -> list[tuple[Place, Ballot]]:
        """The newest ballots of all kernels on devices of a family; workload fields are unused."""
        chosen = sa.select(places.c.document, ballots).join(places, places.c.id == ballots.c.place)
        chosen = chosen.where(places.c.family == digest_of(_home(home)))
        chosen = chosen.order_by(ballots.c.received.desc(), ballots.c.id.desc())
        with self._reading.connect() as connection:
            return list(_read(connection.execute(chosen.limit(_MOST_BALLOTS))))

    def bucket(self, bucket: str) -> list[tuple[Place, Ballot]]:
        """The newest ballots of all workloads of a bucket, on any device."""
        chosen = sa.select(places.c.document, ballots).join(places, places.c.id == ballots.c.place)
        chosen = chosen.where(places.c.bucket.in_((bucket, "")))
        chosen = chosen.order_by(ballots.c.received.desc(), ballots.c.id.desc())
        with self._reading.connect() as connection:
            found = _read(connection.execute(chosen.limit(_MOST_BALLOTS)))
            return [
                (p, b) for p, b in found if bucket_of(p.kind, p.dims, p.dtype, p.layout) == bucket
            ]

    def everything(self) -> Iterator[tuple[Place, Ballot]]:
        """All ballots, those of one key together."""
        chosen = sa.select(places.c.document, ballots).join(places, places.c.id == ballots.c.place)
        with self._reading.connect() as connection:
            ordered = chosen.order_by(ballots.c.place, ballots.c.id)
            yield from _read(connection.execution_options(yield_per=1000).execute(ordered))

    def publish(self, digest: str, document: str, now: int) -> None:
        """Keep a snapshot under its digest."""
        with self.engine.begin() as connection:
            row = {"digest": digest, "made": now, "document": document}
            connection.execute(upsert(connection, snapshots).values(**row).on_conflict_do_nothing())

    def snapshot(self, digest: str) -> str | None:
        """A published document, None where there is none."""
        chosen = sa.select(snapshots.c.document).where(snapshots.c.digest == digest)
        with self._reading.connect() as connection:
            found = connection.execute(chosen).scalar_one_or_none()
        return None if found is None else str(found)

    def counts(self) -> dict[str, int]:
        """Rows of each table that grows."""
        with self._reading.connect() as connection:
            return {
                table.name: connection.execute(
                    sa.select(sa.func.count()).select_from(table)
                ).scalar_one()
                for table in (devices, places, ballots, snapshots)
            }

    def by_day(self, days: int, now: int) -> list[tuple[int, int]]:
        """Ballots by the day that they came on, the last ``days``: (days since 1970, count)."""
        day = (ballots.c.received - ballots.c.received % DAY_S).label("day")
        chosen = sa.select(day, sa.func.count()).where(ballots.c.received > now - days * DAY_S)
        with self._reading.connect() as connection:
            rows = connection.execute(chosen.group_by(day).order_by(day)).all()
        return [(int(start) // DAY_S, int(count)) for start, count in rows]

    def prune(self, before: int) -> int:
        """Forget ballots, snapshots and devices that are older; how many ballots went."""
        with self.engine.begin() as connection:
            gone = connection.execute(sa.delete(ballots).where(ballots.c.received < before))
            connection.execute(sa.delete(snapshots).where(snapshots.c.made < before))
            connection.execute(sa.delete(devices).where(devices.c.seen < before))
            used = sa.select(ballots.c.place)
            connection.execute(sa.delete(places).where(places.c.id.not_in(used)))
        return gone.rowcount


def digest_of(place: Place) -> str:
    """SHA-256 of a key's fields, in hexadecimal digits."""
    return hashlib.sha256("\n".join(map(str, astuple(place))).encode()).hexdigest()


def _home(place: Place) -> Place:
    """What devices share that learn of each other: no workload, exact device or version."""
    return replace(place, kind="", dims="", dtype="", layout="", device="", version=0)


def _read(rows: sa.CursorResult[tuple[object, ...]]) -> Iterator[tuple[Place, Ballot]]:
    for row in rows:
        place = msgspec.json.decode(row.document, type=Place)
        ranked: Sequence[tuple[str, float]] = [(s, r) for s, r in json.loads(row.ranked)]
        yield place, Ballot(row.voter, row.source, place.device, tuple(ranked))
