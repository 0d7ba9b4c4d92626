"""Break points of measured curves: the rules that turn samples into a device's limits.

They are pure functions of what was measured, so that a stored profile can be
read again when a rule becomes better.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

REGISTER_FILES = (8, 16, 32)
"""128-bit vector registers of instruction sets: x86 (32 bits), x86-64, ARM64 and AVX-512."""
LEAST_DROP = 0.05
"""A rate that falls by less than this share has not broken."""
MIN_SIDE = 4
"""Points that each side of a break needs."""
LEVEL_RISE = 1.8
"""A working set has left a cache when a hop takes this many times that cache's latency.

The next level takes about three times as long on every processor that we know;
at this ratio about half of the hops miss.
"""
LEVEL_STEP = 1.15
"""Between two levels each larger working set takes at least this much longer."""
LEVEL_POINTS = 4
"""Points whose least latency is that of a level."""


def break_point(rates: Sequence[float]) -> int | None:
    """Index of the last point before a curve that rises or stays begins to fall for good.

    Of all splits the one with the least squared error, when the points before
    it are fitted by a curve that never falls (isotonic regression) and those
    behind it by a straight line. None when nothing falls by
    :data:`LEAST_DROP`.
    """
    values = np.asarray(rates, np.float64)
    if len(values) < 2 * MIN_SIDE or not np.all(values > 0):
        return None
    values = values / values.max()
    splits = range(MIN_SIDE, len(values) - MIN_SIDE + 1)
    best = min(splits, key=lambda s: _rising_error(values[:s]) + _line(values[s:])[0])
    before = float(_rising(values[:best])[-1])
    after = values[best:]
    if _line(after)[1] > before * (1 - LEAST_DROP) or float(np.median(after)) >= before:
        return None
    return best - 1


def register_file(usable: int) -> int:
    """The register file that an engine has when it can use so many: the nearest by ratio.

    An engine keeps one or two for itself, and a spill or two may hide behind
    other work; files are a factor of two apart.
    """
    return min(REGISTER_FILES, key=lambda size: abs(np.log(size / (usable + 1))))


def cache_levels(sizes_bytes: Sequence[int], latency_ns: Sequence[float]) -> list[int]:
    """Capacities in bytes of the first two caches, the ones that could be told.

    Along the working sets, smallest first: a level's latency is the least of
    its first :data:`LEVEL_POINTS` points; the level ends at the last working
    set before two in a row take :data:`LEVEL_RISE` times as long.
    """
    found: list[int] = []
    at = 0
    while len(found) < 2 and at < len(sizes_bytes):
        level = min(latency_ns[at : at + LEVEL_POINTS]) * LEVEL_RISE
        end = at
        while end < len(sizes_bytes) and min(latency_ns[end : end + 2]) <= level:
            end += 1
        if end == len(sizes_bytes) or end == at:
            break  # the next level is not in sight
        found.append(sizes_bytes[end - 1])
        at = end
        while at + 1 < len(sizes_bytes) and latency_ns[at + 1] > LEVEL_STEP * latency_ns[at]:
            at += 1  # between the levels: part of the hops still hit
    return found


def _rising(values: np.ndarray) -> np.ndarray:
    """Closest never-falling curve in least squares (pool adjacent violators)."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        mean, size = float(value), 1
        while blocks and blocks[-1][0] > mean:
            other, other_size = blocks.pop()
            mean = (mean * size + other * other_size) / (size + other_size)
            size += other_size
        blocks.append((mean, size))
    return np.concatenate([np.full(size, mean) for mean, size in blocks])


def _rising_error(values: np.ndarray) -> float:
    return float(np.sum((values - _rising(values)) ** 2))


def _line(values: np.ndarray) -> tuple[float, float]:
    """Squared error of the best straight line, and where it begins."""
    x = np.arange(len(values))
    slope, start = np.polyfit(x, values, 1)
    return float(np.sum((values - (slope * x + start)) ** 2)), float(start)
