"""The one estimator: medians and ratios with intervals that hold on a busy machine too."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from nnjit_studio.records.estimate import LEAST_PAIRS, Estimate, Ratio
from nnjit_studio.records.outcomes import FASTER, NOT_TOLD_APART, SLOWER, outcome_of, shown_outcome


def busy(rng: np.random.Generator, pairs: int) -> np.ndarray:
    """Times of a machine that takes every third sample's core away for a while."""
    return rng.lognormal(0, 0.05, pairs) + (rng.random(pairs) < 1 / 3) * rng.exponential(2, pairs)


@pytest.mark.parametrize("count", [12, 30, 200, 1500])
def test_the_interval_of_a_time_holds_the_median(count: int) -> None:
    rng = np.random.default_rng(count)
    outside = 0
    for _ in range(1000):
        found = Estimate.of(list(rng.lognormal(0, 0.5, count)))
        assert found.low <= found.ms <= found.high
        outside += not found.low <= 1 <= found.high
    assert outside <= 65  # 95 % of them hold it


@pytest.mark.parametrize("ratio", [1.0, 1.25])
@pytest.mark.parametrize("pairs", [LEAST_PAIRS, 24, 64])
def test_the_interval_of_a_ratio_holds_it_on_a_busy_machine(ratio: float, pairs: int) -> None:
    rng = np.random.default_rng(pairs)
    found = [Ratio.of(list(ratio * busy(rng, pairs)), list(busy(rng, pairs))) for _ in range(1000)]
    # Additive trouble bends a ratio that is not 1 a little; it must never be the interval's fault.
    assert sum(not r.low <= ratio <= r.high for r in found) <= 5
    assert all(r.low <= r.value <= r.high for r in found)


def test_few_pairs_tell_nothing_however_alike_they_are() -> None:
    few = Ratio.of([2.0] * (LEAST_PAIRS - 1), [1.0] * (LEAST_PAIRS - 1))
    assert (few.known, few.told_apart, few.outcome) == (False, False, NOT_TOLD_APART)
    assert few.to_json()["low"] is None
    enough = Ratio.of([2.0] * LEAST_PAIRS, [1.0] * LEAST_PAIRS)
    assert (enough.known, enough.told_apart, enough.outcome) == (True, True, FASTER)


def test_less_than_a_restart_moves_is_never_told() -> None:
    slight = Ratio.of([1.008] * 100, [1.0] * 100)
    assert slight.outcome == NOT_TOLD_APART and slight.low < 1 < slight.high


def test_outcomes() -> None:
    assert outcome_of(1.01, 1.2) == FASTER
    assert outcome_of(0.8, 0.99) == SLOWER
    assert outcome_of(0.36, 2.22) == NOT_TOLD_APART
    assert outcome_of(0.0, 0.0) == NOT_TOLD_APART
    assert outcome_of(0.0, math.inf) == NOT_TOLD_APART
    assert [shown_outcome(s) for s in ("won", "slower", "wrong")] == [FASTER, SLOWER, "wrong"]


def test_figures_that_the_page_must_find_too() -> None:
    rows = json.loads((Path(__file__).parent / "estimates.json").read_text("utf-8"))
    for row in rows:
        found = Estimate.of(row["samples_ms"])
        assert (found.ms, found.low, found.high) == (row["ms"], row["low"], row["high"])
