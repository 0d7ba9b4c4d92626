"""The line on top: the model, the running job, and the latency before and now."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFrame, QLabel, QProgressBar, QPushButton, QWidget

from nnjit_studio.model.survey import Survey
from nnjit_studio.records.estimate import Estimate
from nnjit_studio.records.outcomes import FASTER, SLOWER
from nnjit_studio.ui.state.open_sizes import sizes_here
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.state.state import SessionState
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import ElidedLabel, SteadyLabel, quiet
from nnjit_studio.ui.widgets.panel import clear, hbox, named, push_button, scaled_font, vbox
from nnjit_studio.verdict.result import Verdict

CLOCK_MS = 500
PUT_BACK = "Make it faster, Put everything back opens the model as it was at first."
NO_MODEL, HINT = "No model", "Drop an .onnx model here, or press Ctrl+O"


class Figure(QWidget):
    """A large number with its unit and a small caption."""

    def __init__(self, caption: str, unit: str) -> None:
        super().__init__()
        self._unit = unit
        self._caption = caption
        self.note = ""
        self.number = SteadyLabel(text.NONE, Qt.AlignmentFlag.AlignRight, characters=7)
        self.number.setFont(scaled_font(self.font(), 1.7, bold=True))
        self.number.setMinimumWidth(self.number.fontMetrics().horizontalAdvance("188.8 ms"))
        self._label = quiet(QLabel(caption, alignment=Qt.AlignmentFlag.AlignRight))
        vbox(self.number, self._label, on=self, margins=(6, 0, 6, 0))

    def show_value(self, value: str, note: str = "", tip: str = "") -> None:
        """Show a number with its unit; ``note`` takes the place of the caption, ``tip`` is added
        to what the tooltip says.
        """
        shown = value if value == text.NONE else f"{value}{self._unit}"
        self.number.setText(shown)
        if note != self.note:
            self.note = note
            nameless = value == text.NONE and note
            self._label.setText(f"{self._caption}: {note}" if nameless else note or self._caption)
        told = f"{self._caption}: {shown} {note}".rstrip()
        if self.toolTip() != told + tip:  # Qt tells everybody who listens of each one, new or not
            self.number.setAccessibleName(told)
            self.setToolTip(told + tip)

    def mark(self, name: str) -> None:
        """Give it the colour of a name in the style sheet: ``good``, ``bad``, or of text."""
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
        next_steps: Sequence[QAction] = (),
    ) -> None:
        super().__init__()
        self.setObjectName("header")
        self._session = session
        self._without = NO_MODEL, HINT, ""
        self.model = ElidedLabel(NO_MODEL)
        self.model.setFont(scaled_font(self.font(), 1.25, bold=True))
        self.details = quiet(ElidedLabel(HINT))
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
        self.before = Figure("model before", "")
        self.now = Figure("model now", "")
        self.speedup = Figure("speed-up", "×")  # noqa: RUF001
        row = hbox(
            (vbox(self.model, self.details, spacing=3), 4),
            (vbox(self.phase, self.progress, self.detail, spacing=3), 3),
            vbox(self.button, backend, spacing=3),
            vbox(*(_action_button(action) for action in next_steps), spacing=3),
            on=self,
            margins=(14, 6, 14, 6),
            spacing=16,
        )
        row.addSpacing(8)
        self.figures = QWidget()
        hbox(self.before, self.now, self.speedup, on=self.figures, spacing=16)
        self._said_below = False
        self._found: Estimate | None = None
        self._found_at = datetime.datetime.now()
        row.addWidget(self.figures)
        self._badges = Badges(lambda: [*badges(), *self._busy_badge()])
        row.addWidget(self._badges, 0, Qt.AlignmentFlag.AlignVCenter)
        session.refreshed.connect(self._refresh)
        session.surveyed.connect(self.show_file)
        session.abandoned.connect(self._show_none)
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

    def show_file(self, survey: Survey) -> None:
        """Name a file that was read and is not open yet."""
        self.model.setText(survey.path.name)
        self.model.tip = str(survey.path)
        weights = text.nbytes(survey.nbytes)
        self.details.setText(f"{len(survey.graph.nodes)} nodes, {weights}, opset {survey.opset}")

    def show_wasm(self, path: Path, size: str) -> None:
        """Name a Wasm file where no model is open."""
        self._without = path.name, f"Wasm file of {size}  ·  no model is open", str(path)
        if self._session.state.model is None:
            self._show_none()

    def _show_none(self) -> None:
        """No model is open; one that was read did not become it."""
        name, details, self.model.tip = self._without
        self.model.setText(name)
        self.details.setText(details)
        self.show_state()

    def leave_figures_to(self, verdict: Verdict | None) -> None:
        """Show no times here where a verdict has them: nothing is said twice.

        While the model is tuned the verdict is the one before, and the times of now stand here.
        """
        ours = verdict.ours if verdict else None
        self._said_below = ours is not None and ours.ms is not None
        self.show_state()

    def show_state(self) -> None:
        """Draw the session's state as it is now."""
        state, busy = self._session.state, self._session.busy
        model = state.model
        if model is not None:
            self.model.setText(model.path.name)
            self.model.tip = str(model.path)
            tunable = sum(w.tunable for w in model.workloads)
            applied = [f"in use: {', '.join(state.applied)}"] if state.applied else []
            here = sizes_here(state)
            facts = [
                *applied,
                *([here] if here else []),
                text.counted(len(model.graph.nodes), "fused node"),
                f"{text.counted(len(model.workloads), 'workload')}, {tunable} tunable",
                f"{text.nbytes(model.plan.weights_bytes)} weights",
                f"imported in {sum(model.import_ms.values()) / 1e3:.1f} s",
            ]
            self.details.setText("  ·  ".join(facts))
            back = f"{PUT_BACK}\n" if applied else ""
            self.details.tip = f"{back}{_phases(model.import_ms)}"
        self.phase.setText(state.phase or "Idle")
        tried, total = state.tried()
        parts = [f"{tried:,} of {total:,} candidates"] if total else []
        if busy:
            parts.append(text.elapsed(self._session.elapsed_s))
        if state.target not in ("", "embedded"):  # the usual one took the room of the others
            parts.append(f"on {state.target}")
        self.detail.setText("  ·  ".join(parts))
        self._render_progress(busy, tried, total)
        idle = "Resume tuning" if self._session.paused else "Start tuning"
        self.button.setText("Stop" if busy else idle)
        self.button.setEnabled((self._stop if busy else self._tune).isEnabled())
        tip = (self._stop if busy else self._tune).toolTip()
        if self.button.toolTip() != tip:
            self.button.setToolTip(tip)
        self._show_figures(state)
        self._badges.show_badges()

    def _show_figures(self, state: SessionState) -> None:
        """The latency with its interval, and a gain only where pairs prove one."""
        found, gain = state.estimate, state.gain
        # Without a time, a gain would stand beside a dash: the session ended before any run.
        self.figures.setVisible(
            found is not None and (not self._said_below or self._session.busy == "tune")
        )
        # Two times side by side are read as a ratio.
        told = gain is not None and gain.told_apart
        self.before.setVisible(told)
        self.speedup.setVisible(gain is not None)
        self.before.show_value(text.time(state.before_ms if told else None))
        ends = f"{text.time(found.low)} to {text.time(found.high)}" if found else ""
        if found != self._found:
            self._found, self._found_at = found, datetime.datetime.now()
        tip = f"\nmedian of {found.count} runs, {self._found_at:%H:%M:%S}" if found else ""
        self.now.show_value(text.time(found.ms if found else None), ends, tip)
        if gain is None:
            self.speedup.show_value(text.NONE)
        elif not gain.told_apart:
            so_far = f"\n{gain.pairs} pairs so far" if self._session.busy and gain.pairs else ""
            self.speedup.show_value(text.NONE, gain.outcome, so_far)
        else:
            self.speedup.show_value(text.fixed(gain.ratio, 2), gain.interval)
        tones = {FASTER: "good", SLOWER: "bad"}
        self.speedup.mark(tones.get(gain.outcome, "") if gain else "")

    def _busy_badge(self) -> list[tuple[str, str]]:
        state = self._session.state
        warning = state.warning or ("" if self._said_below else state.profile_warning)
        if not warning:
            return []
        tip = f"{warning[:1].upper()}{warning[1:]}. Below 75% no speed-up is shown at all."
        return [("machine busy: figures are rough", tip)]

    def _render_progress(self, busy: str, tried: int, total: int) -> None:
        budget = self._session.budget_s
        if not busy:
            summary = self._session.state.summary
            part = tried / total if total and summary and summary.reason == "cancelled" else 1.0
            self._show_progress(1000, round(1000 * part) if summary else 0)
        elif busy == "tune" and (budget or total):
            by_time = self._session.elapsed_s / budget if budget else 0.0
            by_count = tried / total if total else 0.0
            self._show_progress(1000, round(1000 * min(max(by_time, by_count), 1.0)))
        else:
            self._show_progress(0, 0)

    def _show_progress(self, most: int, value: int) -> None:
        """Set the bar with updates off: Qt repaints the window at once for each call of its own."""
        if (self.progress.maximum(), self.progress.value()) == (most, value):
            return
        self.progress.setUpdatesEnabled(False)
        self.progress.setRange(0, most)
        self.progress.setValue(value)
        self.progress.setUpdatesEnabled(True)


def _action_button(action: QAction) -> QPushButton:
    button = push_button(action.iconText(), action.iconText(), act=action.trigger)
    button.setEnabled(action.isEnabled())

    def follow() -> None:
        button.setEnabled(action.isEnabled())
        button.setToolTip(action.toolTip())

    action.changed.connect(follow)
    return button


def _phases(import_ms: Mapping[str, float]) -> str:
    return "\n".join(f"{phase}: {ms:,.0f} ms" for phase, ms in import_ms.items())
