"""For one kernel: which kinds of device a server knows, and what wins where."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnjit_studio.commons.client.home import home_of
from nnjit_studio.commons.client.maps import Elsewhere, ask_map, common_of
from nnjit_studio.commons.report.document import Place
from nnjit_studio.errors import UserError
from nnjit_studio.ui.state.jobs import JobProblem, reader
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import caption
from nnjit_studio.ui.widgets.panel import push_button
from nnjit_studio.ui.widgets.tables import Column, TablePanel
from nnjit_studio.ui.widgets.theme import Theme

FIRST = "Select a kernel above and press Where it wins to see what wins on other kinds of device."
NOBODY = "The server tells of no kind of device here: each needs five independent sources."
_FAMILY = re.compile(r"cpu-(\d+)v-l1\.(\d+)k-l2\.(\d+)k")
_TALLEST = 220
"""Pixels: the table above has the rest."""
_POOR = 0.9
"""Share of the best speed-up below which settings are no good choice there."""


@dataclass(frozen=True)
class Spot:
    """A kind of device on the map."""

    kind: Elsewhere
    settings: str
    """Those that were selected."""
    mine: bool
    """Whether this device is of that kind."""

    @property
    def share(self) -> float | None:
        """Their speed-up there by the best one; None where they are not among the believed."""
        there = self.kind.speedup_of(self.settings)
        return None if there is None else there / self.kind.winner[1]


def family_text(family: str) -> str:
    """Such as ``16 vectors, 32 and 512 KiB``; what is spelled otherwise stays."""
    found = _FAMILY.fullmatch(family)
    return "{} vectors, {} and {} KiB".format(*found.groups()) if found else family


def spots_of(kinds: Sequence[Elsewhere], settings: str, home: Place | None) -> list[Spot]:
    """The kinds, this device's own first, then those that most sources speak for."""

    def mine(kind: Elsewhere) -> bool:
        fields = ("family", "engine", "tier", "threads")
        return home is not None and all(getattr(kind, n) == getattr(home, n) for n in fields)

    spots = [Spot(kind, settings, mine(kind)) for kind in kinds]
    return sorted(spots, key=lambda s: (not s.mine, -s.kind.sources, s.kind.family))


def summary_of(kinds: Sequence[Elsewhere]) -> str:
    """How many winners there are, and what one kernel for all would cost."""
    if not kinds:
        return NOBODY
    winners = len({kind.winner[0] for kind in kinds})
    common = common_of(kinds)
    one = (
        f"one for all has {common.least:.0%} of each best or more: {common.settings}"
        if common
        else "none is believed on all of them"
    )
    return f"Kinds of device: {len(kinds)}, winners: {winners}; {one}"


COLUMNS: tuple[Column, ...] = (
    Column("hardware", lambda s: s.kind.family, family_text, width=180,
           tip="vector registers, first and second cache"),
    Column("browser", lambda s: s.kind.engine, width=80),
    Column("tier", lambda s: s.kind.tier, width=92),
    Column("threads", lambda s: s.kind.threads, str, True, width=56),
    Column("yours", lambda s: "this one" if s.mine else "", width=60),
    Column("wins there", lambda s: s.kind.winner[0], width=230),
    Column("speed-up", lambda s: s.kind.winner[1], lambda v: f"{v:.2f}×", True,  # noqa: RUF001
           "over each reporter's own default", 70),
    Column("selected there", lambda s: s.share, lambda v: text.fixed(v, 2), True,
           "speed-up of the selected settings there by that of the winner; empty where they are "
           "not believed there", 96,
           lambda s: "warn" if s.share is not None and s.share < _POOR else ""),
    Column("sources", lambda s: s.kind.sources, str, True, "independent ones", 62),
    Column("dissent", lambda s: s.kind.dissent, lambda v: f"{v:.0%}", True,
           "share of the voices that the rest does not agree with", 60),
    Column("compiler", lambda s: s.kind.compiler, width=70),
)  # fmt: skip


class DeviceMap(TablePanel):
    """The map of the kernel that is selected; the server is asked by the button alone."""

    def __init__(
        self,
        session: StudioSession,
        theme: Theme,
        server: Callable[[], str],
        selected: Callable[[], tuple[tuple[str, str, str, str], str] | None],
    ) -> None:
        super().__init__("Map of devices", COLUMNS, theme)
        self._session, self._server, self._selected = session, server, selected
        self._asked = ""
        self.button = push_button(
            "Where it wins", "Ask where it wins",
            "Names one of 256 buckets, in which this kernel is, and nothing else", self.ask,
        )  # fmt: skip
        self.count = caption(FIRST)
        self.lead(self.button, self.count)
        self._show([])
        self._worker = reader(self, self._take, self._refused)

    def clear(self) -> None:
        """Another server, other kernels: nothing is known of them yet."""
        self._asked = ""
        self._show([])
        self.count.setText(FIRST)

    def _show(self, spots: list[Spot]) -> None:
        """A table only where there is something to see."""
        self.model.set_rows(spots, keep=False)
        for part in (self.view, self.filter, self.copy_button):
            part.setVisible(bool(spots))
        self.setMaximumHeight(_TALLEST if spots else self.bar.sizeHint().height())

    def ask(self) -> None:
        """Ask the server for the kernel that is selected."""
        server, selected = self._server(), self._selected()
        if not server or selected is None:
            self.count.setText(FIRST)
            return
        workload, settings = selected

        if self._worker.start("map", lambda _: ask_map(server, workload)):
            self._asked = settings
            self.button.setEnabled(False)
            self.count.setText(f"Asking {server}")

    def _take(self, kinds: list[Elsewhere]) -> None:
        self.button.setEnabled(True)
        if self._asked:
            self._show(spots_of(kinds, self._asked, self._home()))
            self.count.setText(summary_of(kinds))
            self.count.setToolTip(self.count.text())

    def _refused(self, problem: JobProblem) -> None:
        self.button.setEnabled(True)
        self.count.setText(str(problem))

    def _home(self) -> Place | None:
        device = self._session.workbench.page.device
        try:
            return home_of(device) if device else None
        except UserError:
            return None
