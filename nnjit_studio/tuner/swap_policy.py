"""When a challenger replaces the incumbent: a pure function of what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from nnjit_studio.space.records import RunResult


@dataclass(frozen=True)
class SwapPolicy:
    """Thresholds of design section 6.

    Attributes
    ----------
    min_gain
        Smallest speed-up worth a swap, as a share.
    confidence
        Of the interval around the speed-up, which must exclude 1.
    peak_margin
        A rate above this multiple of the probed peak is impossible.
    min_pairs
        Fewer pairs of samples prove nothing.
    resamples, seed
        Of the bootstrap; equal samples give equal verdicts.
    """

    min_gain: float = 0.03
    confidence: float = 0.95
    peak_margin: float = 1.1
    min_pairs: int = 3
    resamples: int = 2000
    seed: int = 20261120


@dataclass(frozen=True)
class Verdict:
    """``state`` is won, slower, wrong, impossible or failed.

    ``speedup`` is incumbent's median over challenger's, above 1 when the
    challenger is faster; ``low`` and ``high`` bound it. All 0 when there was
    nothing to compare with.
    """

    state: str
    reason: str
    speedup: float = 0.0
    low: float = 0.0
    high: float = 0.0


def decide(
    result: RunResult,
    flops: int,
    peak_gflops: float | None,
    policy: SwapPolicy | None = None,
) -> Verdict:
    """Judge a challenger, gate after gate; the first that it fails names its state.

    Parameters
    ----------
    result
        Interleaved samples (ABBA: entry i of both lists is one pair) and the
        comparison with the float64 reference. Without an incumbent's samples
        speed is not judged.
    flops
        Of one run; 0 where they are not counted, then no rate is impossible.
    peak_gflops
        Probed peak of the threads that ran, or None when it is not known.
    """
    policy = policy or SwapPolicy()
    if result.error:
        return Verdict("failed", result.error)
    if not result.error_ratio <= 1:  # NaN is wrong too
        return Verdict("wrong", f"{result.error_ratio:.3g} x the accepted error")
    if not result.guard_ok:
        return Verdict("wrong", "wrote outside its outputs")
    if not result.samples_ms:
        return Verdict("failed", "the page took no sample")
    rate = gflops_of(flops, float(np.median(result.samples_ms)))
    if peak_gflops and rate > policy.peak_margin * peak_gflops:
        return Verdict("impossible", f"{rate:.1f} GFLOP/s on a device of {peak_gflops:.1f}")
    if not result.incumbent_ms:
        return Verdict("won", "right, and the first of its workload")
    return _compare(result, policy)


def gflops_of(flops: int, ms: float) -> float:
    """10^9 operations a second; 0 when nothing was counted or timed."""
    return flops / ms / 1e6 if ms > 0 else 0.0


def speedup_interval(
    challenger_ms: Sequence[float], incumbent_ms: Sequence[float], policy: SwapPolicy
) -> tuple[float, float, float]:
    """Speed-up (ratio of medians) with the ends of its confidence interval.

    A percentile bootstrap over pairs, so that a drift of the machine, which
    meets both halves of a pair, cancels. Percentile intervals are too narrow
    for few samples; the quantiles are moved out as for Student's t (the
    expanded percentile interval: T. Hesterberg, "What Teachers Should Know
    about the Bootstrap", The American Statistician 69(4), 2015, section 5.3).
    """
    n = min(len(challenger_ms), len(incumbent_ms))
    challenger, incumbent = np.array(challenger_ms[:n]), np.array(incumbent_ms[:n])
    picks = np.random.default_rng(policy.seed).integers(0, n, (policy.resamples, n))
    ratios = np.median(incumbent[picks], axis=1) / np.median(challenger[picks], axis=1)
    tail = _expanded_tail((1 - policy.confidence) / 2, n)
    low, high = np.quantile(ratios, (tail, 1 - tail))
    return float(np.median(incumbent) / np.median(challenger)), float(low), float(high)


def _compare(result: RunResult, policy: SwapPolicy) -> Verdict:
    n = min(len(result.samples_ms), len(result.incumbent_ms))
    if result.stopped_early or n < policy.min_pairs:
        speedup = float(np.median(result.incumbent_ms) / np.median(result.samples_ms))
        why = "stopped early" if result.stopped_early else f"only {n} pairs of samples"
        return Verdict("slower", f"{why} at {speedup:.2f}x", speedup)
    speedup, low, high = speedup_interval(result.samples_ms, result.incumbent_ms, policy)
    text = f"{speedup:.3f}x, {policy.confidence:.0%} interval {low:.3f}..{high:.3f}"
    if low <= 1:
        return Verdict("slower", f"{text} does not exclude 1", speedup, low, high)
    if speedup < 1 + policy.min_gain:
        return Verdict("slower", f"{text}, gain below {policy.min_gain:.0%}", speedup, low, high)
    return Verdict("won", text, speedup, low, high)


def _expanded_tail(tail: float, n: int) -> float:
    """Tail probability that gives a percentile interval the width of Student's t.

    The t quantile is the Cornish-Fisher expansion around the normal one
    (Abramowitz and Stegun 26.7.5).
    """
    z, df = NormalDist().inv_cdf(1 - tail), n - 1
    t = z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2)
    return NormalDist().cdf(-math.sqrt(n / df) * t)
