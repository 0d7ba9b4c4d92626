"""The rules that turn measured curves into limits, on curves whose limits are known."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnjit_studio.device.curves import break_point, cache_levels, register_file

ACCUMULATORS = range(4, 41)
SIZES = [size for p in range(12, 25) for size in (1 << p, 3 << (p - 1)) if size <= 16 << 20] + [
    32 << 20
]
# Measured in the embedded view on an Intel Xeon (16 registers, 48 KiB and 2 MiB), which four
# other programs used at the same time; the best of seven and of three samples.
BUSY_XEON = [
    28.0, 32.9, 37.5, 41.7, 48.0, 48.6, 52.2, 48.3, 53.6, 36.8, 42.5, 41.7, 39.4, 33.2, 37.6, 37.9,
    36.2, 37.6, 41.9, 41.1, 41.5, 40.4, 39.7, 41.5, 40.4, 37.2, 33.9, 40.3, 38.0, 39.8, 37.6, 38.2,
    36.4, 39.6, 36.4, 35.7, 35.4,
]  # fmt: skip
BUSY_XEON_NS = [
    1.49, 1.49, 1.45, 1.53, 1.48, 1.46, 1.49, 1.45, 4.58, 4.70, 5.06, 4.83, 5.05, 4.78, 4.77,
    5.08, 4.94, 4.91, 25.4, 40.35, 32.74, 35.46, 41.34, 28.45, 28.94, 72.52,
]  # fmt: skip


def ladder(spill: int, saturated: int, drop: float, noise: float, seed: int) -> list[float]:
    """GFLOP/s of 4 to 40 accumulators: rising to ``saturated``, falling behind ``spill``."""
    rng = random.Random(seed)
    rates = []
    for n in ACCUMULATORS:
        rate = 100.0 * min(1.0, n / saturated) * (0.96 if n % 2 else 1.0)
        if n > spill:
            rate *= 1 - drop - 0.004 * (n - spill)
        rates.append(rate * (1 - noise * rng.random()))
    return rates


@given(st.sampled_from([(12, 8), (13, 10), (27, 16), (29, 8)]), st.floats(0.2, 0.5), st.integers(0))
def test_the_spill_point_is_found_under_noise(curve, drop, seed):
    spill, saturated = curve
    at = break_point(ladder(spill, saturated, drop, 0.06, seed))
    assert at is not None
    assert ACCUMULATORS[at] == spill


def test_the_spill_point_of_a_real_and_busy_machine():
    at = break_point(BUSY_XEON)
    assert at is not None and ACCUMULATORS[at] == 12
    assert register_file(12 + 3) == 16


@pytest.mark.parametrize(
    "rates",
    [
        [100.0] * 37,
        [float(n) for n in ACCUMULATORS],
        [100 - 3 * (n % 2) for n in ACCUMULATORS],
        [1.0, 2.0, 3.0],
        [0.0] * 37,
    ],
)
def test_where_nothing_breaks_there_is_no_point(rates):
    assert break_point(rates) is None


def test_a_register_file_is_the_nearest_power():
    usable = (6, 7, 13, 15, 18, 27, 30, 31)
    assert [register_file(n) for n in usable] == [8, 8, 16, 16, 16, 32, 32, 32]


def sweep(levels: list[tuple[int, float]], far_ns: float, noise: float, seed: int) -> list[float]:
    """ns of a hop: caches of (bytes, ns), and the share of hops that misses behind each."""
    rng = random.Random(seed)
    found = []
    for size in SIZES:
        ns = far_ns
        for capacity, level_ns in reversed(levels):
            hit = 1.0 if size <= capacity else max(0.0, 2 * capacity / size - 1)
            ns = hit * level_ns + (1 - hit) * ns
        found.append(ns * (1 + noise * rng.random()))
    return found


@given(
    st.sampled_from([(32 << 10, 512 << 10), (48 << 10, 2 << 20), (128 << 10, 12 << 20)]),
    st.integers(0),
)
def test_both_caches_are_found_to_the_step_of_the_sweep(caches, seed):
    l1, l2 = caches
    levels = cache_levels(SIZES, sweep([(l1, 1.3), (l2, 4.5)], 30.0, 0.1, seed))
    assert len(levels) == 2
    assert l1 <= levels[0] <= 1.5 * l1
    assert l2 <= levels[1] <= 1.5 * l2


def test_the_caches_of_a_real_and_busy_machine():
    assert cache_levels(SIZES, BUSY_XEON_NS) == [48 << 10, 1536 << 10]


def test_one_disturbed_point_ends_no_cache():
    latency = sweep([(48 << 10, 1.3), (2 << 20, 4.5)], 30.0, 0.0, 0)
    latency[3] *= 5
    latency[12] *= 5
    assert cache_levels(SIZES, latency) == [48 << 10, 2 << 20]


def test_a_flat_sweep_has_no_caches():
    assert cache_levels(SIZES, [2.0] * len(SIZES)) == []
    assert cache_levels(SIZES, sweep([(48 << 10, 1.3)], 4.0, 0.0, 0)) == [48 << 10]
