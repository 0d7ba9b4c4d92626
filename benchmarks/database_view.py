"""How long the database view keeps Qt's thread: `python benchmarks/database_view.py [ROWS]`.

A database of that many records (10,000 unless told) is written, read by the real panel, then
filtered, sorted, grouped and compared; printed is the longest of seven times in ms, from the
call to the picture of the changed dock, which is painted for that once more than in the window.
Reading is done in a thread and has its own lines. Then the same goes on in Qt's loop, read anew
between, and printed is how long that loop was kept from what else it had to do.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QObject, QSettings, Qt, QTimer, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication

import nnjit_studio.ui
from nnjit_studio.database import KernelDatabase
from nnjit_studio.records import KernelKey, TuningRecord
from nnjit_studio.ui.commands.history import History
from nnjit_studio.ui.records.dock import DatabasePanel
from nnjit_studio.ui.records.store import Listing, RecordStore
from nnjit_studio.ui.widgets.theme import LIGHT

assert nnjit_studio.ui
TICK_MS, ACT_MS, STEPS = 2, 150, 90
STATES = ("won", "slower", "slower", "slower", "wrong")


def records(count: int) -> list[TuningRecord]:
    made = []
    for i in range(count):
        workload = f"matmul:{128 + i % 40}x768x768:f32+bias"
        key = KernelKey(
            "matmul", f"{128 + i % 40}x768x768", "f32", "row-major", "0123456789ab", "unroll=1",
            f"machine-{i % 4}", "embedded", "relaxed-simd", "1",
        )  # fmt: skip
        ms = 1 + (i * 7919 % 1000) / 500
        made.append(
            TuningRecord(
                key,
                workload,
                f"x0={i % 16},y0={i % 7},r0={i}",
                STATES[i % 5],
                ms,
                40 / ms,
                (ms,) * 6,
                f"{i:x}",
                b"",
                ((1, 8),),
                96,
                3.0,
                f"Chromium {140 + i % 3}",
                "",
                0.1,
                f"2026-11-{1 + i % 28:02}T09:30:12.125+00:00",
            )
        )
    return made


class _Session(QObject):
    records = Signal(list)

    def __init__(self, database: KernelDatabase) -> None:
        super().__init__()
        self.workbench = SimpleNamespace(database=database, page=SimpleNamespace(device=None))
        self.read_records = lambda: None


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    app = QApplication([])
    with tempfile.TemporaryDirectory() as folder, KernelDatabase.open(Path(folder, "k.db")) as db:
        start = time.perf_counter()
        db.add_records(records(count))
        print(f"write {count:,} records, in the database's thread: {_ms(start):.0f} ms")
        names = ("note", "delete", "restore", "import", "export_records")
        actions = {name: QAction(name) for name in names}
        settings = QSettings(str(Path(folder, "settings.ini")), QSettings.Format.IniFormat)
        store = RecordStore(db, History())
        panel = DatabasePanel(_Session(db), LIGHT, store, actions, settings)
        panel.resize(1200, 330)
        panel.show()
        start = time.perf_counter()
        rows = db.measurements()
        print(f"read, in a thread: {_ms(start):.0f} ms")
        start = time.perf_counter()
        listing = Listing.of(rows)
        print(f"prepare for filters, in a thread: {_ms(start):.0f} ms")
        facets, modes = panel.filters.facets, panel.filters.mode_chooser
        steps = {
            "show": lambda i: panel._take(listing),
            "filter by words": lambda i: panel.filter.setText("chromium won"[: 5 + i]),
            "filter by two values": lambda i: (
                panel.filter.clear(), facets["state"].setCurrentText(STATES[i % 2]),
                facets["device"].setCurrentText(f"machine-{i % 4}"),
            ),
            "show all again": lambda i: [f.setCurrentIndex(0) for f in facets.values()],
            "sort by a text": lambda i: panel.view.sortByColumn(1, Qt.SortOrder(i % 2)),
            "sort by a number": lambda i: panel.view.sortByColumn(3, Qt.SortOrder(i % 2)),
            "group": lambda i: modes.setCurrentIndex(1 + i % 3),
            "compare": lambda i: modes.setCurrentIndex(4 + i % 2),
        }  # fmt: skip
        for name, step in steps.items():
            worst = 0.0
            for i in range(7):
                start = time.perf_counter()
                step(i)
                app.processEvents()
                panel.grab()
                worst = max(worst, _ms(start))
            print(f"{name}: {worst:.0f} ms")
        gaps = sorted(gaps_of(app, {**steps, "read anew": lambda i: panel.store.refresh()}))
        p99, (most, name) = gaps[int(0.99 * len(gaps))][0], gaps[-1]
        print(f"gaps of Qt's loop: p99 {p99:.0f} ms, at most {most:.0f} ms, after: {name}")
        panel.close()
        panel.deleteLater()
        app.processEvents()


def gaps_of(
    app: QApplication, steps: dict[str, Callable[[int], object]]
) -> list[tuple[float, str]]:
    """Milliseconds by which a timer of Qt's loop was late while these steps were done in turn,
    with the step that was done last.
    """
    ticks: list[tuple[float, str]] = []
    number, names = 0, list(steps)

    def act() -> None:
        nonlocal number
        if number == STEPS:
            app.quit()
        steps[names[number % len(steps)]](number // len(steps))
        number += 1

    clock, hand = QTimer(interval=TICK_MS), QTimer(interval=ACT_MS)
    clock.timeout.connect(
        lambda: ticks.append((time.perf_counter(), names[(number - 1) % len(names)]))
    )
    hand.timeout.connect(act)
    clock.start()
    hand.start()
    app.exec()
    clock.stop()
    hand.stop()
    return [(1e3 * (b - a) - TICK_MS, name) for (a, _), (b, name) in pairwise(ticks)]


def _ms(start_s: float) -> float:
    return (time.perf_counter() - start_s) * 1e3


if __name__ == "__main__":
    main()
