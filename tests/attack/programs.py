"""Attacks that need a browser or the window, and minutes to hours: run where they are named."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from outcomes import Campaign, Outcome

_ROOT = Path(__file__).resolve().parents[2]
_BENCHMARKS = _ROOT / "benchmarks"
sys.path.append(str(_BENCHMARKS))
_ALONE = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
SLICE = 100
"""Duels of one start of the browser."""
LOSSES = 25
"""Of one start of the browser."""
ESCAPES = 0.002
FALSE_SWAPS = 0.01
GROWTH_MIB = 32
PICTURES_S = 20
FIRST_VALUE_S = 60.0


def wrong_kernels(run: Campaign) -> Outcome:
    """Mutants of thirteen kinds before gate 1 in Chromium; after each a right kernel."""
    found = _duels("--mutants", run.size)["mutants"]
    run.done = found["mutants"]
    return escaped(run, found)


def escaped(run: Campaign, found: Mapping[str, Any]) -> Outcome:
    counts = {
        "accepted": len(found["survivors"]),
        "right kernels": found["correct"],
        "of those refused": len(found["rejected"]),
    }
    kinds = f"{len(found['kinds'])} kinds; {found['equivalent']} equivalent ones are not counted"
    holds = counts["accepted"] <= ESCAPES * run.done and not counts["of those refused"]
    return run.outcome(holds and run.done > 0, counts, note=kinds)


def same_kernels(run: Campaign) -> Outcome:
    """Duels of a kernel with itself in Chromium: none is an improvement."""
    end = time.monotonic() + run.seconds
    rows = []
    while run.start + run.done < run.size and time.monotonic() < end:
        rows.append(_duels("--aa", min(SLICE, run.size - run.start - run.done))["aa"])
        run.done += rows[-1]["duels"]
    return not_improved(run, rows)


def not_improved(run: Campaign, rows: list[Mapping[str, Any]]) -> Outcome:
    false = sum(row["false_swaps"] for row in rows)
    undecided = sum(row["undecided"] for row in rows)
    counts = {"false swaps": false, "undecided": undecided}
    return run.outcome(rarely_false(counts, run.done), counts)


def rarely_false(counts: Mapping[str, int], done: int) -> bool:
    decided = done - counts["undecided"]
    return decided > 0 and counts["false swaps"] <= FALSE_SWAPS * decided


def _duels(kind: str, count: int) -> dict[str, Any]:
    others = {"--aa", "--slower", "--faster", "--mutants"} - {kind}
    command = [word for other in sorted(others) for word in (other, "0")]
    text = nnjit("bench", "duels", "--target", "chromium", "--json", *_ALONE, *command,
                 kind, str(count))  # fmt: skip
    return dict(json.loads(text))


def swaps(run: Campaign) -> Outcome:
    """Kernels exchanged in a page of Chromium, each with bytes of its own, its answer compared."""
    import tiny
    from endurance import processes
    from long_run import below, rss
    from waiting import PATIENCE_S

    from nnjit_studio.engine.browsers.browsers import find, is_root, launch
    from nnjit_studio.engine.hub.hub import Hub
    from nnjit_studio.engine.runner.page_runner import PageRunner

    with (
        Hub() as hub,
        launch(find("chromium"), hub.url, no_sandbox=is_root(), on_exit=hub.report_lost) as browser,
        tempfile.TemporaryDirectory() as folder,
    ):
        hub.wait_for_page(PATIENCE_S)
        runner = PageRunner(hub, "chromium", timeout_s=PATIENCE_S, threads=1)
        runner.probe([tiny.peak_kernel()])
        plan, weights = tiny.plan_and_weights()
        file = Path(folder, "weights.bin")
        file.write_bytes(weights)
        runner.load(plan, file)

        def resident() -> int:
            said = {pid: command for pid, _, _, command in processes()}
            mine = [pid for pid in below(browser.pid) if "--type=renderer" in said.get(pid, "")]
            return max(map(rss, mine), default=0) >> 20

        return swapped(run, runner, resident)


def swapped(run: Campaign, runner: Any, resident: Callable[[], int]) -> Outcome:
    """``resident``: MiB of the page's process, whose growth after a fifth of the swaps counts."""
    import numpy as np
    import tiny

    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    w = np.frombuffer(tiny.plan_and_weights()[1], np.float32)[: tiny.N].reshape(2, 3)
    expected = {"add": x + w, "mul": x * w, "sub": x - w}
    wrong, mib = 0, []
    for number in run.rounds():
        op = list(expected)[number % 3]
        runner.register([tiny.kernel(op, number)])
        wrong += not np.array_equal(runner.infer({"x": x}).outputs["y"], expected[op])
        if number >= run.size // 5 and number % max(1, run.size // 100) == 0:
            mib.append(resident())
    many = max(1, len(mib) // 8)
    first, last = (statistics.median(some or [0]) for some in (mib[:many], mib[-many:]))
    most = {"MiB more": round(last - first)}
    holds = not wrong and first > 0 and last - first <= GROWTH_MIB
    return run.outcome(holds, {"wrong answers": wrong}, most, f"{first:.0f} to {last:.0f} MiB")


def long_run(run: Campaign) -> Outcome:
    """`benchmarks/long_run.py`, an hour or a third of it to warm up."""
    minutes = min(run.size, run.seconds / 60)
    record = run.folder / "long-run.jsonl"
    argv = ["--hours", str(minutes / 60), "--warm-minutes", str(min(60.0, minutes / 3))]
    command = [sys.executable, str(_BENCHMARKS / "long_run.py"), str(_model(run)), *argv]
    subprocess.run([*command, "--record", str(record)], cwd=_ROOT, check=False)
    *rows, verdict = map(json.loads, record.read_text().splitlines())
    run.done = len(rows)
    return run.outcome(verdict["holds"], {}, note=verdict["figure"])


def losses(run: Campaign) -> Outcome:
    """WebGPU devices lost at any moment in Chromium with a software adapter; every answer right.

    They are lost by slices, in the page and through the bridge to a device of Python's.
    """
    end, held = time.monotonic() + run.seconds, True
    while held and run.start + run.done < run.size and time.monotonic() < end:
        count = min(LOSSES, run.size - run.start - run.done)
        held, _ = lost(count)
        run.done += count if held else 0
    return run.outcome(held, {"not made good": int(not held)})


def lost(count: int) -> tuple[bool, str]:
    """Whether a page and, as often, the bridge stood so many losses."""
    tests = f"{_ROOT}/tests/end2end/webgpu/test_webgpu.py"
    command = [sys.executable, "-m", "pytest", "-q", "-k", "lost_devices or over_the_bridge"]
    around = {**os.environ, "NNJIT_GPU_LOSSES": str(count)}
    done = subprocess.run([*command, tests], cwd=_ROOT, env=around, capture_output=True, text=True,
                          check=False)  # fmt: skip
    return done.returncode == 0 and "2 passed" in done.stdout, done.stdout[-300:]


def starts(run: Campaign) -> Outcome:
    """The Studio opened and closed; every third time with a model, every sixth it tunes."""
    from endurance import integrity, one_start, small_model

    home, scratch = run.folder / "home", run.folder / "scratch"
    for folder in (home, scratch):
        folder.mkdir(exist_ok=True)
    small_model(home / "small.onnx")
    problems = [text for number in run.rounds() for text in one_start(number, home, scratch)]
    damage = integrity(home / "kernels.db")
    return run.outcome(
        not problems and damage == "ok", {"problems": len(problems)},
        note="; ".join([f"the database is {damage}", *problems[:3]]),
    )  # fmt: skip


def window(run: Campaign) -> Outcome:
    """MiniLM is tuned in the window with 100,000 points that are panned."""
    command = [sys.executable, str(_BENCHMARKS / "window_speed.py"), str(_model(run)), *_ALONE]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    run.done = 1
    return responsive(run, done.stdout)


def responsive(run: Campaign, report: str) -> Outcome:
    """By what `window_watch.py` reports."""
    waits = re.search(r"^\| tuning \| \d+ \| [\d.]+ \| ([\d.]+) \| ([\d.]+) ", report, re.M)
    pans = re.search(r"in (\d+) s, (\d+) pan steps; load average ([\d.]+)", report)
    if waits is None or pans is None:
        return run.outcome(False, {}, note=f"it said: {report[-200:]}")
    p99, most = float(waits[1]), float(waits[2])
    pictures = int(pans[2]) / max(1, int(pans[1]))
    return run.outcome(
        p99 <= 33 and most <= 150 and pictures >= PICTURES_S, {},
        note=f"p99 {p99:.1f} ms, {most:.1f} ms at most, {pictures:.0f} pan steps a second; load "
        f"average {pans[3]}",
    )  # fmt: skip


def cold_start(run: Campaign) -> Outcome:
    """Seconds to the window and the drawn graph, and to the first swap of an empty database."""
    from cold_start import measure

    model = _model(run)
    times = [measure(model) for _ in run.rounds()]
    times += [{"first swap": _first_swap_s(model, run.folder)}]
    return soon(run, times)


def soon(run: Campaign, times: list[Mapping[str, float]]) -> Outcome:
    limits = {"window": 3.0, "graph": 5.0, "first swap": FIRST_VALUE_S}
    found = {name: [t[name] for t in times if name in t] for name in limits}
    medians = {name: statistics.median(some) for name, some in found.items() if some}
    holds = all(medians.get(name, limit + 1) <= limit for name, limit in limits.items())
    told = ", ".join(f"{name} {s:.2f} s of {limits[name]:.0f}" for name, s in medians.items())
    return run.outcome(holds, {}, note=f"{told} (medians); load average {os.getloadavg()[0]:.1f}")


def _first_swap_s(model: Path, folder: Path) -> float:
    """From the start of `nnjit tune` to its first swap; no number where it ends without one."""
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        command = _command("tune", str(model), "--seconds", "40", "--target", "chromium", "--json",
                           "--database", f"{fresh}/kernels.db", *_ALONE)  # fmt: skip
        begun, first = time.monotonic(), float("inf")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as process:
            for line in process.stdout or ():
                if json.loads(line).get("event") == "swapped" and first == float("inf"):
                    first = time.monotonic() - begun
    return first


def _model(run: Campaign) -> Path:
    path = run.folder.parent / "minilm.onnx"
    if not path.exists():
        nnjit("sample", "minilm", "-o", str(path))
    return path


def nnjit(*words: str) -> str:
    """What the command says on its standard output."""
    done = subprocess.run(_command(*words), cwd=_ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"nnjit {' '.join(words)}: {done.stderr[-500:]}")
    return done.stdout


def _command(*words: str) -> list[str]:
    return [str(Path(sys.executable).with_name("nnjit")), *words]
