"""Measured devices as rows of the database."""

from __future__ import annotations

import json

from sqlite_utils import Database

from nnjit_studio.device.measured import MeasuredDevice


def insert_device(db: Database, device: MeasuredDevice) -> int:
    """Add a run of the device experiments; its id."""
    row = {name: getattr(device, name) for name in ("device_id", "target", "tier", "created")}
    row["versions"] = json.dumps(device.versions)
    row["measured"] = json.dumps(device.to_json(), allow_nan=False)
    with db.atomic():
        return int(db["devices"].insert(row).last_pk)


def read_devices(db: Database) -> list[MeasuredDevice]:
    """Every run, newest first."""
    found = db.execute("SELECT measured FROM devices ORDER BY id DESC").fetchall()
    return [MeasuredDevice.from_json(json.loads(document)) for (document,) in found]
