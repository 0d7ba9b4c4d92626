"""The line on top: the model, the running job, and the latency before and now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFrame, QLabel, QProgressBar, QWidget

from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import ElidedLabel, SteadyLabel, quiet
from nnjit_studio.ui.widgets.panel import clear, hbox, named, push_button, scaled_font, vbox

CLOCK_MS = 500


class Figure(QWidget):
    """A large number with its unit and a small caption."""

    def __init__(self, caption: str, unit: str) -> None:
        super().__init__()
        self._unit = unit
        self._caption = caption
        self.number = SteadyLabel(text.NONE, Qt.AlignmentFlag.AlignRight, characters=7)
        self.number.setFont(scaled_font(self.font(), 1.7, bold=True))
        self.number.setMinimumWidth(self.number.fontMetrics().horizontalAdvance("188.8 ms"))
        label = quiet(QLabel(caption, alignment=Qt.AlignmentFlag.AlignRight))
        vbox(self.number, label, on=self, margins=(6, 0, 6, 0))

    def show_value(self, value: str) -> None:
        shown = value if value == text.NONE else f"{value}{self._unit}"
        self.number.setText(shown)
        self.number.setAccessibleName(f"{self._caption}: {shown}")

    def mark(self, good: bool) -> None:
        """Give a gain its colour, and anything else the colour of text."""
        name = "good" if good else ""
        if self.number.objectName() != name:
            self.number.setObjectName(name)
            self.number.style().unpolish(self.number)
            self.number.style().polish(self.number)


class Badges(QWidget):
    """Notices about the session, each with its reason in the tip; some are known only later."""

    def __init__(self, badges: Callable[[], Sequence[tuple[str, str]]]) -> None:
        super().__init__()
        self._known = badges
        self._shown: list[tuple[str, str]] = []
        self._column = vbox(on=self, spacing=3)
        self.hide()

    def show_badges(self) -> None:
        """Show those that apply now."""
        badges = list(self._known())
        if badges == self._shown:
            return
        self._shown = badges
        clear(self._column)
        for short, tip in badges:
            badge = named(QLabel(short, alignment=Qt.AlignmentFlag.AlignCenter), short, tip)
            badge.setObjectName("badge")
            self._column.addWidget(badge, 0, Qt.AlignmentFlag.AlignRight)
        self.setVisible(bool(badges))


class Header(QFrame):
    """Model, phase with progress and Start or Stop, latency figures, badges."""

    def __init__(
        self,
        session: StudioSession,
        tune: QAction,
        stop: QAction,
        badges: Callable[[], Sequence[tuple[str, str]]],
        backend: QWidget,
    ) -> None:
        super().__init__()
        self.setObjectName("header")
        self._session = session
        self.model = ElidedLabel("No model")
        self.model.setFont(scaled_font(self.font(), 1.25, bold=True))
        self.details = quiet(ElidedLabel("Drop an .onnx model here, or press Ctrl+O"))
        self.phase = SteadyLabel("Idle")
        self.progress = named(QProgressBar(textVisible=False), "Progress")
        self.detail = quiet(SteadyLabel())
        self.detail.setFont(scaled_font(self.font(), 1.0))
        self.button = push_button(
            "", "Start or stop", act=lambda: (stop if session.busy else tune).trigger()
        )
        self.button.setMinimumWidth(110)
        self._tune, self._stop = tune, stop
        tune.changed.connect(self.show_state)
        self.before = Figure("model before", " ms")
        self.now = Figure("model now", " ms")
        self.speedup = Figure("speed-up", "×")  # noqa: RUF001
        row = hbox(
            (vbox(self.model, self.details, spacing=3), 4),
            (vbox(self.phase, self.progress, self.detail, spacing=3), 3),
            vbox(self.button, backend, spacing=3),
            on=self,
            margins=(14, 8, 14, 8),
            spacing=16,
        )
        row.addSpacing(8)
        for figure in (self.before, self.now, self.speedup):
            row.addWidget(figure)
        self._badges = Badges(badges)
        row.addWidget(self._badges, 0, Qt.AlignmentFlag.AlignVCenter)
        session.refreshed.connect(self._refresh)
        self.clock = QTimer(self, interval=CLOCK_MS)
        self.clock.timeout.connect(self._tick)
        self.clock.start()
        self.show_state()

    def _refresh(self, changes: frozenset[str]) -> None:
        if changes & {"model", "phase", "latency", "space"}:
            self.show_state()

    def _tick(self) -> None:
        if self._session.busy:
            self.show_state()

    def show_state(self) -> None:
        """Draw the session's state as it is now."""
        state, busy = self._session.state, self._session.busy
        model = state.model
        if model is not None:
            self.model.setText(model.path.name)
            self.model.tip = str(model.path)
            tunable = sum(w.tunable for w in model.workloads)
            facts = [
                f"{len(model.graph.nodes)} fused nodes",
                f"{len(model.workloads)} workloads, {tunable} tunable",
                f"{text.nbytes(model.plan.weights_bytes)} weights",
                f"imported in {sum(model.import_ms.values()) / 1e3:.1f} s",
            ]
            self.details.setText("  ·  ".join(facts))
            self.details.tip = _phases(model.import_ms)
        self.phase.setText(state.phase or "Idle")
        tried, total = state.tried()
        parts = [f"{tried} of {total} candidates"] if total else []
        if state.target:
            parts.append(f"on {state.target}")
        if busy:
            parts.append(text.elapsed(self._session.elapsed_s))
        self.detail.setText("  ·  ".join(parts))
        self._render_progress(busy, tried, total)
        idle = "Resume tuning" if self._session.paused else "Start tuning"
        self.button.setText("Stop" if busy else idle)
        self.button.setEnabled((self._stop if busy else self._tune).isEnabled())
        tip = (self._stop if busy else self._tune).toolTip()
        if self.button.toolTip() != tip:
            self.button.setToolTip(tip)
        self.before.show_value(text.latency(state.before_ms))
        self.now.show_value(text.latency(state.now_ms))
        self.speedup.show_value(text.fixed(state.speedup, 2))
        self.speedup.mark((state.speedup or 0) > 1)
        self._badges.show_badges()

    def _render_progress(self, busy: str, tried: int, total: int) -> None:
        budget = self._session.budget_s
        if not busy:
            self._show_progress(1000, 1000 if self._session.state.summary else 0)
        elif busy == "tune" and (budget or total):
            by_time = self._session.elapsed_s / budget if budget else 0.0
            by_count = tried / total if total else 0.0
            self._show_progress(1000, round(1000 * min(max(by_time, by_count), 1.0)))
        else:
            self._show_progress(0, 0)

    def _show_progress(self, most: int, value: int) -> None:
        """Without updates meanwhile: Qt repaints the window at once for each call of its own."""
        if (self.progress.maximum(), self.progress.value()) == (most, value):
            return
        self.progress.setUpdatesEnabled(False)
        self.progress.setRange(0, most)
        self.progress.setValue(value)
        self.progress.setUpdatesEnabled(True)


def _phases(import_ms: Mapping[str, float]) -> str:
    return "\n".join(f"{phase}: {ms:,.0f} ms" for phase, ms in import_ms.items())
