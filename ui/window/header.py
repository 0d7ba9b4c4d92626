"""The line on top: which model, what is going on, what it brought."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from nnjit_studio.ui.state.session import Session
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.theme import ElidedLabel, SteadyLabel, named, scaled_font


class Figure(QWidget):
    """A large number with its unit and a small caption."""

    def __init__(self, caption: str, unit: str) -> None:
        super().__init__()
        self._unit = unit
        self._caption = caption
        self.number = SteadyLabel(text.NONE, Qt.AlignmentFlag.AlignRight, characters=7)
        self.number.setFont(scaled_font(self.font(), 1.7, bold=True))
        self.number.setMinimumWidth(self.number.fontMetrics().horizontalAdvance("188.8 ms"))
        label = QLabel(caption, alignment=Qt.AlignmentFlag.AlignRight)
        label.setObjectName("muted")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 0, 6, 0)
        layout.setSpacing(0)
        layout.addWidget(self.number)
        layout.addWidget(label)

    def show_value(self, value: str) -> None:
        shown = value if value == text.NONE else f"{value}{self._unit}"
        self.number.setText(shown)
        self.number.setAccessibleName(f"{self._caption}: {shown}")

    def mark(self, good: bool) -> None:
        """Colour a gain; what is none has the colour of text."""
        name = "good" if good else ""
        if self.number.objectName() != name:
            self.number.setObjectName(name)
            self.number.style().unpolish(self.number)
            self.number.style().polish(self.number)


class Badges(QWidget):
    """What is unusual about this session, each with its reason; some is known only later on."""

    def __init__(self, badges: Callable[[], Sequence[tuple[str, str]]]) -> None:
        super().__init__()
        self._known = badges
        self._shown: list[tuple[str, str]] = []
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(3)
        self.hide()

    def render(self) -> None:
        """Show those of now."""
        badges = list(self._known())
        if badges == self._shown:
            return
        self._shown = badges
        for old in self.findChildren(QLabel, "badge"):
            old.hide()
            old.deleteLater()
        for short, tip in badges:
            badge = named(QLabel(short, alignment=Qt.AlignmentFlag.AlignCenter), short, tip)
            badge.setObjectName("badge")
            self._column.addWidget(badge, 0, Qt.AlignmentFlag.AlignRight)
        self.setVisible(bool(badges))


class Header(QFrame):
    """Model, phase with progress and Start or Stop, latency figures, badges."""

    def __init__(
        self,
        session: Session,
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
        self.details = ElidedLabel("Drop an .onnx model here, or press Ctrl+O")
        self.details.setObjectName("muted")
        self.phase = SteadyLabel("Idle")
        self.progress = named(QProgressBar(textVisible=False), "Progress")
        self.detail = SteadyLabel()
        self.detail.setObjectName("muted")
        self.detail.setFont(scaled_font(self.font(), 1.0))
        self.button = named(QPushButton(), "Start or stop")
        self.button.setMinimumWidth(110)
        self.button.clicked.connect(lambda: (stop if session.busy else tune).trigger())
        self._tune, self._stop = tune, stop
        tune.changed.connect(self.render)
        self.before = Figure("model before", " ms")
        self.now = Figure("model now", " ms")
        self.speedup = Figure("speed-up", "×")  # noqa: RUF001

        row = QHBoxLayout(self)
        row.setContentsMargins(14, 8, 14, 8)
        row.setSpacing(16)
        row.addLayout(_stack(self.model, self.details), 4)
        row.addLayout(_stack(self.phase, self.progress, self.detail), 3)
        row.addLayout(_stack(self.button, backend))
        row.addSpacing(8)
        for figure in (self.before, self.now, self.speedup):
            row.addWidget(figure)
        self._badges = Badges(badges)
        row.addWidget(self._badges, 0, Qt.AlignmentFlag.AlignVCenter)
        self.render()

    def render(self) -> None:
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
        self._badges.render()

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
        """Of a bar without updates, for Qt's own repaints the window before it returns."""
        if (self.progress.maximum(), self.progress.value()) == (most, value):
            return
        self.progress.setUpdatesEnabled(False)
        self.progress.setRange(0, most)
        self.progress.setValue(value)
        self.progress.setUpdatesEnabled(True)


def _stack(*widgets: QWidget) -> QVBoxLayout:
    layout = QVBoxLayout()
    layout.setSpacing(3)
    for widget in widgets:
        layout.addWidget(widget)
    return layout


def _phases(import_ms: Mapping[str, float]) -> str:
    return "\n".join(f"{phase}: {ms:,.0f} ms" for phase, ms in import_ms.items())
