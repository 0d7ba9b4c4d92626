"""What others know: a server's answer for this kind of device, next to what is known here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from PySide6.QtCore import QSettings, QTimer
from PySide6.QtWidgets import QCheckBox, QLineEdit, QWidget

from nnjit_studio.commons.client.home import home_of, parts_of
from nnjit_studio.commons.client.web import Told, ask_all
from nnjit_studio.database import Measurement
from nnjit_studio.errors import UserError
from nnjit_studio.records.outcomes import TIMED
from nnjit_studio.ui.records.device_map import DeviceMap
from nnjit_studio.ui.state.jobs import JobProblem, reader
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import caption
from nnjit_studio.ui.widgets.panel import chooser, named, push_button
from nnjit_studio.ui.widgets.tables import Column, TablePanel
from nnjit_studio.ui.widgets.theme import Theme

MINE, TEAM, COMMONS = "this machine", "my team's", "the commons"
WHOSE_TIP = "Whose records: of this machine, of a server of your team, or of the public one"
WHOSE = (MINE, TEAM, COMMONS)
SETTINGS = {TEAM: "commons/team", COMMONS: "commons/commons"}
"""Where the address of each server is kept."""
NEVER = "not measured here"
EVERY_MS = 60_000
"""Between questions while *Live* is on: servers make their answers anew once a minute."""
Workload = tuple[str, str, str, str]


@dataclass(frozen=True)
class Line:
    """Settings that others tell, with the times that they and the best ones take here."""

    told: Told
    own: str
    """Best settings that are known here; empty where none are."""
    ratio: float | None
    """Time of the best here by that with the settings told; None where they were not timed."""
    new: bool = False
    """Whether the server tells them only since *Live* was switched on."""

    @property
    def workload(self) -> str:
        kind, dims, dtype, layout = self.told.workload
        return f"{kind}:{dims}:{dtype}{layout.removeprefix('row-major')}"

    @property
    def here(self) -> str:
        """What this device says of them."""
        if self.told.settings == self.own:
            return "the best here too"
        return NEVER if self.ratio is None else f"{self.ratio:.2f} of the best here"


def lines_of(told: Sequence[Told], records: Sequence[Measurement], device: str) -> list[Line]:
    """Every setting that was told, with what this device's records say of it."""
    times: dict[Workload, dict[str, float]] = {}
    for record in records:
        ms, workload = record.median_ms, _parts(record.workload)
        here = record.device == device and not record.deleted
        if workload and here and record.state in TIMED and ms:
            own = times.setdefault(workload, {})
            own[record.settings] = min(own.get(record.settings, ms), ms)
    return [_line(each, times.get(each.workload, {})) for each in told]


def _parts(key: str) -> Workload | None:
    """None of a key that a file of records brought and that is none of ours."""
    try:
        return parts_of(key)
    except ValueError:
        return None


def _line(told: Told, times: Mapping[str, float]) -> Line:
    own = min(times, key=lambda settings: times[settings], default="")
    there = times.get(told.settings)
    return Line(told, own, times[own] / there if own and there else None)


def _share(value: float) -> str:
    return f"{value:.0%}"


COLUMNS: tuple[Column, ...] = (
    Column("workload", lambda x: x.workload, text.workload, width=240,
           hint=lambda x: text.workload_tip(x.workload)),
    Column("settings", lambda x: x.told.settings, width=230),
    Column("new", lambda x: "new" if x.new else "", width=44,
           tip="told only since Live was switched on", tone=lambda x: "good"),
    Column(
        "speed-up", lambda x: x.told.speedup, lambda v: f"{v:.2f}×", True,  # noqa: RUF001
        "over each reporter's own default", 70,
    ),
    Column("votes", lambda x: x.told.score, _share, True, "share of the ranked votes", 56),
    Column("sources", lambda x: x.told.sources, str, True, "independent ones that name them", 62),
    Column("heard", lambda x: x.told.heard, str, True,
           "independent sources that said anything of this kernel", 54),
    Column("dissent", lambda x: x.told.dissent, _share, True,
           "share of the voices that the rest does not agree with", 60,
           lambda x: "warn" if x.told.dissent >= 0.2 else ""),
    Column("believed", lambda x: "yes" if x.told.believed else "worth a try", width=82),
    Column("of", lambda x: "such devices" if not x.told.of_family else "their family", width=90,
           tip="this exact kind of device, or all of like hardware where too few are known"),
    Column("here", lambda x: x.here, width=150, tip="what this device's own records say"),
    Column("best here", lambda x: x.own, width=230),
)  # fmt: skip


