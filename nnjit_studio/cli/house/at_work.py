"""Devices of the house for the verbs: the QR code in the terminal, and who has joined."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import segno

from nnjit_studio.cli.common import note
from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.pairing.door import Door, DoorOptions, listen_at
from nnjit_studio.engine.pairing.invitation import CODE_S
from nnjit_studio.engine.pairing.known import house_folder
from nnjit_studio.engine.pairing.state import DeviceRow
from nnjit_studio.errors import TargetError
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.support.tables import text_table
from nnjit_studio.workbench.page import EnginePage

_LOOK_S = 0.2


def show_code(door: Door) -> None:
    """Print a new code: as a QR code, and to type."""
    invitation = door.invite()
    picture = io.StringIO()
    segno.make(door.url, error="m").terminal(picture, compact=True)
    note(picture.getvalue())
    digits = f"{invitation.digits[:3]} {invitation.digits[3:]}"
    note(f"Scan this within {CODE_S:.0f} s, or open {door.address} and type {digits}.")
    note(f"Its certificate is of an authority of this machine alone, SHA-256 {door.fingerprint}.")


@contextmanager
def device_at_work(page: EnginePage, target: TargetOptions, database: Path) -> Iterator[Door]:
    """A device of the house that serves the page; only it does, until the end.

    Raises
    ------
    TargetError
        When none comes within the life of the code.
    """
    changed = threading.Event()
    options = listen_at(target.listen, DoorOptions.open_s)
    wanted = target.device or ""
    with Door(page.hub, house_folder(database), options, wanted, changed.set) as door:
        show_code(door)
        row = wait_for(door, changed, lambda row: row.works and row.id in (wanted or row.id))
        note(f"{row.name} at {row.address} works now; Ctrl+C ends it.")
        door.at_work(row.id)
        page.guest = row.id
        page.hub.expect_page()
        yield door


def wait_for(door: Door, changed: threading.Event, right: Callable[[DeviceRow], bool]) -> DeviceRow:
    """The first row that is right.

    Raises
    ------
    TargetError
        When there is none before the code has died.
    """
    while True:
        changed.clear()
        if row := next((row for row in door.rows() if right(row)), None):
            return row
        invitation = door.invitation
        state = invitation.state if invitation else "expired"
        if state in ("expired", "locked") or not door.open:
            raise TargetError(
                f"No device joined: the code is {state}.", "Start again for a new one."
            )
        changed.wait(_LOOK_S)


def devices_table(rows: list[DeviceRow]) -> str:
    """For people."""
    columns = ("id", "device", "joined", "now", "battery")
    return text_table(columns, [_cells(row) for row in rows], left=(0, 1, 2, 3))


def _cells(row: DeviceRow) -> tuple[str, ...]:
    now = "works" if row.works else "here" if row.here else "away"
    if row.here and row.state.hidden:
        now += ", its screen is off"
    battery = "" if row.state.battery is None else f"{row.state.battery:.0%}"
    return row.id, row.name, row.joined[:16].replace("T", " "), now, battery


@contextmanager
def only_pairing(folder: Path, options: DoorOptions, changed: threading.Event) -> Iterator[Door]:
    """A door without a workbench: devices join and wait for work."""
    with Hub() as hub, Door(hub, folder, options, on_change=changed.set) as door:
        yield door
