"""Browsers side by side: what won in each, and what one set for all would cost it."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.analysis.browsers.comparison import BrowserComparison
from nnjit_studio.analysis.browsers.crossing import Ratio
from nnjit_studio.analysis.browsers.tables import headline
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.dock.job_table import AnsweringTable
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.tables import Column

EMPTY = (
    "Nothing compared yet: “Compare the browsers here” tunes the open model in every browser of "
    "this machine, Firefox among them, one after the other. All else in this window runs in its "
    "own engine."
)


@dataclass(frozen=True)
class Line:
    """A workload in one browser."""

    workload: str
    browser: str
    ms: float
    settings: str
    common: str
    cost: Ratio | None
    """Of the common settings; None where they are its own, or there are none."""


def lines_of(found: BrowserComparison) -> list[Line]:
    """Every workload in every browser, the heaviest workload first."""
    return [
        Line(
            common.workload, browser, (own := found.winner(browser, common.workload)).ms,
            own.settings, common.settings,
            None if own.settings == common.settings else common.ratios.get(browser),
        )
        for common in found.common
        for browser in found.browsers
    ]  # fmt: skip


def _cost_tone(line: Line) -> str:
    return "warn" if line.cost is not None and line.cost.low > 1 else ""


COLUMNS = (
    Column("workload", lambda x: x.workload, text.workload, width=250,
           hint=lambda x: text.workload_tip(x.workload)),
    Column("browser", lambda x: x.browser, width=90),
    Column("ms", lambda x: x.ms, lambda v: text.fixed(v, 4), True, "with its own winner", 74),
    Column("its winner", lambda x: x.settings, width=250),
    Column(
        "common costs", lambda x: x.cost.value if x.cost else None,
        lambda v: "" if v is None else f"{v:.2f}×", True,  # noqa: RUF001
        "time with the common settings by that with its own winner", 100, _cost_tone,
        hint=lambda x: str(x.cost) if x.cost else "its own winner",
    ),
    Column("from", lambda x: x.cost.low if x.cost else None, lambda v: text.fixed(v, 2), True,
           "lower end of the 95 % interval", 56),
    Column("to", lambda x: x.cost.high if x.cost else None, lambda v: text.fixed(v, 2), True,
           "upper end of the 95 % interval", 56),
    Column("common settings", lambda x: x.common, width=250),
)  # fmt: skip


WAITING, RESTING = "waiting", "waiting while others run"
RUNNING = (
    Column("browser", lambda x: x[0], width=120),
    Column("what it does", lambda x: x[1], width=600),
)


class BrowsersPanel(AnsweringTable):
    """The sentences above, a line for each workload and browser below; while the job runs, what
    each browser does."""

    result: BrowserComparison | None

    def __init__(self, host: Host) -> None:
        self.running: dict[str, str] = {}
        super().__init__(host, "Browsers", COLUMNS, "browsers", EMPTY)
        host.session.busy_changed.connect(self._begin)
        self.picked.connect(lambda row: host.workload_wanted.emit(row.workload))
        self.show_last()

    def _begin(self, job: str) -> None:
        if job == self._job:
            self._show_running({browser.name: WAITING for browser in browsers.find_all()})
        elif self.running:
            self._show_running({})
            self.fill()

    def _show_running(self, running: dict[str, str]) -> None:
        self.running = running
        self.set_columns(RUNNING if running else COLUMNS)
        self.model.set_rows(list(running.items()), keep=False)

    def refresh(self, changes: frozenset[str]) -> None:
        super().refresh(changes)
        name, _, doing = self._session.state.phase.partition(": ")
        name = name.lower()  # a phase begins with a capital
        if name in self.running and self.running[name] != doing:
            rest = {n: d if d == WAITING else RESTING for n, d in self.running.items()}
            self.running = rest | {name: doing}
            self.model.set_rows(list(self.running.items()), keep=False)

    def fill(self) -> None:
        self.fill_with(lines_of(self.result) if self.result else [])

    def words(self) -> list[str]:
        assert self.result is not None
        return headline(self.result).split("\n")