class OthersPanel(TablePanel):
    """A table of a server's answer; the server is asked when *Ask* is pressed, not before."""

    def __init__(self, session: StudioSession, settings: QSettings, theme: Theme) -> None:
        super().__init__("What others know", COLUMNS, theme)
        self._session, self._settings = session, settings
        self._whose = COMMONS
        self._told: dict[str, list[Told]] = {}
        self._new: dict[str, set[tuple[Workload, str]]] = {}
        self._records: Sequence[Measurement] = ()
        self.address = named(QLineEdit(), "Address of the server")
        self.address.setMaximumWidth(260)
        self.address.returnPressed.connect(self.ask)
        self.button = push_button(
            "Ask", "Ask the server",
            "Sends what kind of device this is, no kernel and no name of a model", self.ask,
        )  # fmt: skip
        self.count = caption()
        self.whose = chooser("What others know: whose", WHOSE_TIP, WHOSE)
        self.live = named(
            QCheckBox("Live"), "Ask again each minute",
            "Asks the server again each minute while this is seen; new settings are marked",
        )  # fmt: skip
        self._clock = QTimer(self, interval=EVERY_MS)
        self._clock.timeout.connect(self.ask_again)
        self.live.toggled.connect(self._go_live)
        self.lead(self.whose, self.address, self.button, self.live, QWidget())
        self.bar.setStretchFactor(self.address, 1)
        self.count.setContentsMargins(8, 0, 8, 4)
        self.box.insertWidget(1, self.count)
        self.map = DeviceMap(session, theme, self._server, self._selected)
        self.box.addWidget(self.map, 1)
        self._worker = reader(self, lambda told: self._take(*told), self._refused)

    def show_whose(self, whose: str) -> None:
        """Turn to the team's server or that of the commons."""
        self._whose = whose
        self.whose.setCurrentText(whose)
        self.address.setText(str(self._settings.value(SETTINGS[whose], "")))
        self.address.setCursorPosition(0)
        self.address.setPlaceholderText(f"address of {whose} server")
        self.map.clear()
        self.live.setChecked(False)
        self._render()

    def show_records(self, records: Sequence[Measurement]) -> None:
        """Compare with these records of one's own, at once where the table is shown."""
        self._records = records
        if not self.isHidden():
            self._render()

    def _go_live(self, on: bool) -> None:
        """From now on, or no more; what was new is old."""
        self._new.clear()
        if on:
            self._clock.start()
            self.ask()
        else:
            self._clock.stop()
            self._render()

    def ask_again(self) -> None:
        """As the clock does: nobody asks for what nobody sees."""
        if self.isVisible():
            self.ask()

    def ask(self) -> None:
        """Ask the server that is typed; nothing without an address."""
        server, device = self._server(), self._session.workbench.page.device
        if not server:
            return
        whose = self._whose
        self._settings.setValue(SETTINGS[whose], server)

        def work(emit: object) -> tuple[str, list[Told]]:
            if device is None:
                raise UserError("The device is not known yet.", "Open a model first.")
            return whose, ask_all(server, home_of(device))

        if self._worker.start(whose, work):
            self.button.setEnabled(False)
            self.count.setText(f"Asking {server}")

    def _server(self) -> str:
        return self.address.text().strip().rstrip("/")

    def _selected(self) -> tuple[Workload, str] | None:
        """The kernel and the settings of the first line that is selected."""
        rows = self.view.selectionModel().selectedRows()
        line = self.row_at(rows[0]) if rows else None
        return (line.told.workload, line.told.settings) if line else None

    def _take(self, whose: str, told: list[Told]) -> None:
        self.button.setEnabled(True)
        known = self._told.get(whose)
        if known is not None and self.live.isChecked():
            before = {(each.workload, each.settings) for each in known}
            new = {(each.workload, each.settings) for each in told} - before
            self._new[whose] = self._new.get(whose, set()) | new
        self._told[whose] = told
        self._render()

    def _refused(self, problem: JobProblem) -> None:
        self.button.setEnabled(True)
        self.count.setText(str(problem))

    def _render(self) -> None:
        told = self._told.get(self._whose)
        device = self._session.workbench.page.device
        here = device.device_id if device else ""
        new = self._new.get(self._whose, set())
        lines = [
            replace(line, new=(line.told.workload, line.told.settings) in new)
            for line in lines_of(told or (), self._records, here)
        ]
        chosen = self._selected()
        self.model.set_rows(lines, keep=False)
        if chosen:
            self.select_row(lambda line: (line.told.workload, line.told.settings) == chosen)
        if told is None:
            self.count.setText("Nothing was asked yet: type the server's address and press Ask.")
        elif not told:
            self.count.setText("The server knows nothing yet of such a device.")
        else:
            kernels = len({each.workload for each in told})
            never = sum(line.here == NEVER for line in lines)
            fresh = sum(line.new for line in lines)
            since = f"; {fresh} new since Live" if self.live.isChecked() else ""
            self.count.setText(f"{kernels} kernels; {never} settings were {NEVER}{since}")
