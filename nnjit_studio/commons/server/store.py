"""What the server keeps: each device's newest voice on each key. All calls block."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
from collections.abc import Iterator, Sequence

import msgspec
import sqlalchemy as sa

from nnjit_studio.commons.report.buckets import bucket_of
from nnjit_studio.commons.report.document import Place
from nnjit_studio.commons.rule.ballot import Ballot
from nnjit_studio.commons.server.connection import open_database, upsert
from nnjit_studio.commons.server.counting import (
    DAY_S,
    Arrival,
    Counted,
    count_all,
    family_digest,
)
from nnjit_studio.commons.server.tables import ballots, devices, places, secrets, snapshots

_MOST_BALLOTS = 20_000
"""Newest ballots that one answer is made of."""

_VOICES = sa.select(places.c.document, ballots).join(places, places.c.id == ballots.c.place)


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

    def accept_all(self, arrivals: Sequence[Arrival]) -> list[Counted]:
        """Count reports in one transaction, each with an answer of its own."""
        with self.engine.begin() as connection:
            return count_all(connection, arrivals)

    def voices(self, home: Place) -> list[tuple[Place, Ballot]]:
        """The newest ballots of all kernels on devices of a family; workload fields are unused."""
        return self._newest(places.c.family == family_digest(home))

    def bucket(self, bucket: str) -> list[tuple[Place, Ballot]]:
        """The newest ballots of all workloads of a bucket, on any device."""
        found = self._newest(places.c.bucket.in_((bucket, "")))
        return [(p, b) for p, b in found if bucket_of(*p.workload) == bucket]

    def _newest(self, those: sa.ColumnElement[bool]) -> list[tuple[Place, Ballot]]:
        chosen = _VOICES.where(those).order_by(ballots.c.received.desc(), ballots.c.id.desc())
        with self._reading.connect() as connection:
            return list(_read(connection.execute(chosen.limit(_MOST_BALLOTS))))

    def everything(self) -> Iterator[tuple[Place, Ballot]]:
        """All ballots, those of one key together."""
        with self._reading.connect() as connection:
            ordered = _VOICES.order_by(ballots.c.place, ballots.c.id)
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


def _read(rows: sa.CursorResult[tuple[object, ...]]) -> Iterator[tuple[Place, Ballot]]:
    for row in rows:
        place = msgspec.json.decode(row.document, type=Place)
        ranked: Sequence[tuple[str, float]] = [(s, r) for s, r in json.loads(row.ranked)]
        yield place, Ballot(row.voter, row.source, place.device, tuple(ranked))
