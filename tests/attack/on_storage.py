"""Attacks on the kernel database: kill -9, failing writes, two Studios."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path

from outcomes import Campaign, Outcome
from test_database_kill import WRITER

from nnjit_studio.database import KernelDatabase
from nnjit_studio.errors import DatabaseError

STRIDE = 512
"""Bytes from one failing write to the next: a sector."""


def kills(run: Campaign) -> Outcome:
    """SIGKILL at a random record; everything that was acknowledged is there."""
    broken = lost = 0
    for number in run.rounds():
        path = run.folder / f"killed-{number % 8}.db"
        with _writer(path) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(run.rng.randrange(1, 30))]
            process.send_signal(signal.SIGKILL)
            lines += process.stdout.readlines()
        b, missing = _after(path, lines)
        broken, lost = broken + b, lost + missing
        if number % 8 == 7:
            for old in run.folder.glob("killed-*"):
                old.unlink()
    return run.outcome(
        not broken and not lost, f"{broken} not whole, {lost} acknowledged records lost"
    )


def faults(run: Campaign) -> Outcome:
    """The write that would pass a size fails, for each size in steps of a sector."""
    broken = lost = crashes = 0
    for number in run.rounds():
        path = run.folder / "faulty.db"
        for old in run.folder.glob("faulty.db*"):
            old.unlink()
        with _writer(path, limit=number * STRIDE) as process:
            assert process.stdout is not None and process.stderr is not None
            lines = process.stdout.readlines()
            said = process.stderr.read()
        crashes += process.returncode != 1 or "DatabaseError" not in said
        if path.exists() and path.stat().st_size:
            b, missing = _after(path, lines)
            broken, lost = broken + b, lost + missing
    return run.outcome(
        not (broken or lost or crashes),
        f"{crashes} without words, {broken} not whole, {lost} acknowledged records lost",
    )


def _writer(path: Path, limit: int | None = None) -> subprocess.Popen[str]:
    def limited() -> None:
        if limit is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), ""],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limited,
    )  # fmt: skip


def _after(path: Path, lines: list[str]) -> tuple[bool, int]:
    """Whether the file is broken, and how many records that were acknowledged are not there."""
    acknowledged = {line.split()[1] for line in lines if line.endswith("\n")}
    try:
        with KernelDatabase.open(path) as db:
            there = {record.settings for record in db.all_records()}
            return db.integrity() != "ok", len(acknowledged - there)
    except DatabaseError:
        return True, len(acknowledged)
