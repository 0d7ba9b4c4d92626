"""The Studio's window tunes a model again and again for hours: does its memory grow?

    python benchmarks/long_run.py MODEL [--hours 24] [--warm-minutes 60] [--duty 1] [--record FILE]

Every minute the resident bytes of the Studio's own process and of all that it has started are
noted, those of each kind of process, and what malloc has given out: where that is level and the
resident bytes grow, memory is scattered and not leaked. The slope after the warm-up is Theil and
Sen's with its 95 % interval (of the minutes, as if they were independent). Exit code 1 above
1 MiB/h, at an exception that nobody caught, or where nothing was tuned. Linux alone: it looks into
/proc.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from endurance import ROOT, processes

LIMIT_MIB_H = 1.0
MINUTE_S = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--warm-minutes", type=float, default=60.0)
    parser.add_argument("--duty", type=float, default=1.0, help="share of the time that is tuned")
    parser.add_argument("--record", type=Path, help="a JSON line a minute, then the verdict")
    options = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    line, fine = run(options)
    print(line)
    sys.exit(not fine)


def run(options: argparse.Namespace) -> tuple[str, bool]:
    """What was found in a sentence, and whether it holds."""
    from PySide6.QtCore import QSettings, QTimer

    from nnjit_studio.ui.page.host import EngineView
    from nnjit_studio.ui.page.process import check_sandbox
    from nnjit_studio.ui.startup.app import _application
    from nnjit_studio.ui.startup.garbage_collector import GarbageCollector
    from nnjit_studio.ui.window.main_window import StudioWindow
    from nnjit_studio.workbench import Workbench

    record, busy_s = options.record, MINUTE_S * options.duty
    uncaught: list[str] = []
    _watch_exceptions(uncaught)
    rows: list[dict[str, float]] = []
    sessions = 0
    with tempfile.TemporaryDirectory(prefix="long-run-") as folder:
        bench = Workbench(Path(folder, "kernels.db"), flags=check_sandbox(ROOT))
        bench.start()
        app = _application()
        garbage = GarbageCollector(app)
        settings = QSettings(f"{folder}/studio.ini", QSettings.Format.IniFormat)
        window = StudioWindow(bench, EngineView, settings)
        session = window.session
        window.closed.connect(app.quit)
        began = time.monotonic()

        def note() -> None:
            hours = (time.monotonic() - began) / 3600
            rows.append({"hours": hours, "sessions": sessions, **resident(os.getpid())})
            if record is not None:
                with record.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
            if hours >= options.hours:
                window.close()

        def done(job: str, _: object) -> None:
            nonlocal sessions
            if job == "tune":  # from the start, with an empty database
                sessions += 1
                bench.database.delete([row.id for row in bench.database.measurements()])
            if job in ("open", "tune"):
                QTimer.singleShot(round((MINUTE_S - busy_s) * 1000), partial(session.tune, busy_s))

        session.done.connect(done)
        session.problem.connect(lambda problem: uncaught.append(f"{problem.job}: {problem.error}"))
        clock = QTimer(interval=int(MINUTE_S * 1000))
        clock.timeout.connect(note)
        clock.start()
        window.show()
        QTimer.singleShot(0, lambda: window.open_model(options.model))
        app.exec()
        garbage.stop()
        bench.close()
    line, fine = told(rows, options.warm_minutes / 60, sessions, uncaught)
    if record is not None:
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes")
        with record.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"holds": fine, "figure": line, "date": now}) + "\n")
    return line, fine


def told(
    rows: Sequence[dict[str, float]], warm_h: float, sessions: int, uncaught: Sequence[str]
) -> tuple[str, bool]:
    """The verdict over the rows after ``warm_h`` hours.

    Parameters
    ----------
    rows
        One a minute: ``hours`` since the start, ``own_mib`` and ``others_mib``.
    """
    warm = [row for row in rows if row["hours"] > warm_h]
    if len(warm) < 10:
        return f"{len(rows)} minutes are too few for a slope after {warm_h:.2f} h", False
    slope, low, high = slope_of(warm, "own_mib")
    other, other_low, other_high = slope_of(warm, "others_mib")
    first, last = warm[0], warm[-1]
    line = (
        f"{last['hours']:.2f} h, {sessions} sessions; after {first['hours']:.2f} h "
        f"{slope:.1f} MiB/h (95 % {low:.1f} to {high:.1f}) of the Studio's process, from "
        f"{first['own_mib']:.0f} to {last['own_mib']:.0f} MiB; {other:.1f} MiB/h ({other_low:.1f} "
        f"to {other_high:.1f}) of what it started; {len(uncaught)} exceptions nobody caught"
    )
    line += "".join(f"; {text}" for text in uncaught[:3])
    return line, slope <= LIMIT_MIB_H and sessions > 0 and not uncaught


def slope_of(rows: Sequence[dict[str, float]], name: str) -> tuple[float, float, float]:
    """MiB an hour with the ends of its 95 % interval (P. K. Sen, 1968)."""
    from scipy.stats import theilslopes

    found = theilslopes([row[name] for row in rows], [row["hours"] for row in rows], 0.95)
    return float(found.slope), float(found.low_slope), float(found.high_slope)


def resident(root: int) -> dict[str, float]:
    """MiB of a process and of all below it, by kind; and what malloc has given out to this one."""
    said = {pid: command for pid, _, _, command in processes()}
    kinds: Counter[str] = Counter()
    for pid in below(root):
        kinds[kind_of(said.get(pid, ""))] += rss(pid)
    sizes = {"own": rss(root), "others": sum(kinds.values()), "malloc": _malloc_bytes(), **kinds}
    return {f"{name}_mib": size / 2**20 for name, size in sizes.items()}


def below(root: int) -> set[int]:
    """Processes that a process has started, and those that they have."""
    parents = {pid: parent for pid, parent, _, _ in processes()}
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {root}


def kind_of(command: str) -> str:
    """Such as ``renderer`` of Chromium's processes, ``compile`` of the Studio's."""
    if "--type=" in command:
        return command.partition("--type=")[2].split()[0]
    return "compile" if "nnjit_studio" in command else Path((command.split() or ["?"])[0]).name


class _MallocInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost")]  # fmt: skip


def _malloc_bytes() -> int:
    """Bytes that malloc has given out in this process and not got back."""
    of_c = ctypes.CDLL(None)
    of_c.mallinfo2.restype = _MallocInfo
    info = of_c.mallinfo2()
    return int(info.uordblks + info.hblkhd)


def rss(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _watch_exceptions(found: list[str]) -> None:
    """What reaches the hooks of Python is noted, and printed as before."""
    before, before_thread = sys.excepthook, threading.excepthook

    def hook(kind: type[BaseException], e: BaseException, trace: Any) -> None:
        found.append(f"{kind.__name__}: {e}")
        before(kind, e, trace)

    def thread_hook(args: threading.ExceptHookArgs) -> None:
        found.append(f"{args.exc_type.__name__}: {args.exc_value}")
        before_thread(args)

    sys.excepthook, threading.excepthook = hook, thread_hook


if __name__ == "__main__":
    main()
