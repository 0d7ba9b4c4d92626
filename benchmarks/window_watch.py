"""Drives the window for ``window_speed.py`` and watches Qt's thread.

The plot of rounds holds 100,000 points before the measured part begins and is panned 60 times a
second at three scales. A timer ticks every 5 ms: a tick that comes L ms late stands for events
that would have waited L, L - 5, L - 10 ms and so on, and counts as all of them. The events with
most work are printed with the class of their receiver, each without those that it sends itself,
and a second thread notes in which function of ours Qt's thread was when it was late. ``work`` is
the processor time of Qt's thread from tick to tick: a wait that is much longer was for a core, or
for Python's lock. With ``--verdict`` the plot is panned on after the session, while the model is
compared with ONNX Runtime Web in pages of its own.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
from PySide6.QtCore import QAbstractEventDispatcher, QEvent, QObject, QSettings, Qt, QTimer
from PySide6.QtWidgets import QApplication, QWidget

import nnjit_studio.ui
from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.page.headless import qt_messages_to_logging
from nnjit_studio.ui.page.host import EngineView
from nnjit_studio.ui.page.process import check_sandbox
from nnjit_studio.ui.page.visits import EmbeddedVisits
from nnjit_studio.ui.startup.app import _application
from nnjit_studio.ui.startup.garbage_collector import GarbageCollector
from nnjit_studio.ui.window.main_window import StudioWindow
from nnjit_studio.workbench import Workbench
from nnjit_studio.workbench.tuning import Tuning

assert nnjit_studio.ui
TICK_MS, PAN_MS = 5, 16
LATE_MS = 16.0
"""A thread that does not tick for longer is looked at."""
P99_GOAL_MS, MAX_GOAL_MS = 33.0, 150.0
SCALES = (1.0, 0.1, 0.01)
"""Shares of all points that are in view, for a third of the time each."""
PHASES = ("opening", "filling", "tuning", "comparing")


class Filter(QObject):
    """Tells a watch of events of our widgets before they are delivered.

    Of the engine's own it must not: wrapping those objects for Python crashes.
    """

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch
        dispatcher = QAbstractEventDispatcher.instance()
        dispatcher.aboutToBlock.connect(watch.idle)

    def look_at(self, window: StudioWindow) -> None:
        for widget in (window, *window.findChildren(QWidget)):
            if widget is not window.page.view and not window.page.view.isAncestorOf(widget):
                widget.installEventFilter(self)

    def eventFilter(self, receiver: QObject, event: QEvent) -> bool:
        self._watch.event(event.type(), receiver)
        return False


class Watch:
    """Waits by phase, the longest events, and where the thread was when it was late."""

    def __init__(self) -> None:
        self.phase = PHASES[0]
        self.waits: dict[str, list[float]] = {phase: [] for phase in PHASES}
        self.work: dict[str, list[float]] = {phase: [] for phase in PHASES}
        self.events: dict[str, list[tuple[float, float, str]]] = {phase: [] for phase in PHASES}
        self.places: dict[str, collections.Counter[str]] = {
            phase: collections.Counter() for phase in PHASES
        }
        self._event: tuple[float, float, QEvent.Type, str, str] | None = None
        self._last, self._worked = time.perf_counter(), time.thread_time()
        self._main = threading.get_ident()
        self._timer = QTimer(interval=TICK_MS, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._tick)
        self._ended = threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    def begin(self, phase: str) -> None:
        self.phase = phase
        if not self._timer.isActive():
            self._last, self._worked = time.perf_counter(), time.thread_time()
            self._timer.start()
        print(f"{phase} ...", flush=True)

    def event(self, kind: QEvent.Type, receiver: QObject) -> None:
        """An event begins; what was between the last one and it belongs to the last one."""
        self.idle()
        now = time.perf_counter(), time.thread_time()
        self._event = (*now, kind, type(receiver).__name__, receiver.objectName())

    def idle(self) -> None:
        """The thread has nothing to do."""
        if self._event is None:
            return
        begun, worked, kind, name, label = self._event
        self._event = None
        ms, work = 1e3 * (time.perf_counter() - begun), 1e3 * (time.thread_time() - worked)
        if ms >= TICK_MS:
            self.events[self.phase].append((work, ms, f"{kind.name} to {name} {label}".strip()))

    def stop(self) -> None:
        self._timer.stop()
        self._ended.set()

    def _tick(self) -> None:
        now = time.perf_counter()
        late_ms = max(0.0, 1e3 * (now - self._last) - TICK_MS)
        worked = time.thread_time()
        self.work[self.phase].append(1e3 * (worked - self._worked))
        self._last, self._worked = now, worked
        waits = self.waits[self.phase]
        waits.append(late_ms)
        waits.extend(np.arange(late_ms - TICK_MS, 0.0, -TICK_MS))

    def _look(self) -> None:
        while not self._ended.wait(LATE_MS / 2e3):
            late_ms = 1e3 * (time.perf_counter() - self._last)
            if late_ms < LATE_MS or not self._timer.isActive():
                continue
            frame = sys._current_frames()[self._main]
            names: list[str] = []
            while frame is not None and len(names) < 3:
                code = frame.f_code
                if any(part in code.co_filename for part in ("nnjit_studio", "pyqtgraph")):
                    name = getattr(code, "co_qualname", code.co_name)  # since Python 3.11
                    names.append(f"{Path(code.co_filename).stem}.{name}")
                frame = frame.f_back
            self.places[self.phase][" < ".join(names) or "Qt itself"] += 1


class Filled:
    """Gives the sessions of a workbench many rounds of their heaviest workload at the start."""

    def __init__(self, tuning: Tuning, points: int) -> None:
        self._start, self._points = tuning.start, points
        self.filled = threading.Event()
        tuning.start = self.start  # type: ignore[method-assign]

    def start(self, seconds: float | None = None, **options: Any) -> Iterator[ev.Event]:
        rng = np.random.default_rng(1)
        rates = 20 + 15 * rng.random(self._points)
        best = np.maximum.accumulate(rates)
        key = ""
        for event in self._start(seconds, **options):
            if isinstance(event, ev.RoundDone) and event.workload == key:
                event = replace(event, round=event.round + self._points)
            yield event
            if isinstance(event, ev.SpaceBuilt) and not key:
                key = event.workload
                for i, (rate, top) in enumerate(zip(rates.tolist(), best.tolist(), strict=True)):
                    yield ev.RoundDone(
                        event.t_s * (1 + i / self._points) / 2, key, i + 1, "made up", rate, top,
                        "default", 9,
                    )  # fmt: skip
                    if i % 100 == 0:  # else this thread keeps Python's lock
                        time.sleep(0.004)
                self.filled.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=21.0)
    parser.add_argument("--verdict", action="store_true", help="Watch a comparison, too.")
    parser.add_argument("--no-sandbox", action="store_true")
    parser.add_argument("--markdown", type=Path, help="Append a dated section to this file.")
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    flags = check_sandbox(given.no_sandbox)
    app = _application()
    with tempfile.TemporaryDirectory() as folder, qt_messages_to_logging():
        settings = QSettings(f"{folder}/s.ini", QSettings.Format.IniFormat)
        bench = Workbench(Path(folder) / "kernels.db", flags=flags)
        bench.start()
        watch = Watch()
        filled = Filled(bench.tuning, given.points)
        garbage = GarbageCollector(app)
        visits = EmbeddedVisits() if given.verdict else None
        window = StudioWindow(bench, EngineView, settings, visits=visits)
        window.closed.connect(app.quit)
        run = Run(window, filled, watch, given.model, given.seconds, given.picture)
        window.show()
        events = Filter(watch)
        events.look_at(window)
        QTimer.singleShot(0, run.begin)
        app.exec()
        watch.stop()
        garbage.stop()
        bench.close()
    text = report(watch, run, given.points)
    print(text)
    if given.markdown:
        with given.markdown.open("a", encoding="utf-8") as file:
            file.write(f"\n{text}")


class Run:
    """Open, fill, tune while panning, leave."""

    def __init__(
        self,
        window: StudioWindow,
        filled: Filled,
        watch: Watch,
        model: Path,
        seconds: float,
        picture: Path | None,
    ) -> None:
        self.window, self.filled, self.watch = window, filled, watch
        self._model, self._seconds, self._picture = model, seconds, picture
        self._pan = QTimer(interval=PAN_MS, timerType=Qt.TimerType.PreciseTimer)
        self._pan.timeout.connect(self._step)
        self._wait = QTimer(interval=100)
        self._wait.timeout.connect(self._is_filled)
        self._steps = self.steps = self.rounds = 0
        self.tuned_s = 0.0
        window.session.done.connect(self._done)
        window.session.problem.connect(lambda p: print(f"{p.job}: {p.error} {p.hint}"))

    def begin(self) -> None:
        self.watch.begin("opening")
        if not self.window.open_model(self._model):
            sys.exit(self.window.message.text.text())

    def _done(self, job: str, _: object) -> None:
        if job == "open":
            self.watch.begin("filling")
            self.window.start_tuning(self._seconds)
            self._wait.start()
        elif job == "tune":
            self.tuned_s, self.steps = time.perf_counter() - self._begun, self._steps
            state = self.window.session.state
            self.rounds = sum(len(w.rounds) for w in state.workloads.values())
            if self.window.verdict.resting:
                self._leave()
            else:
                self.watch.begin("comparing")
                self.window.verdict.rested.connect(self._leave)

    def _leave(self) -> None:
        self._pan.stop()
        QTimer.singleShot(500, self.window.close)

    def _is_filled(self) -> None:
        held = [len(w.rounds) for w in self.window.session.state.workloads.values()]
        if max(held, default=0) >= self.filled._points:
            self._wait.stop()
            self.filled.filled.set()
            self.window.session.set_seconds_left(self._seconds)
            self.watch.begin("tuning")
            self._begun = time.perf_counter()
            self._pan.start()

    def _step(self) -> None:
        """Move the view a 24th of its width, back and forth; then the next scale."""
        box = self.window.panel("rounds").item.getViewBox()
        share = int(3 * (time.perf_counter() - self._begun) / self._seconds) % 3
        points = self.filled._points
        width = SCALES[share] * points
        self._steps += 1
        way = (self._steps // 48) % 2
        at = (self._steps % 48) / 24 * width * (1 if way == 0 else -1)
        left = (points - width) / 2 + (at if way == 0 else at + 2 * width)
        box.sigRangeChangedManually.emit([True, False])
        box.setXRange(left - width / 2, left + width / 2, padding=0)
        if self._picture and self._steps in (20, 500, 900):
            path = self._picture.with_stem(f"{self._picture.stem}-{self._steps}")
            QTimer.singleShot(0, lambda: self.window.grab().save(str(path)))


def report(watch: Watch, run: Run, points: int) -> str:
    """The figures as a section of Markdown."""
    when = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    lines = [
        "## Qt's thread while a model is tuned",
        "",
        f"{when}; {platform.processor() or platform.machine()}, {os.cpu_count()} cores; "
        f"PySide6 {__import__('PySide6').__version__}, {QApplication.platformName()}; "
        f"{run._model.name}, {points:,} points plotted, {run.rounds - points:,} rounds in "
        f"{run.tuned_s:.0f} s, {run.steps} pan steps; load average {os.getloadavg()[0]:.1f}.",
        "",
        "| phase | waits | p50 ms | p99 ms | max ms | work between ticks p99 ms | max ms |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    phases = [phase for phase in PHASES if watch.waits[phase]]
    for phase in phases:
        waits = np.array(watch.waits[phase])
        p50, p99 = np.percentile(waits, (50, 99))
        work = np.array(watch.work[phase])
        figures = (p50, p99, waits.max(), np.percentile(work, 99), work.max())
        cells = " | ".join(f"{ms:.1f}" for ms in figures)
        lines.append(f"| {phase} | {len(waits)} | {cells} |")
    held = {
        phase: float(np.percentile(watch.waits[phase], 99)) <= P99_GOAL_MS
        and max(watch.waits[phase]) <= MAX_GOAL_MS
        for phase in phases[2:]
    }
    met = ", ".join(f"{'met' if held[phase] else 'missed'} while {phase}" for phase in held)
    lines += [
        "",
        f"The goal of p99 {P99_GOAL_MS:.0f} ms and at most {MAX_GOAL_MS:.0f} ms is {met}. The "
        "events with most work, and where the thread was when it was late (in samples of 8 ms):",
        "",
        "```text",
    ]
    for phase in phases:
        by_name: dict[str, list[tuple[float, float]]] = collections.defaultdict(list)
        for work, ms, name in watch.events[phase]:
            by_name[name].append((work, ms))
        longest = sorted(by_name.items(), key=lambda item: max(item[1]), reverse=True)[:8]
        lines += [
            f"{phase}: {max(found)[0]:6.1f} ms of work in {max(found)[1]:6.1f} ms, "
            f"{len(found):4d} over 5 ms  {name}"
            for name, found in longest
        ]
        lines += [f"{phase}: {n:4d} samples  {at}" for at, n in watch.places[phase].most_common(8)]
    return "\n".join([*lines, "```", ""])
