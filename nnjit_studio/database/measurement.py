"""Measurements: records as lines of a table, grouped, and compared between two places."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from sqlite_utils import Database

from nnjit_studio.records import TuningRecord, code_of
from nnjit_studio.records.outcomes import TIMED


@dataclass(frozen=True, slots=True)
class Measurement:
    """One record without its samples and module; rates are None where nothing was timed.

    The speed-up is None where there was no duel.

    ``id`` is the record's, ``samples`` their number, ``deleted`` when it was put aside.
    """

    id: int
    workload: str
    kind: str
    settings: str
    state: str
    gflops: float | None
    median_ms: float | None
    samples: int
    tier: str
    target: str
    device: str
    browser: str
    created: str  # ISO 8601, UTC
    note: str = ""
    tags: str = ""
    error: str = ""
    deleted: str = ""
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None

    @classmethod
    def of(cls, record_id: int, record: TuningRecord) -> Measurement:
        """The line of a record that is not deleted."""
        key = record.key
        return cls(
            record_id, record.workload, key.kind, record.settings, record.state,
            record.gflops or None, record.median_ms or None, len(record.samples_ms), key.tier,
            key.target, key.device_id, record.browser, record.created, record.note, record.tags,
            record.error, "", record.speedup or None, record.speedup_low or None,
            record.speedup_high or None,
        )  # fmt: skip

    @property
    def code(self) -> str:
        return code_of(self.tier)

    @property
    def timed(self) -> bool:
        """Whether its time is that of a right kernel."""
        ms = self.median_ms
        return self.state in TIMED and ms is not None and 0 < ms < math.inf


_OTHER_COLUMNS = {
    "kind": "k.kind",
    "gflops": "nullif(r.gflops, 0)",
    "median_ms": "nullif(r.median_ms, 0)",
    "speedup": "nullif(r.speedup, 0)",
    "speedup_low": "nullif(r.speedup_low, 0)",
    "speedup_high": "nullif(r.speedup_high, 0)",
    "samples": "json_array_length(r.samples_ms)",
    "tier": "k.tier",
    "target": "k.target",
    "device": "k.device_id",
}
"""SQL of the fields that are not columns of a record."""
_AT_A_TIME, _PAUSE_S = 250, 0.001
"""Rows that are made into objects before other threads get a turn: about a millisecond's work."""


def read_measurements(db: Database, after: int = 0) -> list[Measurement]:
    """Every record whose id is above ``after``, newest first, deleted ones too."""
    columns = (_OTHER_COLUMNS.get(f.name, f"r.{f.name}") for f in fields(Measurement))
    cursor = db.execute(
        f"SELECT {', '.join(columns)} FROM records AS r "
        "JOIN kernel_keys AS k ON k.id = r.key_id WHERE r.id > ? ORDER BY r.id DESC",
        [after],
    )
    found: list[Measurement] = []
    while rows := cursor.fetchmany(_AT_A_TIME):
        found += [Measurement(*row) for row in rows]
        # The interpreter's lock goes to whoever draws: it would wait for all of it.
        time.sleep(_PAUSE_S)
    return found


@dataclass(frozen=True)
class Group:
    """Measurements that share a value, with the fastest one; None where none was timed."""

    name: str
    records: int
    workloads: int
    best: Measurement | None

    @property
    def workload(self) -> str:
        """Of the best one."""
        return self.best.workload if self.best else ""

    @property
    def settings(self) -> str:
        """Of the best one."""
        return self.best.settings if self.best else ""


@dataclass(frozen=True)
class Pair:
    """The fastest kernels of one workload in two places; ``ratio`` > 1: the second is faster."""

    workload: str
    first: Measurement
    second: Measurement

    @property
    def settings(self) -> str:
        """Of the second place."""
        return self.second.settings

    @property
    def ratio(self) -> float:
        """Milliseconds of the first by those of the second."""
        assert self.first.median_ms is not None and self.second.median_ms is not None
        return self.first.median_ms / self.second.median_ms


def groups(rows: Iterable[Measurement], by: str) -> list[Group]:
    """Groups of equal values of a field, the largest first.

    The best of a workload is the one of least time; where a group holds several
    workloads, their times do not compare, so it is the one of the highest GFLOP/s.
    """
    members: dict[str, list[Measurement]] = {}
    for row in rows:
        members.setdefault(getattr(row, by), []).append(row)
    found = []
    for name, of_it in members.items():
        timed = [row for row in of_it if row.timed]
        workloads = len({row.workload for row in of_it})
        if workloads == 1:
            best = min(timed, key=lambda row: row.median_ms or math.inf, default=None)
        else:
            best = max(timed, key=lambda row: row.gflops or 0.0, default=None)
        found.append(Group(name, len(of_it), workloads, best))
    return sorted(found, key=lambda group: (-group.records, group.name))


def side_by_side(rows: Sequence[Measurement], by: str, first: str, second: str) -> list[Pair]:
    """The workloads that were timed in both places, where they differ most first.

    Parameters
    ----------
    by
        The field that ``first`` and ``second`` are values of: ``device`` or ``browser``.
    """
    best: dict[tuple[str, str], Measurement] = {}
    for row in rows:
        place = getattr(row, by)
        if place in (first, second) and row.timed:
            held = best.get((row.workload, place))
            if held is None or (row.median_ms or 0) < (held.median_ms or 0):
                best[row.workload, place] = row
    names = {workload for workload, _ in best}
    pairs = [
        Pair(name, best[name, first], best[name, second])
        for name in names
        if (name, first) in best and (name, second) in best
    ]
    return sorted(pairs, key=lambda pair: (-abs(math.log(pair.ratio)), pair.workload))


def mean_ratio(pairs: Sequence[Pair]) -> float | None:
    """Geometric mean of the ratios; None without pairs."""
    if not pairs:
        return None
    return math.exp(sum(math.log(pair.ratio) for pair in pairs) / len(pairs))
