"""The Devices panel on a house that is played: switch, code, list, limit, revoke."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from gui_window import wait_job
from PySide6.QtCore import Qt

from nnjit_studio.engine.pairing.invitation import Invitation
from nnjit_studio.engine.pairing.known import KnownDevices
from nnjit_studio.engine.pairing.state import DeviceRow, DeviceState, Told
from nnjit_studio.errors import UserError
from nnjit_studio.tuner.events import RoundDone
from nnjit_studio.ui.devices.code import countdown
from nnjit_studio.workbench import house as house_room
from nnjit_studio.workbench.house import GuestRow

PHONE = "Mozilla/5.0 (Linux; Android 16) Chrome/150"


class PlayedHouse:
    """A house without a port: devices are here when ``here`` says so."""

    def __init__(self, folder) -> None:
        self.known = KnownDevices(folder)
        self.door = None
        self.refuses = ""
        self.here: dict[str, DeviceState] = {}
        self.working: dict[str, Told] = {}
        self.tuned, self.stopped = [], threading.Event()
        self.now_s = 0.0

    def listen(self, options):
        if self.refuses:
            raise UserError(self.refuses, "Choose another one.")
        self.options = options
        self.door = SimpleNamespace(
            open=True, address="https://192.168.1.20:8610/", fingerprint="AB:CD",
            seconds_left=3599.0, invitation=None, invite=self.invite,
        )  # fmt: skip
        self.invite()

    def invite(self):
        self.door.invitation = Invitation(lambda: self.now_s)
        self.door.url = self.door.address + "#" + self.door.invitation.secret

    def close(self):
        self.stop()
        self.door = None

    def stop(self):
        self.stopped.set()

    def rows(self):
        return [
            GuestRow(d, self._row(d), self.known.seen(d.id) or 0.0, self.working.get(d.id))
            for d in self.known.all()
        ]

    def _row(self, device):
        state = self.here.get(device.id) if self.door else None
        here = state is not None
        return DeviceRow(
            device.id, device.name, device.joined, here, here, "", state or DeviceState()
        )

    def limit(self, device, seconds):
        self.known.put(replace(device, most_s=seconds))

    def tune(self, device, work):
        self.stopped.clear()
        self.tuned.append((device.id, device.most_s, work.model))
        self.working[device.id] = Told("m", "matmul:1x2x3", 12.5, 0.8)
        yield RoundDone.__new__(RoundDone)
        self.stopped.wait(30)
        self.working.clear()


@pytest.fixture
def house(tmp_path, monkeypatch):
    made = PlayedHouse(tmp_path)
    monkeypatch.setattr(house_room, "House", lambda database: made)
    return made


@pytest.fixture
def panel(qtbot, window, house):
    window.docks["devices"].raise_()
    panel = window.devices
    yield panel
    house.stop()


def listen(qtbot, panel):
    panel.listen.click()
    qtbot.waitUntil(lambda: panel.port.open and not panel.port.busy)
    panel.follow()


def test_nothing_is_open_before_the_switch_and_after_it(qtbot, panel, house):
    assert house.door is None and "port is closed" in panel.where.text()
    assert panel.empty.isVisibleTo(panel) and "Switch Listen on" in panel.empty.text()
    assert not panel.code.isVisibleTo(panel) and not panel.invite.isVisibleTo(panel)
    listen(qtbot, panel)
    assert panel.where.text() == "Port 8610 is open, and closes by itself in 60 min."
    assert panel.code.digits.text().replace(" ", "") == house.door.invitation.digits
    assert panel.code.picture.text == house.door.url
    panel.listen.click()
    qtbot.waitUntil(lambda: not panel.port.job)
    assert house.door is None and not panel.listen.isChecked()
    assert not panel.code.picture.text, "no secret stays on the screen"


def test_the_code_counts_down_and_dies(qtbot, panel, house):
    listen(qtbot, panel)
    assert panel.code.left.text() == countdown(120) == "Lets one device in; dies in 2:00"
    house.now_s = 61.5
    panel.follow()
    assert "0:58" in panel.code.left.text()
    house.now_s = 121
    panel.follow()
    assert "died" in panel.code.left.text() and not panel.code.picture.text
    panel.invite.click()
    assert panel.code.picture.text == house.door.url
    house.door.invitation.take(house.door.invitation.digits)
    panel.follow()
    assert "joined by it" in panel.code.left.text() and not panel.code.digits.text()


def test_a_port_that_cannot_be_had_is_told(qtbot, panel, house, window):
    house.refuses = "The port 8610 cannot be used"
    panel.listen.click()
    qtbot.waitUntil(lambda: not panel.port.wanted)
    assert not panel.listen.isChecked() and "cannot be used" in window.message.text.text()
    panel.address.setText("127.0.0.9:x")
    panel.listen.click()
    assert not panel.port.wanted and "is no port" in window.message.text.text()


def test_a_device_is_revoked_and_the_undo_takes_it_back(qtbot, panel, house, window):
    device, token = house.known.add(PHONE)
    panel.follow()
    assert panel.table.isVisibleTo(panel) and not panel.empty.isVisibleTo(panel)
    panel.table.view.setFocus()
    panel.table.view.selectRow(0)
    qtbot.keyClick(panel.table.view, Qt.Key.Key_Delete)
    assert house.known.find(token) is None and panel.table.model.rows == []
    window.actions_by_id["undo"].trigger()
    assert house.known.find(token) == device
    assert [row.device for row in panel.table.model.rows] == [device]


def test_a_device_tunes_the_open_model_within_its_limit(qtbot, panel, house, window, model_file):
    device, _ = house.known.add(PHONE)
    listen(qtbot, panel)
    assert not panel.tune.isEnabled() and "away" in panel.tune.toolTip()
    house.here[device.id] = DeviceState(False, 0.15, False, 8, 4.0)
    panel.follow()
    assert "Open a model" in panel.tune.toolTip()
    wait_job(qtbot, window, "open", lambda: window.session.open(model_file))
    panel.minutes.setValue(3)
    panel.minutes.editingFinished.emit()
    panel.follow()
    panel.tune.click()
    qtbot.waitUntil(lambda: bool(house.working))
    assert house.tuned == [(device.id, 180.0, model_file)]
    panel.follow()
    (row,) = panel.table.model.rows
    shown = {c.title: c.text(c.value(row)) for c in panel.table.model.columns}
    assert shown["GFLOP/s"] == "12.5" and shown["speed now"] == "80%" and shown["battery"] == "15%"
    assert shown["cores"] == "8" and shown["memory"] == "4" and shown["now"] == "tuning"
    tones = {c.title: c.tone(row) for c in panel.table.model.columns if c.tone}
    assert tones == {"now": "tuned", "speed now": "warn", "battery": "bad"}
    panel.stop.click()
    qtbot.waitUntil(lambda: panel.port.device is None)


def test_a_window_that_closes_closes_the_port(qtbot, panel, house, window):
    listen(qtbot, panel)
    with qtbot.waitSignal(window.closed):
        window.close()
    assert house.door is None
