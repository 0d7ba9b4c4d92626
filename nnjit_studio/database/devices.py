"""Measured devices as rows of the database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlite_utils import Database

from nnjit_studio.device.measured import MeasuredDevice

NEWEST_FIRST = "SELECT measured FROM devices ORDER BY id DESC"


def insert_device(db: Database, device: MeasuredDevice) -> int:
    """Add a run of the device experiments; its id."""
    cursor = db.execute(
        "INSERT INTO devices (device_id, target, tier, created, versions, measured)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (
            device.device_id,
            device.target,
            device.tier,
            device.created,
            json.dumps(device.versions),
            json.dumps(device.to_json(), allow_nan=False),
        ),
    )
    return int(cursor.lastrowid or 0)


def device_from_row(row: Mapping[str, Any]) -> MeasuredDevice:
    """A measured device from a row of ``NEWEST_FIRST``."""
    data = json.loads(row["measured"])
    if not isinstance(data, dict):
        raise ValueError("it is no JSON object")
    return MeasuredDevice.from_json(data)
