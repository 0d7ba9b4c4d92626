"""ONNX Runtime Web tuned inside its own session: `python benchmarks/live.py RUNTIME MODEL`.

RUNTIME is `ort-wasm-simd-threaded.wasm` in the folder of its package. For each browser, number of
threads and rounding, `nnjit live` starts from the plain module and an empty database, tunes for
15 s, compares all kernels in turns, and swaps kernels before as many inferences as --swaps says.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from nnjit_studio.bench.conditions import load_average, measured_now
from nnjit_studio.bench.report import Report, Table, append

HEAD = (
    "browser", "threads", "rounding", "plain ms", "winner ms", "gain", "GFLOP/s", "winner",
    "s to winner", "behind the best", "swaps", "answers", "wrong",
)  # fmt: skip
ABOUT = (
    "`nnjit live`: from the plain module and an empty database. Ms are medians of inferences with "
    "all kernels in turns after the tuning; 'behind the best' is how much slower the winner is "
    "than the best fixed set of kernels, in pairs of rounds other than those that chose the best, "
    "with a 99.9 % interval: sets that may be faster meet until it lies on one side of 3 %."
)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("runtime", type=Path)
    given.add_argument("model", type=Path)
    given.add_argument("--targets", default="chromium,firefox")
    given.add_argument("--threads", default="1,2")
    given.add_argument("--rounds", type=int, default=600)
    given.add_argument("--swaps", type=int, default=1000)
    given.add_argument("--no-sandbox", action="store_true")
    given.add_argument("--markdown", type=Path)
    options = given.parse_args()
    before = load_average()
    races: dict[tuple[str, str, str], dict[str, float]] = {}
    rows = []
    configurations = product(
        options.targets.split(","), options.threads.split(","), ("exact", "fused")
    )
    for target, threads, rounding in configurations:
        events = list(session(options, target, threads, rounding == "fused"))
        row, race = told(events)
        races[target, threads, rounding] = race
        rows.append((target, threads, rounding, *row))
        print("  ".join(rows[-1]), file=sys.stderr)
    parts = [Table(HEAD, rows), "\n".join(elsewhere(races))]
    title = f"{options.model.stem}, kernels of ONNX Runtime Web tuned in its own session"
    report = Report(measured_now(before, {}), title, ABOUT, parts)
    print(report.text())
    if options.markdown:
        append(options.markdown, report.markdown())


def session(
    options: argparse.Namespace, target: str, threads: str, fused: bool
) -> Iterator[dict[str, Any]]:
    """The events of `nnjit live`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "nnjit_studio", "live", str(options.runtime), str(options.model),
            "--json", "--target", target, "--threads", threads, "--race", str(options.rounds),
            "--swaps", str(options.swaps), "--database", str(Path(folder) / "kernels.db"),
            *(["--fma"] if fused else []), *(["--no-sandbox"] if options.no_sandbox else []),
        ]  # fmt: skip
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    yield from map(json.loads, run.stdout.splitlines())


def told(events: list[dict[str, Any]]) -> tuple[list[str], dict[str, float]]:
    """The cells of a row, and the median of each set of kernels in the race."""
    by_name = {event["event"]: event for event in events}
    summary, raced, swaps = (by_name[name] for name in ("summary", "raced", "swaps"))
    race = {row["settings"]: float(row["median"]) for row in raced["rows"]}
    plain, winner = race["default"], race[raced["winner"]]
    workload = summary["workloads"][0]
    flops = workload["gflops"]["after"] * workload["ms"]["after"]
    row = [
        f"{plain:.1f}",
        f"{winner:.1f}",
        f"{plain / winner:.2f}x",
        f"{flops / winner:.1f}",
        tile_of(raced["winner"]),
        f"{summary['seconds_to_best']:.1f}",
        share_of(raced),
        str(swaps["swaps"]),
        str(swaps["answers"]),
        str(swaps["wrong"]),
    ]
    return row, race


def elsewhere(races: dict[tuple[str, str, str], dict[str, float]]) -> Iterator[str]:
    """What another browser's best kernels would give."""
    for (target, threads, rounding), race in races.items():
        mine = min(race, key=lambda settings: race[settings])
        for (other, t, r), its in races.items():
            if other == target or (t, r) != (threads, rounding):
                continue
            best = min(its, key=lambda settings: its[settings])
            if best in race:
                yield (
                    f"- {target}, {threads} threads, {rounding}: its best kernels "
                    f"({tile_of(mine)}) are {race[best] / race[mine]:.2f}x as fast as those that "
                    f"are best in {other} ({tile_of(best)})."
                )


def share_of(raced: dict[str, Any]) -> str:
    """How far the winner is behind the best, with its interval where there are rounds enough."""
    rounds = f"{raced['rounds']} rounds"
    if raced["low"] is None:
        return f"{raced['behind']:.1%}; {rounds}"
    return f"{raced['behind']:.1%} ({raced['low']:.1%} to {raced['high']:.1%}; {rounds})"


def tile_of(settings: str) -> str:
    """Rows x columns and unroll, such as 6x8/4."""
    if settings == "default":
        return "plain"
    values = dict(part.split("=") for part in settings.split(","))
    return f"{values['y0']}x{values['x0']}/{values['r0']}"


if __name__ == "__main__":
    main()
