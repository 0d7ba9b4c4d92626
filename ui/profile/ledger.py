"""The time of the cold start by phases, and of a warm run by kinds of steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QLabel, QScrollArea, QSizePolicy, QToolTip

from nnjit_studio.analysis.profile.findings import IN_THE_PAGE, in_the_studio, kind_of
from nnjit_studio.analysis.profile.records import ModelProfile
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import quiet
from nnjit_studio.ui.widgets.panel import Panel, hbox, named, push_button, scaled_font, vbox
from nnjit_studio.ui.widgets.theme import Theme

UNKNOWN = (
    "Not measured: the model was tuned or run before its first profile. "
    "“Measure the cold start” opens its file anew."
)
MOST_KINDS = 12


@dataclass(frozen=True)
class Bar:
    """A line of a ledger; ``tip`` says where the figure is from."""

    name: str
    ms: float
    tip: str


def cold_bars(profile: ModelProfile, in_the_page: bool) -> tuple[Bar, ...]:
    """Phases of the start in order: those of a shipped page, or those of the Studio's import."""
    source = "wall-clock time in the Studio, once; the first run by the page's clock"
    phases = profile.cold_ms.items()
    return tuple(Bar(p, ms, source) for p, ms in phases if (p in IN_THE_PAGE) == in_the_page)


def warm_bars(profile: ModelProfile) -> tuple[Bar, ...]:
    """Steps by their kind, the longest first, and what a run takes between its steps."""
    return tuple(_warm(profile))


def _warm(profile: ModelProfile) -> Iterator[Bar]:
    kinds: dict[str, list[float]] = {}
    for step in profile.steps:
        kinds.setdefault(kind_of(step), []).append(step.ms)
    ranked = sorted(kinds.items(), key=lambda item: -sum(item[1]))
    source = f"sum of the steps' medians of {profile.warm.runs} runs, by the page's clock"
    for kind, ms in ranked[:MOST_KINDS]:
        yield Bar(f"{kind} ({len(ms)})", sum(ms), source)
    if rest := [sum(ms) for _, ms in ranked[MOST_KINDS:]]:
        yield Bar(f"{len(rest)} other kinds", sum(rest), source)
    between = profile.warm.median_ms - profile.steps_ms
    if between > 0:
        yield Bar("between the steps", between, "a whole run's median less its steps' medians")


class LedgerBars(Panel):
    """Names, bars to one scale, milliseconds and shares."""

    def __init__(self, title: str, theme: Theme) -> None:
        super().__init__()
        named(self, title)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.theme = theme
        self.bars: tuple[Bar, ...] = ()

    def fill(self, bars: Sequence[Bar]) -> None:
        self.bars = tuple(bars)
        lines = (f"{b.name}: {b.ms:.3f} ms" for b in self.bars)
        self.setAccessibleDescription("; ".join(lines))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(360, self._row_height() * len(self.bars))

    def minimumSizeHint(self) -> QSize:
        return QSize(240, self.sizeHint().height())

    def _row_height(self) -> int:
        return self.fontMetrics().height() + 6

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent):
            row = event.pos().y() // self._row_height()
            tip = self.bars[row].tip if 0 <= row < len(self.bars) else ""
            QToolTip.showText(event.globalPos(), tip, self)
            return True
        return super().event(event)

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self.update()

    def paintEvent(self, _: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setFont(scaled_font(self.font(), 1.0))
        metrics, height = self.fontMetrics(), self._row_height()
        total = sum(b.ms for b in self.bars) or 1.0
        longest = max((b.ms for b in self.bars), default=0.0) or 1.0
        figures = metrics.horizontalAdvance("00,000.000 ms  100 %")
        names = int((self.width() - figures) * 0.55)
        room = max(0, self.width() - names - figures - 16)
        left = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        right = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        for row, bar in enumerate(self.bars):
            top = row * height
            painter.setPen(QColor(self.theme.text))
            name = metrics.elidedText(bar.name, Qt.TextElideMode.ElideRight, names - 8)
            painter.drawText(QRectF(0, top, names - 8, height), left, name)
            length = max(1.0, room * bar.ms / longest)
            painter.fillRect(
                QRectF(names, top + 4, length, height - 8), QColor(self.theme.series[0])
            )
            share = bar.ms / total
            percent = "<1%" if 0 < share < 0.005 else f"{share:.0%}"
            words = f"{text.fixed(bar.ms, 1 if bar.ms >= 10 else 3)} ms  {percent:>4}"
            painter.drawText(QRectF(self.width() - figures, top, figures, height), right, words)


class LedgerView(QScrollArea):
    """Both ledgers, each under its sum."""

    wanted = Signal()
    """The cold start shall be measured."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(widgetResizable=True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName("Cold and warm")
        self.cold, self.warm = LedgerBars("Cold start", theme), LedgerBars("Warm run", theme)
        self.imported = LedgerBars("Import", theme)
        self.cold_title, self.imported_title, self.warm_title = QLabel(), QLabel(), QLabel()
        self.unknown = quiet(QLabel(UNKNOWN, wordWrap=True))
        self.button = push_button(
            "Measure the cold start",
            "Measure the cold start",
            "Open the model's file anew, then profile it; the page stays, so its engine is warm",
            self.wanted.emit,
        )
        page = Panel()
        starts = (self.cold_title, self.cold, self.imported_title, self.imported)
        cold = vbox(*starts, self.unknown, spacing=None)
        cold.addWidget(self.button, 0, Qt.AlignmentFlag.AlignLeft)
        warm = vbox(self.warm_title, self.warm, spacing=None)
        hbox((cold, 1), (warm, 1), on=page, margins=(10, 6, 10, 6), spacing=28)
        for title, column in (
            (self.cold_title, cold), (self.imported_title, cold), (self.warm_title, warm)
        ):  # fmt: skip
            title.setFont(scaled_font(self.font(), 1.0, bold=True))
            column.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.setWidget(page)
        self.fill(None)

    def fill(self, profile: ModelProfile | None) -> None:
        cold = cold_bars(profile, True) if profile else ()
        imported = cold_bars(profile, False) if profile else ()
        self.cold.fill(cold)
        self.imported.fill(imported)
        self.warm.fill(warm_bars(profile) if profile else ())
        self.cold.setVisible(bool(cold))
        for widget in (self.imported, self.imported_title):
            widget.setVisible(bool(imported))
        self.unknown.setVisible(profile is not None and not cold)
        total_s = sum(bar.ms for bar in cold) / 1e3
        sums = f": {total_s:.2f} s, without the download" if cold else ""
        self.cold_title.setText(f"Cold start of the page{sums}" if profile else "")
        before = in_the_studio(profile) if profile else ""
        self.imported_title.setText(f"In the Studio, not shipped: {before}")
        warm = f"Warm run: {text.time(profile.warm.median_ms)}" if profile else ""
        self.warm_title.setText(warm)
        self.button.setVisible(profile is not None)

    def set_theme(self, theme: Theme) -> None:
        for bars in (self.cold, self.imported, self.warm):
            bars.set_theme(theme)
