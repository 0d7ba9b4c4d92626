"""The bucket of each key's workload, for the map of devices."""

from __future__ import annotations

import hashlib
import json

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
_FIELDS = ("kind", "dims", "dtype", "layout")


def upgrade() -> None:
    """Add it; a server of the older version that runs on leaves it empty."""
    op.add_column("places", sa.Column("bucket", sa.String(2), nullable=False, server_default=""))
    op.create_index("ix_places_bucket", "places", ["bucket"])
    places = sa.table("places", sa.column("id"), sa.column("document"), sa.column("bucket"))
    connection = op.get_bind()
    for row in connection.execute(sa.select(places.c.id, places.c.document)).all():
        document = json.loads(row.document)
        name = "\n".join(str(document[field]) for field in _FIELDS)
        bucket = hashlib.sha256(name.encode()).hexdigest()[:2]
        connection.execute(sa.update(places).where(places.c.id == row.id).values(bucket=bucket))
