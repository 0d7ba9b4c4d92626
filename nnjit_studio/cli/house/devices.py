"""The verbs of ``devices``: browsers of this machine, phones and computers of the house."""

from __future__ import annotations

import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from nnjit_studio.cli.common import JSON, answer, database_path, note, print_json
from nnjit_studio.cli.house.at_work import (
    devices_table,
    only_pairing,
    show_code,
)
from nnjit_studio.cli.house.side_by_side import compare_devices
from nnjit_studio.cli.target_options import OPTIONS
from nnjit_studio.cli.verbs import argument, option, verb
from nnjit_studio.engine.pairing.door import listen_at
from nnjit_studio.engine.pairing.known import KnownDevices, house_folder
from nnjit_studio.engine.pairing.state import DeviceRow
from nnjit_studio.errors import UserError

_DATABASE: Any = OPTIONS["database"]
_LOOK_S = 0.5


@click.group()
def devices() -> None:
    """Compare the browsers of this machine, and let devices of the house run kernels."""


@verb("open")
def open_door(
    listen: str = option("", "This machine's ADDRESS[:PORT] in the network of the house."),
    minutes: float = option(
        60.0, "Minutes until the port closes by itself.", type=click.FloatRange(0, 720)
    ),
    once: bool = option(False, "Close the port as soon as a device has joined."),
    database: Path | None = _DATABASE,
    as_json: bool = JSON,
) -> None:
    """Open a port, show a code by which one device joins, and list who is there."""
    changed, told = threading.Event(), None
    folder = house_folder(database_path(database))
    with only_pairing(folder, listen_at(listen, 60 * minutes), changed) as door:
        show_code(door)
        while door.open:
            changed.clear()
            rows = door.rows()
            if rows != told:
                told = rows
                _show(rows, as_json)
            invitation = door.invitation
            if once and invitation is not None:
                if invitation.state == "used":
                    return
                if invitation.state != "open":
                    raise UserError(
                        f"No device joined: the code is {invitation.state}.", "Start again."
                    )
            changed.wait(_LOOK_S)
    note("The port is closed.")


@verb("list")
def list_devices(database: Path | None = _DATABASE, as_json: bool = JSON) -> None:
    """List the devices that have joined."""
    known = KnownDevices(house_folder(database_path(database)))
    rows = [DeviceRow(d.id, d.name, d.joined) for d in known.all()]
    text = devices_table(rows) if rows else "No device has joined: nnjit devices open."
    answer(as_json, {"ok": True, "devices": [asdict(row) for row in rows]}, text)


@verb()
def revoke(
    device: str = argument(), database: Path | None = _DATABASE, as_json: bool = JSON
) -> None:
    """Forget DEVICE, by its id: it is cut off at once and has to join anew."""
    if not KnownDevices(house_folder(database_path(database))).revoke(device):
        raise UserError(f"There is no device {device!r}.", "nnjit devices list shows them.")
    answer(as_json, {"ok": True, "device": device}, f"{device} is out")


def _show(rows: list[DeviceRow], as_json: bool) -> None:
    if as_json:
        print_json({"event": "devices", "devices": [asdict(row) for row in rows]})
    elif rows:
        note(devices_table(rows))


for _verb in (compare_devices, open_door, list_devices, revoke):
    devices.add_command(_verb)
