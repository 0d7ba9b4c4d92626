"""What settings of a kernel for any size are worth at several sizes, and which it takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from nnjit_studio.records.candidate import DEFAULT_SETTINGS, Candidate
from nnjit_studio.records.tuning import KernelKey

MIN_GAIN = 0.03
"""Share of a kernel's time that a further interval has to save, for it is code of its own."""
Table = tuple[tuple[int | None, str], ...]
"""Settings, ``default`` for the first guess, each up to a size; None is any larger one."""
UNMEASURED = (1.0, 1.0, 1.0)


@dataclass(frozen=True)
class AtSize:
    """Settings compared with the first guess, in turns, at one size."""

    size: int
    """Of the first extent that stays open."""
    workload: str
    """The key of the workload that the kernel is there."""
    share: float
    """Of all runs, how many have this size."""
    ms: float
    """One run of the first guess, the median."""
    speedups: Mapping[str, tuple[float, float, float]]
    """By settings, how many times as fast as the first guess, with the ends of the interval."""

    def of(self, settings: str) -> tuple[float, float, float]:
        """The speed-up with its interval; 1 for the first guess and for what is not known."""
        return self.speedups.get(settings, UNMEASURED)

    def credited(self, settings: str) -> float:
        """The speed-up, where it is a loss or proven: the first guess stays where nothing is."""
        speedup, low, _ = self.of(settings)
        return speedup if low > 1 else min(speedup, 1.0)


@dataclass(frozen=True)
class SizeTuning:
    """One kernel for any size on one device, as the database keeps it."""

    key: KernelKey
    """Its dims have a question mark in the place of an extent that stays open."""
    workload: str
    """As the key of a :class:`~nnjit_studio.model.family.Family`."""
    guess: str
    """Settings of the first guess at the largest size."""
    at: tuple[AtSize, ...]
    """Ascending by size."""
    created: str = field(default="", compare=False)
    """ISO 8601 in UTC."""
    before: str = DEFAULT_SETTINGS
    """What won at most of the sizes before: it stays where nothing else is proven."""

    @property
    def table(self) -> Table:
        """Settings by size: one where no other is proven to be faster in a part of the sizes.

        Panels of a weight have one width, so all have that of the one that is best for all sizes.
        """
        others = sorted({name for row in self.at for name in row.speedups})
        names = tuple(dict.fromkeys((self.before, DEFAULT_SETTINGS, *others)))
        chosen = _best(self._rows, names)
        panels = self._panels(chosen)
        alike = [name for name in names if self._panels(name) == panels]
        rows = list(_split(self._rows, chosen, alike))
        ends = [math.isqrt(a[-1].size * b[0].size) for (a, _), (b, _) in pairwise(rows)]
        return tuple(zip((*ends, None), (name for _, name in rows), strict=True))

    def ms(self, table: Table) -> float:
        """Of a run, at sizes as often as they come."""
        rows = self._rows
        whole = sum(_ms((row,), settings_of_size(table, row.size)) for row in rows)
        return whole / sum(row.share for row in rows)

    @property
    def _rows(self) -> tuple[AtSize, ...]:
        """With what won before as fast as the first guess where nothing tells them apart."""
        return tuple(
            row
            if row.of(self.before)[1] > 1 or row.of(self.before)[2] < 1
            else replace(row, speedups={**row.speedups, self.before: UNMEASURED})
            for row in self.at
        )

    def _panels(self, name: str) -> object:
        tile = Candidate.parse(self.guess if name == DEFAULT_SETTINGS else name)
        return tile.pack and tile.x0


@dataclass(frozen=True)
class KnownSettings:
    """What tuning found for kernels for any size."""

    winners: Mapping[str, Candidate] = field(default_factory=dict)
    """What won for workloads, at one size each, by their keys."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    """What was compared at several sizes, by the keys of families."""


def settings_of_size(table: Table, size: int) -> str:
    """What a table says for a size."""
    return next(settings for end, settings in table if end is None or size <= end)


def tile_of(settings: str) -> Candidate | None:
    """The tile that a table names; None is the first guess."""
    return None if settings == DEFAULT_SETTINGS else Candidate.parse(settings)


Part = tuple[Sequence[AtSize], str]


def _split(rows: Sequence[AtSize], chosen: str, names: Sequence[str]) -> Iterator[Part]:
    """The rows in intervals, each with its settings."""
    places = [i for i, (a, b) in enumerate(pairwise(rows), 1) if a.size < b.size]
    cuts = [(rows[:i], rows[i:]) for i in places]
    parts = [[(part, _best(part, names)) for part in cut] for cut in cuts]
    gains = [p for p in parts if any(_beats(part, name, chosen) for part, name in p)]
    best = min(gains, key=_total, default=None)
    if best is None or _total(best) > (1 - MIN_GAIN) * _ms(rows, chosen):
        yield rows, chosen
        return
    for part, name in best:
        yield from _split(part, name, names)


def _beats(rows: Sequence[AtSize], name: str, other: str) -> bool:
    """Whether settings are proven to be faster at one of the sizes."""
    return any(row.of(name)[1] > row.of(other)[2] for row in rows)


def _best(rows: Sequence[AtSize], names: Sequence[str]) -> str:
    """Of least time over all runs; the first of equal ones."""
    return min(names, key=lambda name: _ms(rows, name))


def _ms(rows: Sequence[AtSize], name: str) -> float:
    return sum(row.share * row.ms / row.credited(name) for row in rows)


def _total(parts: Sequence[Part]) -> float:
    return sum(_ms(rows, name) for rows, name in parts)
