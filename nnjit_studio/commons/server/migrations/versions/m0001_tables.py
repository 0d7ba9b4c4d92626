"""The tables of the first version, spelled as they were: a step never changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "devices",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("seen", sa.BigInteger, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("reports", sa.Integer, nullable=False),
    )
    op.create_table(
        "places",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("family", sa.String(64), nullable=False),
        sa.Column("device", sa.String(16), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("ix_places_family", "places", ["family"])
    op.create_table(
        "ballots",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column(
            "place", sa.Integer, sa.ForeignKey("places.id", ondelete="CASCADE"), nullable=False
        ),
        sa.Column("voter", sa.String(64), nullable=False),
        sa.Column("source", sa.String(32), nullable=False),
        sa.Column("ranked", sa.Text, nullable=False),
        sa.Column("received", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("place", "voter"),
    )
    op.create_index("ix_ballots_received", "ballots", ["received"])
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(16), primary_key=True),
        sa.Column("value", sa.String(64), nullable=False),
    )
    op.create_table(
        "snapshots",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("made", sa.BigInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
