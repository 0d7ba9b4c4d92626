"""Attacks on the kernel database: kill -9, failing writes."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from outcomes import Campaign, Outcome
from test_database import record

from nnjit_studio.database import KernelDatabase
from nnjit_studio.errors import DatabaseError

STRIDE = 512
"""Bytes from one failing write to the next: a sector."""


def kills(run: Campaign) -> Outcome:
    """SIGKILL at a random record; everything that was acknowledged is there."""
    broken = lost = 0
    for number in run.rounds():
        path = run.folder / f"killed-{number % 8}.db"
        with _writer(path) as writer:
            lines = [writer.said.readline() for _ in range(run.rng.randrange(1, 30))]
            os.kill(writer.pid, signal.SIGKILL)
            lines += writer.said.readlines()
        b, missing = _after(path, lines)
        broken, lost = broken + b, lost + missing
        if number % 8 == 7:
            for old in run.folder.glob("killed-*"):
                old.unlink()
    return run.outcome(
        not broken and not lost, {"not whole": broken, "acknowledged records lost": lost}
    )


def faults(run: Campaign) -> Outcome:
    """The write that would pass a size fails, for each size in steps of a sector."""
    broken = lost = crashes = 0
    for number in run.rounds():
        path = run.folder / "faulty.db"
        for old in run.folder.glob("faulty.db*"):
            old.unlink()
        with _writer(path, limit=number * STRIDE) as writer:
            lines = writer.said.readlines()
        crashes += lines[-1:] != ["DatabaseError\n"]
        lines = lines[:-1]
        if path.exists() and path.stat().st_size:
            b, missing = _after(path, lines)
            broken, lost = broken + b, lost + missing
    return run.outcome(
        not (broken or lost or crashes),
        {"without words": crashes, "not whole": broken, "acknowledged records lost": lost},
    )


@dataclass
class _Writer:
    """A child that commits records for ever, and says each before the next."""

    pid: int
    said: TextIO

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.said.close()
        os.waitpid(self.pid, 0)


def _writer(path: Path, limit: int | None = None) -> _Writer:
    """A fork, which need not load the Studio anew: a thousand of them take minutes.

    ``limit``: bytes of a file after which writes fail; what it failed with is its last line.
    """
    reads, writes = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writes)
        return _Writer(pid, os.fdopen(reads))
    try:
        os.close(reads)
        if limit is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        _write(path, lambda line: os.write(writes, f"{line}\n".encode()))
    finally:
        os._exit(0)  # nothing of the parent may end here: not its tests, not its threads


def _write(path: Path, say: Callable[[str], object]) -> None:
    try:
        with KernelDatabase.open(path) as db:
            for number in range(100_000):
                made = record(number, number.to_bytes(4, "little") * 3000)
                db.commit_record(made)
                say(made.settings)
    except BaseException as e:
        say(type(e).__name__)


def _after(path: Path, lines: list[str]) -> tuple[bool, int]:
    """Whether the file is broken, and how many records that were acknowledged are not there."""
    acknowledged = {line.strip() for line in lines if line.endswith("\n")}
    try:
        with KernelDatabase.open(path) as db:
            there = {record.settings for record in db.all_records()}
            return db.integrity() != "ok", len(acknowledged - there)
    except DatabaseError:
        return True, len(acknowledged)
