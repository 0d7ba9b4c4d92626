"""Tables of the commons, the same on SQLite and PostgreSQL; migrations make them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

devices = Table(
    "devices",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("seen", BigInteger, nullable=False),
    Column("day", Integer, nullable=False),
    Column("reports", Integer, nullable=False),
)
"""Each device's last report, and how many it sent on its last day (days since 1970)."""

places = Table(
    "places",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("family", String(64), nullable=False, index=True),
    Column("device", String(16), nullable=False),
    Column("version", Integer, nullable=False),
    Column("document", Text, nullable=False),
    Column("bucket", String(2), nullable=False, server_default="", index=True),
)
"""Keys. ``family`` is the digest of what devices share that can learn of each other;
``bucket`` that of the workload, empty where an older server wrote it."""

ballots = Table(
    "ballots",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("place", Integer, ForeignKey("places.id", ondelete="CASCADE"), nullable=False),
    Column("voter", String(64), nullable=False),
    Column("source", String(32), nullable=False),
    Column("ranked", Text, nullable=False),
    Column("received", BigInteger, nullable=False),
    UniqueConstraint("place", "voter"),
    Index("ix_ballots_received", "received"),
)
"""The newest finding of each device for each key: one voice, however often it reports."""

secrets = Table(
    "secrets",
    metadata,
    Column("name", String(16), primary_key=True),
    Column("value", String(64), nullable=False),
)
"""``source``: the key that addresses are hashed with, made once."""

snapshots = Table(
    "snapshots",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("made", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
)
"""Published answers by the SHA-256 of their bytes."""
