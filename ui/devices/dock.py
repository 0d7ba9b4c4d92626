"""The Devices panel: the switch, the code, the list, and what a person may do with a device."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QCheckBox, QLabel, QLineEdit, QSpinBox, QWidget

from nnjit_studio.engine.pairing.door import listen_at
from nnjit_studio.errors import NnjitError
from nnjit_studio.ui.commands.history import Ended, UndoStep
from nnjit_studio.ui.devices.code import CodeBox, QrPicture
from nnjit_studio.ui.devices.port import Port
from nnjit_studio.ui.devices.table import COLUMNS
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.state.jobs import JobProblem
from nnjit_studio.ui.widgets.labels import quiet
from nnjit_studio.ui.widgets.panel import (
    Panel,
    ground,
    hbox,
    inset,
    named,
    push_button,
    scrolled,
    vbox,
)
from nnjit_studio.ui.widgets.tables import TablePanel
from nnjit_studio.workbench.house import GuestRow, Work

TICK_MS = 500
ADDRESS = "devices/listen"
CLOSED = "The port is closed: no device can join, and none that has joined can connect."
EMPTY = (
    "No device has joined.\n\n1. Switch Listen on: a port opens to the network of the house.\n"
    "2. Scan the code with a phone, or type the address and the six digits.\n"
    "3. With a model open, choose the device and press Tune on it."
)


class DevicesPanel(Panel):
    """What is shown is read twice a second, while the panel is seen or the port open."""

    def __init__(self, host: Host, port: Port) -> None:
        super().__init__()
        self._host, self.port, self._seen = host, port, False
        self.listen = named(
            QCheckBox("Listen"), "Listen for devices",
            "Open a port to the network of the house, for an hour at most",
        )  # fmt: skip
        self.listen.clicked.connect(self._switch)
        self.where = named(QLabel(wordWrap=True), "State of the port")
        self.address = named(
            QLineEdit(
                str(host.settings.value(ADDRESS, "")), placeholderText="this machine's own address"
            ),
            "Address of this machine",
            "ADDRESS[:PORT] of this machine in the network of the house; empty for its own",
        )
        self.invite = push_button("New code", "New code", "The one before dies", self._invite)
        self.code = CodeBox(QrPicture())
        self.table = TablePanel("Devices", COLUMNS, host.theme)
        self.empty = ground(QLabel(EMPTY, wordWrap=True))
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._add_buttons()
        self._lay_out()
        self._timer = QTimer(self, interval=TICK_MS)
        self._timer.timeout.connect(self.follow)
        port.changed.connect(self.follow)
        host.session.busy_changed.connect(lambda _: self.follow())
        self.follow()

    def _add_buttons(self) -> None:
        self.tune = push_button("Tune on it", "Devices: tune on it", act=self._tune)
        self.stop = push_button(
            "Stop", "Devices: stop", "End the work on the device", self.port.house.stop
        )
        self.minutes = named(
            inset(QSpinBox(suffix=" min", minimum=1, maximum=720)),
            "Devices: minutes at a time", "How long the device works at a time, at most",
        )  # fmt: skip
        self.minutes.editingFinished.connect(self._limit)
        self.revoke = push_button(
            "Revoke", "Devices: revoke", "Cut it off; it has to join anew (Del)", self._revoke
        )
        action = QAction("Revoke", self.table.view, shortcut=QKeySequence("Del"))
        # In its table alone, like that of records: the same key means another thing in each.
        for each in (action, self._host.actions["delete"]):
            each.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        action.triggered.connect(self._revoke)
        self.table.view.addAction(action)
        self.table.picked.connect(lambda _: self._enable())
        self.table.lead(self.tune, self.stop, quiet(QLabel("at most")), self.minutes, self.revoke,
                        QWidget())  # fmt: skip

    def _lay_out(self) -> None:
        column = QWidget()
        vbox(
            hbox(self.listen, None, self.invite), self.where, self.address, self.code, None,
            on=column, margins=(8, 6, 8, 6), spacing=6,
        )  # fmt: skip
        left = scrolled(ground(column))
        left.setFixedWidth(250)
        picture = vbox(self.code.picture, None, margins=(0, 8, 8, 8))
        self.body = vbox((self.table, 1), (self.empty, 1))
        hbox(left, picture, (self.body, 1), on=self, spacing=0)

    def be_seen(self, seen: bool) -> None:
        self._seen = seen
        self.follow()

    def set_theme(self, theme: object) -> None:
        self.table.set_theme(self._host.theme)

    # What is shown

    def follow(self) -> None:
        """Show the port, its code and the devices as they are now."""
        port, door = self.port, self.port.house.door
        if port.wanted and door is not None and not door.open and not port.busy:
            port.close()  # by itself, after its hour
            return
        self.listen.setChecked(port.wanted)
        self.listen.setEnabled(not port.busy)
        self.address.setVisible(not port.wanted)
        self.invite.setVisible(port.open)
        self.where.setText(self._state())
        self.code.follow(door if port.open else None)
        rows = port.house.rows()
        if rows != self.table.model.rows:
            self.table.model.set_rows(rows)
        self.table.setVisible(bool(rows))
        self.empty.setVisible(not rows)
        self._enable()
        if self._seen or port.wanted or port.job:
            self._timer.start()
        else:
            self._timer.stop()

    def _state(self) -> str:
        door = self.port.house.door
        if self.port.busy:
            return "Opening the port" if self.port.wanted else "Closing the port"
        if door is None or not door.open:
            return CLOSED
        minutes = -(-int(door.seconds_left) // 60)
        port = door.address.rstrip("/").rpartition(":")[2]
        return f"Port {port} is open, and closes by itself in {minutes} min."

    def guest(self) -> GuestRow | None:
        """The selected device, or the only one."""
        rows = self.table.view.selectionModel().selectedRows()
        if len(rows) == 1:
            return self.table.row_at(rows[0])  # type: ignore[no-any-return]
        only = self.table.model.rows
        return only[0] if len(only) == 1 else None

    def _enable(self) -> None:
        guest, works = self.guest(), self.port.device is not None
        why_not = self._why_not(guest)
        self.tune.setEnabled(not why_not)
        self.tune.setToolTip(why_not or "Tune the open model on this device")
        self.stop.setEnabled(works)
        self.revoke.setEnabled(guest is not None)
        self.minutes.setEnabled(guest is not None)
        if guest is not None and not self.minutes.hasFocus():
            self.minutes.setValue(round(guest.device.most_s / 60))

    def _why_not(self, guest: GuestRow | None) -> str:
        """Why a device cannot be tuned now; empty where it can."""
        if guest is None:
            return "Choose a device"
        if not guest.row.here:
            return "It is away: open its page there"
        if self.port.device is not None:
            return "A device works already"
        if self._host.session.state.model is None:
            return "Open a model first"
        return "Wait for the running job" if self._host.session.busy else ""

    # What a person does

    def _switch(self, on: bool) -> None:
        if not on:
            self.port.close()
            return
        try:
            options = listen_at(self.address.text().strip())
        except NnjitError as error:
            self._refuse(error)
            self.listen.setChecked(False)
            return
        self._host.settings.setValue(ADDRESS, self.address.text().strip())
        self.port.listen(options)

    def _invite(self) -> None:
        if self.port.house.door is not None:
            self.port.house.door.invite()
        self.follow()

    def _tune(self) -> None:
        guest, model = self.guest(), self._host.session.state.model
        if guest is not None and model is not None and not self._why_not(guest):
            bench = self._host.session.workbench
            work = Work(model.path, bench.page.importing, dict(bench.model.feeds))
            self.port.tune(guest.device, work)

    def _limit(self) -> None:
        guest = self.guest()
        seconds = 60.0 * self.minutes.value()
        if guest is not None and seconds != guest.device.most_s:
            self._try(lambda: self.port.house.limit(guest.device, seconds))

    def _revoke(self) -> None:
        guest = self.guest()
        if guest is None:
            return
        device, known = guest.device, self.port.house.known
        self._host.history.do(
            UndoStep(
                f"Revoked {device.name}",
                lambda ended: self._change(ended, lambda: known.revoke(device.id)),
                lambda ended: self._change(ended, lambda: known.put(device)),
            )
        )

    def _change(self, ended: Ended, change: Callable[[], object]) -> None:
        ended(self._try(change))

    def _try(self, change: Callable[[], object]) -> bool:
        try:
            change()
        except NnjitError as error:
            self._refuse(error)
            return False
        finally:
            self.follow()
        return True

    def _refuse(self, error: NnjitError) -> None:
        self._host.tell(JobProblem.of("devices", error))
