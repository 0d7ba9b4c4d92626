"""What must hold however often it is done; prints what it found, exit code 1 if it does not hold.

    python benchmarks/endurance.py starts [--times 100] [--markdown FILE]
    python benchmarks/endurance.py kills MODEL [--times 50] [--markdown FILE]

``starts`` opens the Studio and closes it again, every third time with a small model and every
sixth with a second of tuning too. Each time the exit code is 0, no process of it is left, its
folder for temporary files is empty, and the folder of its user has no more files than before.

``kills`` tunes MODEL in the real window and kills the renderer of the embedded page again and
again while candidates are measured. The page is back in a second, a kill costs one candidate at
most, and the database has one right record for each verdict. Linux alone: it looks into /proc.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

BACK_S = 1.0
SETTLE_S = 2.0
"""For a killed renderer's successor to measure again before it is killed as well."""
MOST_WAIT_S = 60.0
LIMIT_S = 300.0
ROOT = getattr(os, "geteuid", lambda: 1)() == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=("starts", "kills"))
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--times", type=int)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    if options.what == "starts":
        lines, fine = starts(options.times or 100)
    else:
        if options.model is None:
            parser.error("kills needs a MODEL, such as of `nnjit sample minilm -o minilm.onnx`")
        lines, fine = kills(options.model, options.times or 50)
    verdict = "All of it holds." if fine else "It does not hold."
    print("\n".join((*lines, verdict)))
    if options.markdown is not None:
        title = {"starts": "Studio started and stopped", "kills": "Renderer killed while tuning"}
        day = datetime.datetime.now(datetime.timezone.utc).date()
        with options.markdown.open("a", encoding="utf-8") as file:
            file.write(f"\n## {day}: {title[options.what]}\n\n")
            file.write(f"{platform.platform()}, {os.cpu_count()} cores, offscreen.\n\n")
            file.writelines(f"- {line}\n" for line in (*lines, verdict))
    sys.exit(not fine)


# Started and stopped


def starts(times: int) -> tuple[list[str], bool]:
    problems: Counter[str] = Counter()
    seconds = []
    with tempfile.TemporaryDirectory(prefix="endurance-") as folder:
        home, scratch = Path(folder, "home"), Path(folder, "scratch")
        home.mkdir()
        scratch.mkdir()
        small_model(home / "small.onnx")
        files: set[str] = set()
        with contextlib.suppress(KeyboardInterrupt):  # what was done until then counts
            for number in range(times):
                begun = time.perf_counter()
                found = one_start(number, home, scratch)
                seconds.append(time.perf_counter() - begun)
                now = {str(path.relative_to(home)) for path in home.rglob("*")}
                if number >= 6 and now - files:  # each kind of start has left its caches by then
                    found.append(f"new files of the user: {', '.join(sorted(now - files))}")
                files |= now
                problems.update(found)
                said = "; ".join(found) or "fine"
                print(f"start {number + 1}: {seconds[-1]:.1f} s, {said}", flush=True)
        damage = integrity(home / "kernels.db")
    done, longest = len(seconds), max(seconds)
    lines = [
        f"{done} starts, a third with a model, a sixth tuned: median {median(seconds)} s each, "
        f"at most {longest:.1f} s",
        f"{sum(problems.values())} problems"
        + "".join(f"; {count} times {problem}" for problem, count in problems.items()),
        f"the one database of all starts: {damage}",
    ]
    return lines, done == times and not problems and damage == "ok"


