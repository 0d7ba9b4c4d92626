"""`benchmarks/reliability.json`: what each run found, added up to the size of a bar."""

from __future__ import annotations

import fcntl
import json
import platform
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from outcomes import Outcome, told

_ROOT = Path(__file__).resolve().parents[2]
Json = dict[str, Any]


@dataclass(frozen=True)
class Results:
    """The file; several processes may write it at a time."""

    path: Path | None

    def runs(self, attack: str) -> list[Json]:
        """Runs of an attack so far, oldest first."""
        if self.path is None or not self.path.exists():
            return []
        rows = json.loads(self.path.read_text()).get("attacks", [])
        return next((r.get("runs", []) for r in rows if r["attack"] == attack), [])

    def add_run(self, row: Json) -> None:
        """Replace the row of an attack."""
        self._change(lambda d: _replaced(d, "attacks", "attack", row))

    def add_bar(self, row: Json) -> None:
        """Replace the row of a bar."""
        self._change(lambda d: _replaced(d, "bars", "bar", row))

    def _change(self, change: Callable[[Json], None]) -> None:
        if self.path is None:
            return
        with self.path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            document = json.loads(file.read() or "{}")
            change(document)
            bars = document.get("bars", [])
            machine = f"{platform.system()} {platform.machine()}"
            whole = {
                "machine": f"{machine}, Python {platform.python_version()}",
                "hold": sum(bar["holds"] is True for bar in bars),
                "bars": bars,
                "attacks": document.get("attacks", []),
            }
            file.truncate(0)
            file.write(json.dumps(whole, indent=1) + "\n")


def _replaced(document: Json, table: str, name: str, row: Json) -> None:
    rows = {r[name]: r for r in document.get(table, [])} | {row[name]: row}
    document[table] = [rows[n] for n in sorted(rows)]


def run_row(outcome: Outcome, seed: int, start: int, command: str) -> Json:
    """One run; ``start`` attacks of its bar were made by others before."""
    return {
        "seed": seed, "start": start, "done": outcome.done, "holds": outcome.holds,
        "counts": dict(outcome.counts), "most": dict(outcome.most), "figure": outcome.figure,
        "command": command, "date": now(), "commit": commit(),
    }  # fmt: skip


def attack_row(
    name: str, size: int, unit: str, runs: Sequence[Json],
    judge: Callable[[Mapping[str, int], int], bool] | None = None,
) -> Json:  # fmt: skip
    """All runs of an attack together: complete when they reach its size, and held by each.

    ``judge``: of the sums of the counts and the number of attacks, where a bar is a share.
    """
    done = sum(run["done"] for run in runs)
    counts: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for run in runs:
        counts.update(run["counts"])
        most |= Counter(run["most"])
    for names, sums in (("counts", counts), ("most", most)):
        for key in (key for run in runs for key in run[names]):
            sums[key] += 0  # a count of nothing is told too
    text = f"{done:,} of {size:,} {unit} in {len(runs)} runs: {told(counts, most)}"
    if len(runs) == 1:
        text = runs[0]["figure"]
    holds = judge(counts, done) if judge else all(run["holds"] for run in runs)
    return {
        "attack": name, "holds": holds, "complete": done >= size,
        "figure": text, "command": runs[-1]["command"], "date": runs[-1]["date"],
        "runs": list(runs),
    }  # fmt: skip


def commit() -> str:
    """The short name of the sources, with a plus where they were changed; ? without git."""
    git = shutil.which("git")
    if not git:
        return "?"
    told_by = [git, "describe", "--always", "--dirty=+", "--exclude=*"]
    done = subprocess.run(told_by, cwd=_ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "?"


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="minutes")
