"""Devices of the house for a window: the port, who is there, and sessions on one of them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.database import KernelDatabase
from nnjit_studio.engine.pairing.door import Door, DoorOptions
from nnjit_studio.engine.pairing.known import KnownDevices, PairedDevice, house_folder
from nnjit_studio.engine.pairing.state import DeviceRow, Told
from nnjit_studio.errors import TargetError, UserError
from nnjit_studio.model import ImportOptions
from nnjit_studio.records.target_options import DEVICE
from nnjit_studio.tuner.events import Event
from nnjit_studio.workbench.workbench import Workbench

COMES_S = 15.0
"""For a device that is there to come to its work: its page tries every two seconds."""
LEAST_BATTERY = 0.2
"""Below it a device that is not charging is given no work."""


@dataclass(frozen=True)
class GuestRow:
    """A device, and what it does now."""

    device: PairedDevice
    row: DeviceRow
    seen_s: float
    """Unix time."""
    told: Told | None
    """Of the work on it; None where it has none."""

    @property
    def now(self) -> str:
        """In a word or two."""
        if not self.row.here:
            return "away"
        if self.row.state.hidden:
            return "screen off"
        return "tuning" if self.told else "here"


@dataclass(frozen=True)
class Work:
    """A model for a device, as this machine has it open."""

    model: Path
    importing: ImportOptions
    feeds: Mapping[str, Any] | None = None


class House:
    """The port for devices and a workbench behind it; nothing is open before :meth:`listen`.

    Calls block and are made from one thread at a time; :meth:`rows`, :meth:`stop` and what
    concerns a known device may be called beside them.

    Parameters
    ----------
    database
        Gets the records of devices; it is not closed here.

    Attributes
    ----------
    door
        The open port; None while none is.
    """

    def __init__(self, database: KernelDatabase) -> None:
        self._database = database
        self._folder = house_folder(database.path)
        self.known = KnownDevices(self._folder)
        self.door: Door | None = None
        self._bench: Workbench | None = None
        self._working = ""

    def listen(self, options: DoorOptions = DoorOptions()) -> Door:  # noqa: B008
        """Open the port, with a code.

        Raises
        ------
        UserError
            When the address or port cannot be used.
        """
        self.close()
        path = self._database.path
        bench = Workbench(path, DEVICE, opens=lambda _: self._database)
        try:
            self.door = Door(bench.page.hub, self._folder, options)
        except BaseException:
            bench.page.close()
            raise
        self._bench = bench
        self.door.invite()
        return self.door

    def close(self) -> None:
        """Close the port, cut off who is there, end the work; may be called again."""
        self.stop()
        door, bench = self.door, self._bench
        self.door = self._bench = None
        if door is not None:
            door.close()
        if bench is not None:
            bench.tuning.drop()
            bench.page.close()

    def rows(self) -> list[GuestRow]:
        """All devices that have joined, the newest first."""
        door = self.door
        here = {row.id: row for row in door.rows()} if door and door.open else {}
        told = door.told if door else None
        return [
            GuestRow(
                device,
                here.get(device.id) or DeviceRow(device.id, device.name, device.joined),
                self.known.seen(device.id) or 0.0,
                told if device.id == self._working else None,
            )
            for device in self.known.all()
        ]

    def limit(self, device: PairedDevice, seconds: float) -> None:
        """How long it works at a time, from its next work on."""
        self.known.put(dataclasses.replace(device, most_s=seconds))

    def stop(self) -> None:
        """End the work on a device soon, with its summary. Thread-safe."""
        if self._bench is not None:
            self._bench.page.cancel()

    def tune(self, device: PairedDevice, work: Work) -> Iterator[Event]:
        """Tune a model on a device that is there, for as long as its limit says.

        It ends early when the battery is low.

        Raises
        ------
        TargetError
            When the device is not there.
        UserError, ModelError, PageError
        """
        door, bench = self.door, self._bench
        if door is None or bench is None:
            raise UserError("No port is open for devices.", "Switch Listen on first.")
        _check_battery(self._row(door, device), device)
        door.at_work(device.id)
        self._working = device.id
        try:
            self._wait(door, device)
            page = bench.page
            page.guest, page.importing = device.id, work.importing
            page.use(page.backend)
            page.hub.expect_page()
            bench.open_model(work.model, feeds=work.feeds)
            for event in bench.tuning.start(device.most_s):
                door.tell(event.to_json())
                yield event
                if _low(self._row(door, device)):
                    page.cancel()
        finally:
            bench.tuning.drop()
            bench.page.hub.expect_page(False)
            self._working = ""
            door.at_work("")

    def _row(self, door: Door, device: PairedDevice) -> DeviceRow | None:
        return next((row for row in door.rows() if row.id == device.id), None)

    def _wait(self, door: Door, device: PairedDevice) -> None:
        until = time.monotonic() + COMES_S
        while not ((row := self._row(door, device)) and row.works):
            if time.monotonic() > until or row is None or not door.open:
                raise TargetError(
                    f"{device.name} is not there.", "Open its page and keep it in front."
                )
            time.sleep(0.05)


def _low(row: DeviceRow | None) -> bool:
    state = row.state if row else None
    if state is None or state.battery is None:
        return False
    return state.battery < LEAST_BATTERY and not state.charging


def _check_battery(row: DeviceRow | None, device: PairedDevice) -> None:
    if _low(row):
        raise UserError(
            f"The battery of {device.name} is below {LEAST_BATTERY:.0%}.", "Charge it first."
        )