def one_start(number: int, home: Path, scratch: Path) -> list[str]:
    """Open and close once; what was not as it should be."""
    command = [str(Path(sys.executable).with_name("nnjit")), "studio", "--quit"]
    command += ["--database", str(home / "kernels.db"), *(["--no-sandbox"] if ROOT else [])]
    if number % 3 == 2:
        command.append(str(home / "small.onnx"))
    if number % 6 == 5:
        command += ["--tune", "1"]
    folders = {name: str(home) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    environment = {
        **os.environ,
        **folders,
        "XDG_DATA_HOME": str(home),
        "TMPDIR": str(scratch),
        "PYTHONFAULTHANDLER": "1",
    }
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    try:
        _, said = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # it writes where each thread is
        time.sleep(1)
        os.killpg(process.pid, signal.SIGKILL)
        print(process.communicate()[1].decode(errors="replace"), flush=True)
        clear(scratch)
        return [f"did not end in {LIMIT_S:.0f} s"]
    found = []
    if process.returncode:
        print(said.decode(errors="replace"), flush=True)
        found.append(f"exit code {process.returncode}")
    until = time.monotonic() + 1.0  # what ends with its parent may take a moment
    while (left := session_of(process.pid)) and time.monotonic() < until:
        time.sleep(0.02)
    if left:
        found.append(f"processes are left: {', '.join(left)}")
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(int(pid.split()[0]), signal.SIGKILL)
    if names := sorted(path.name for path in scratch.iterdir()):
        found.append(f"temporary files are left: {', '.join(names)}")
        clear(scratch)
    return found


def clear(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def small_model(path: Path) -> None:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((64, 64)).astype(np.float32) for _ in range(3)]
    nodes = [
        helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(len(weights))
    ]
    ports = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 64])] for name in ("x0", "x3")
    ]
    held = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
    graph = helper.make_graph(nodes, "small", *ports, held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def processes() -> Iterator[tuple[int, int, int, str]]:
    """Number, parent, session and command of every process that is no zombie."""
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if folder.name.isdigit() and fields[0] != "Z":
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("latin-1")
                yield int(folder.name), int(fields[1]), int(fields[3]), command


def session_of(leader: int) -> list[str]:
    return [f"{pid} {said[:80]}" for pid, _, session, said in processes() if session == leader]


# Killed while tuning


def kills(model: Path, times: int) -> tuple[list[str], bool]:
    from PySide6.QtCore import QSettings, QTimer

    import nnjit_studio.ui
    from nnjit_studio.tuner import events as ev
    from nnjit_studio.ui.page.host import EngineView
    from nnjit_studio.ui.page.process import check_sandbox
    from nnjit_studio.ui.startup.app import _application
    from nnjit_studio.ui.state.jobs import JobProblem
    from nnjit_studio.ui.window.main_window import StudioWindow
    from nnjit_studio.workbench import Workbench

    assert nnjit_studio.ui
    rng = random.Random(0)
    back_s: list[float] = []
    on_s: list[float] = []
    complaints: list[str] = []
    with tempfile.TemporaryDirectory(prefix="endurance-") as folder:
        database = Path(folder, "kernels.db")
        bench = Workbench(database, flags=check_sandbox(ROOT))
        bench.start()
        app = _application()
        settings = QSettings(f"{folder}/studio.ini", QSettings.Format.IniFormat)
        window = StudioWindow(bench, EngineView, settings)
        session = window.session
        # Every candidate, so that there is something to measure for long enough.
        tune, bench.tune = bench.tune, lambda seconds=None: tune(seconds, exhaustive=True)
        window.closed.connect(app.quit)
        state = {"next_s": 0.0, "killed_s": 0.0, "pages": 0, "events": 0, "back": True}

        def look() -> None:
            now = time.monotonic()
            if state["killed_s"]:
                if not state["back"] and bench.hub.pages > state["pages"]:
                    # A verdict of before the kill may still have been on its way.
                    state.update(back=True, events=measured())
                    back_s.append(now - state["killed_s"])
                if state["back"] and measured() > state["events"]:
                    on_s.append(now - state["killed_s"])
                    print(
                        f"kill {len(on_s)}: page {back_s[-1]:.2f} s, on {on_s[-1]:.2f} s",
                        flush=True,
                    )
                    state.update(killed_s=0.0, next_s=now + SETTLE_S + rng.random())
                elif now - state["killed_s"] > MOST_WAIT_S:
                    complaints.append(f"nothing goes on {MOST_WAIT_S:.0f} s after a kill")
                    leave()
            elif len(on_s) >= times:
                leave()
            elif session.busy == "tune" and now > state["next_s"] and measured() > state["events"]:
                state.update(killed_s=now, back=False, pages=bench.hub.pages, events=measured())
                for pid in renderers():
                    os.kill(pid, signal.SIGKILL)

        def measured() -> int:
            return sum(isinstance(event, ev.Measured) for event in session.events)

        def leave() -> None:
            clock.stop()
            window.close()

        def done(job: str, _: object) -> None:
            if job in ("open", "tune") and clock.isActive():
                if job == "tune":  # everything was tried: from the start, with an empty database
                    bench.database.delete([row.id for row in bench.database.measurements()])
                QTimer.singleShot(0, partial(session.tune, None))

        def failed(problem: JobProblem) -> None:
            complaints.append(f"{problem.job} failed: {problem.error}")
            leave()

        clock = QTimer(interval=10)
        clock.timeout.connect(look)
        clock.start()
        session.done.connect(done)
        session.problem.connect(failed)
        window.show()
        QTimer.singleShot(0, lambda: window.open_model(model))
        app.exec()
        rows = bench.database.measurements()
        bench.close()
        damage = integrity(database)
    verdicts = [e for e in session.events if isinstance(e, ev.Measured)]
    states = Counter(row.state for row in rows)
    lost = [e for e in verdicts if "page was lost" in e.reason]
    missed = without_verdict(session.events)
    bad = sum(states[name] for name in ("wrong", "impossible", "failed")) - len(lost)
    lines = [
        f"{len(on_s)} kills of {times} while {model.name} was tuned, {len(verdicts)} verdicts",
        f"the page said hello again after {median(back_s)} s (median), {most(back_s)} s at most; "
        f"the next verdict came after {median(on_s)} s, {most(on_s)} s at most",
        f"{len(lost)} candidates failed for a lost page, {missed} got no verdict",
        f"{len(rows)} records: {', '.join(f'{n} {name}' for name, n in sorted(states.items()))}; "
        f"the database: {damage}",
        *(f"complaint: {text}" for text in complaints),
    ]
    fine = (
        len(on_s) == times
        and max(back_s) <= BACK_S
        and len(lost) + missed <= times
        and bad <= 0
        and damage == "ok"
        and not complaints
    )
    return lines, fine


def without_verdict(events: Sequence[Any]) -> int:
    """Candidates that were being measured and never got a verdict, but for a session's last."""
    from nnjit_studio.tuner import events as ev

    trying = ""
    missed = 0
    for event in events:
        if isinstance(event, ev.SessionStarted):
            trying = ""
        elif isinstance(event, ev.Trying) and event.phase in ("check", "duel"):
            key = f"{event.workload} {event.candidate}"
            missed += bool(trying) and trying != key
            trying = key
        elif isinstance(event, ev.Measured) and trying == f"{event.workload} {event.candidate}":
            trying = ""
    return missed


def renderers() -> list[int]:
    """Renderers of this process: children of its zygotes, whose command line they keep."""
    every = list(processes())
    zygotes = {p for p, parent, _, said in every if parent == os.getpid() and "zygote" in said}
    return [pid for pid, parent, _, _ in every if parent in zygotes]


# Both


def integrity(path: Path) -> str:
    from nnjit_studio.database import KernelDatabase

    with KernelDatabase.open(path) as database:
        return database.integrity()


def median(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f}" if values else "?"


def most(values: Sequence[float]) -> str:
    return f"{max(values):.2f}" if values else "?"


if __name__ == "__main__":
    main()
