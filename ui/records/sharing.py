"""The dialog that shares: the very bytes, the consent, the log, and the one switch."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable

from PySide6.QtCore import QSettings, Qt
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QSplitter,
    QWidget,
)

from nnjit_studio.commons.client.consent import CONSENT, Offer, accept, offer
from nnjit_studio.commons.client.sharing import Sharing
from nnjit_studio.device.host import host_profile
from nnjit_studio.ui.state.jobs import JobProblem, reader
from nnjit_studio.ui.state.services import Records
from nnjit_studio.ui.widgets.labels import quiet
from nnjit_studio.ui.widgets.panel import ground, hbox, named, push_button, vbox

SERVER = "commons/commons"
"""The setting with the last address."""
MOST_RECORDS = 10_000
HOW = "The log below shows what was sent; the switch stops it."
FIRST = "Type the address of a server of the commons. Nothing is sent before you have seen it."


class SharingDialog(QDialog):
    """Shows what would travel and sends it when *Send these bytes* is pressed, not before."""

    def __init__(
        self, parent: QWidget, records: Records, own: Sharing, settings: QSettings
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Share results with a commons")
        self._records, self._own, self._settings = records, own, settings
        self._offer: Offer | None = None
        address = str(settings.value(SERVER, ""))
        self.server = named(QLineEdit(address), "Address of the server")
        self.server.setPlaceholderText("https://commons.example.org")
        self.server.textChanged.connect(lambda _: self._show(None))
        self.prepare = push_button(
            "Show what would travel", "Show what would travel", "Makes the report; sends nothing",
            self._prepare,
        )  # fmt: skip
        self.document = _text("The JSON that would travel")
        self.consent = named(QLabel(FIRST, wordWrap=True), "What it means")
        self.allowed = named(QCheckBox("Sharing is allowed"), "Sharing is allowed",
                             "Off, nothing is made or sent")  # fmt: skip
        self.allowed.setChecked(not own.stopped)
        self.allowed.toggled.connect(self._switch)
        self.send = push_button("Send these bytes", "Send these bytes", act=self._send)
        self.told = named(QLabel(wordWrap=True), "What became of it")
        self.log = _text("Reports that left this machine")
        self._lay_out()
        self._worker = reader(self, self._take, self._refused)
        self._show(None)
        self._read_log()
        self.resize(760, 560)

    def _lay_out(self) -> None:
        above, below = ground(QWidget()), ground(QWidget())
        vbox(
            hbox((self.server, 1), self.prepare), (self.document, 1), self.consent,
            hbox(self.allowed, (self.told, 1), self.send),
            on=above, margins=(12, 12, 12, 8), spacing=8,
        )  # fmt: skip
        title = quiet(QLabel("Left this machine, the newest first"))
        vbox(title, (self.log, 1), on=below, margins=(12, 4, 12, 12), spacing=4)
        parts = QSplitter(Qt.Orientation.Vertical, childrenCollapsible=False)
        parts.addWidget(above)
        parts.addWidget(below)
        parts.setSizes([400, 160])
        vbox(parts, on=self)

    def _prepare(self) -> None:
        server, now = self.server.text().strip(), int(time.time())

        def work(emit: object) -> Offer:
            records = self._records.all_records(limit=MOST_RECORDS)
            return offer(self._own, server, records, host_profile(), now)

        self._begin("prepare", work)

    def _send(self) -> None:
        shown = self._offer
        if shown is not None:
            self._settings.setValue(SERVER, shown.server)
            self._begin("send", lambda emit: accept(self._own, shown))

    def _begin(self, name: str, work: Callable[[object], object]) -> None:
        self.told.setText("")
        if self._worker.start(name, work):
            self._enable()

    def _take(self, result: object) -> None:
        if isinstance(result, Offer):
            same = result.server == self.server.text().strip().rstrip("/")
            self._show(result if same else None)
            return
        self._show(None)
        self.told.setText("Sent." if result else "The server had it already.")
        self._read_log()

    def _refused(self, problem: JobProblem) -> None:
        self._show(self._offer if problem.job == "prepare" else None)
        self.told.setText(str(problem))
        self._read_log()

    def _switch(self, on: bool) -> None:
        self._own.switch(on)
        self._show(None)

    def _show(self, offered: Offer | None) -> None:
        """What would travel, and nothing else; without it the next step."""
        self._offer = offered
        self.document.setPlainText(offered.data.decode() if offered else "")
        line = "The line above"
        self.consent.setText(
            CONSENT.format(line=line, server=offered.server, how=HOW).replace("\n", " ")
            if offered else FIRST
        )  # fmt: skip
        self._enable()

    def _enable(self) -> None:
        idle, on = not self._worker.job, self.allowed.isChecked()
        self.prepare.setEnabled(idle and on and bool(self.server.text().strip()))
        self.send.setEnabled(idle and on and self._offer is not None)

    def _read_log(self) -> None:
        lines = [_line(entry) for entry in reversed(self._own.sent())]
        self.log.setPlainText("\n\n".join(lines) or "Nothing was sent.")


def _line(entry: dict[str, object]) -> str:
    when = datetime.datetime.fromtimestamp(float(str(entry["sent"]))).strftime("%Y-%m-%d %H:%M")
    return f"{when}  {entry['server']}\n{entry['document']}"


def _text(name: str) -> QPlainTextEdit:
    made = named(QPlainTextEdit(readOnly=True), name)
    made.setTabChangesFocus(True)
    return made
