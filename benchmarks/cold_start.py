"""From the start of the program to its first picture: `python benchmarks/cold_start.py [MODEL]`.

The window is opened and closed some times, each in a process of its own with settings and a
database of its own. Printed are wall-clock seconds from the start of the process to the first
painted frame and, with a model, to its drawn graph; and until the process has ended.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

from nnjit_studio.bench.report import append

MARKS = {"window": "The window is drawn.", "graph": "The graph is drawn"}
WANTED_S = {"window": 3.0, "graph": 5.0}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--markdown", type=Path, help="append the figures to this file")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    runs = [measure(options.model) for _ in range(options.runs)]
    told = []
    for name in runs[0]:
        seconds = sorted(run[name] for run in runs)
        wanted = f", {WANTED_S[name]:.0f} wanted" if name in WANTED_S else ""
        told.append(
            f"{name}: median {statistics.median(seconds):.2f} s, {seconds[0]:.2f} to "
            f"{seconds[-1]:.2f}, {len(seconds)} runs{wanted}"
        )
        print(told[-1])
    if options.markdown:
        of = f"with {options.model.name}" if options.model else "without a model"
        lines = "\n".join(f"- {line}" for line in told)
        title = f"## {date.today()}: start of the window, {of}, load average {load:.1f}"
        append(options.markdown, f"{title}\n\n{lines}")


def measure(model: Path | None) -> dict[str, float]:
    """Seconds from the start of one process to each mark, and to its end."""
    with tempfile.TemporaryDirectory() as folder:
        command = [Path(sys.executable).with_name("nnjit"), "-vv", "studio", "--quit"]
        command += ["--database", f"{folder}/kernels.db"]
        if getattr(os, "geteuid", lambda: 1)() == 0:
            command.append("--no-sandbox")
        if model is not None:
            command.append(model)
        begun, found = time.perf_counter(), {}
        environment = {"QT_QPA_PLATFORM": "offscreen", **os.environ}
        with subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=environment
        ) as process:
            assert process.stderr is not None
            tail = []
            for line in process.stderr:
                tail = [*tail[-9:], line]
                for name, mark in MARKS.items():
                    if mark in line:
                        found.setdefault(name, time.perf_counter() - begun)
        if process.returncode or len(found) < (1 if model is None else 2):
            sys.exit(f"exit code {process.returncode}; marks {sorted(found)}\n{''.join(tail)}")
        return found | {"ended": time.perf_counter() - begun}


if __name__ == "__main__":
    main()
