"""The decision to replace the incumbent: a pure function of what was measured.

SciPy is imported where it is first used: ``scipy.special`` takes 0.3 s, and the window reads
:func:`gflops_of` from here before its first picture. The bootstrap is spelled out: its function in
``scipy.stats``, which gives the same ends, takes 1 s to import.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.records import RunResult
from nnjit_studio.records.outcomes import FASTER, NOT_TOLD_APART, SLOWER, WON, outcome_of

BOOTSTRAP_PAIRS = 8
"""From so many on the interval is a bootstrap's; fewer have too few resamples of their own."""
LEAST_NOISE = 0.005
"""Few pairs may agree by luck: their spread counts as at least this share."""
QUIET_SPREAD = 0.05
"""Spread of the logarithms of the pairs' ratios up to which a machine is quiet."""
BURST_PAIRS = 16
"""On a busy machine fewer pairs may all lie in one burst of what disturbs it."""
UNKNOWN = 7.0
"""Logarithm of the ends of an interval that says nothing: a thousandfold both ways."""
HOPELESS_CONFIDENCE = 0.9
"""Of the interval that gives a challenger up: 5 % on the side that matters."""


@dataclass(frozen=True)
class SwapPolicy:
    """Thresholds of design section 6."""

    min_gain: float = 0.03
    """Smallest speed-up worth a swap, as a share."""
    confidence: float = 0.95
    """Of the interval around the speed-up, which must exclude 1, over all looks together."""
    peak_margin: float = 1.1
    """A rate above this multiple of the probed peak is impossible."""
    looks: tuple[int, ...] = (2, 4, 8, 16, 32)
    """Pairs of samples after which a duel may be settled."""
    resamples: int = 2000
    """Of the bootstrap."""
    seed: int = 20261120
    """Of the bootstrap: equal samples give equal verdicts."""

    @property
    def min_pairs(self) -> int:
        """Fewer pairs of samples prove nothing."""
        return self.looks[0]

    @property
    def look_confidence(self) -> float:
        """Confidence of the interval of one look.

        Who looks five times at samples that come in errs up to five times as
        often (P. Armitage, C. K. McPherson, B. C. Rowe, "Repeated Significance
        Tests on Accumulating Data", J. R. Stat. Soc. A 132(2), 1969). Each look
        spends an equal share of the error (Bonferroni): by the union bound all
        of them together spend no more than ``1 - confidence``.
        """
        return 1 - (1 - self.confidence) / len(self.looks)


@dataclass(frozen=True)
class Verdict:
    """``state`` is won, faster, slower, not told apart, wrong, impossible or failed.

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

    The interval is as wide as one look of several demands, also when it was the only one;
    that of a slower challenger, which changes nothing, is one of ``policy.confidence``.

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
    if min((*result.samples_ms, *result.incumbent_ms)) <= 0:
        return Verdict("failed", "a sample took no time by the page's clock")
    rate = gflops_of(flops, float(np.median(result.samples_ms)))
    if peak_gflops and rate > policy.peak_margin * peak_gflops:
        return Verdict("impossible", f"{rate:.1f} GFLOP/s on a device of {peak_gflops:.1f}")
    if not result.incumbent_ms:
        return Verdict("won", "right, and the first of its workload")
    return _compare(result, policy)


def import_scipy() -> None:
    """Load what intervals and the cost model need, ahead of the first one."""
    import scipy.linalg
    import scipy.special  # noqa: F401


def gflops_of(flops: int, ms: float) -> float:
    """10^9 operations a second; 0 when nothing was counted or timed."""
    return flops / ms / 1e6 if ms > 0 else 0.0


def hopeless(result: RunResult, policy: SwapPolicy | None = None) -> bool:
    """Whether more samples would be wasted: the gain is hardly above ``min_gain``.

    Either the interval says so, or after :data:`BOOTSTRAP_PAIRS` the challenger
    is not even ahead. Giving up installs nothing, so it needs no correction for
    several looks; a challenger that just reaches the gain is lost at 5 % of them.
    """
    policy = policy or SwapPolicy()
    if _pairs(result) < policy.min_pairs:
        return False
    speedup, _, high = speedup_interval(
        result.samples_ms, result.incumbent_ms, policy, HOPELESS_CONFIDENCE
    )
    behind = _pairs(result) >= BOOTSTRAP_PAIRS and speedup < 1
    return behind or high < 1 + policy.min_gain


def convincing(result: RunResult, verdict: Verdict) -> bool:
    """Whether a win may end a duel; if not, the verdict of a later look counts, or it is none.

    The interval takes pairs for independent, which they are not where another
    program disturbs the machine for longer than a sample. There, below
    :data:`BURST_PAIRS`, the interval has to keep from 1 as far as the pairs spread.
    """
    n = _pairs(result)
    if n >= BURST_PAIRS or n < 2:
        return True
    spread = float(np.std(_log_ratios(result.samples_ms, result.incumbent_ms), ddof=1))
    return spread <= QUIET_SPREAD or verdict.low > 1 + spread


def speedup_interval(
    challenger_ms: Sequence[float],
    incumbent_ms: Sequence[float],
    policy: SwapPolicy,
    confidence: float | None = None,
) -> tuple[float, float, float]:
    """Speed-up (ratio of medians) with the ends of its confidence interval.

    Over pairs, so that a drift of the machine, which meets both halves of a
    pair, cancels. Below :data:`BOOTSTRAP_PAIRS` Student's interval of the mean
    logarithm of the pairs' ratios. From there on a percentile bootstrap of the
    medians. Percentile intervals are too narrow for few samples; the quantiles
    are moved out as for Student's t (the expanded percentile interval:
    T. Hesterberg, "What Teachers Should Know about the Bootstrap", The American
    Statistician 69(4), 2015, section 5.3).

    Parameters
    ----------
    challenger_ms, incumbent_ms
        At least two of each; entry i of both is one pair.
    confidence
        The policy's when None, for samples that are looked at once.
    """
    n = min(len(challenger_ms), len(incumbent_ms))
    challenger, incumbent = np.array(challenger_ms[:n]), np.array(incumbent_ms[:n])
    speedup = float(_median_ratio(challenger, incumbent))
    tail = (1 - (confidence or policy.confidence)) / 2
    quantile = _student_quantile(1 - tail, n - 1)
    if n < BOOTSTRAP_PAIRS:
        logs = _log_ratios(challenger_ms, incumbent_ms)
        half = quantile * max(float(np.std(logs, ddof=1)), LEAST_NOISE) / math.sqrt(n)
        middle = float(np.mean(logs))
        return (
            speedup,
            math.exp(max(middle - half, -UNKNOWN)),
            math.exp(min(middle + half, UNKNOWN)),
        )
    from scipy.special import ndtr

    drawn = np.random.default_rng(policy.seed).integers(0, n, (policy.resamples, n))
    outside = float(ndtr(-math.sqrt(n / (n - 1)) * quantile))
    low, high = np.quantile(
        _median_ratio(challenger[drawn], incumbent[drawn]), (outside, 1 - outside)
    )
    return speedup, float(low), float(high)


def _median_ratio(challenger: NDArray[Any], incumbent: NDArray[Any]) -> Any:
    return np.median(incumbent, axis=-1) / np.median(challenger, axis=-1)


def _log_ratios(challenger_ms: Sequence[float], incumbent_ms: Sequence[float]) -> NDArray[Any]:
    n = min(len(challenger_ms), len(incumbent_ms))
    ratios: NDArray[Any] = np.log(np.array(incumbent_ms[:n]) / np.array(challenger_ms[:n]))
    return ratios


def _pairs(result: RunResult) -> int:
    return min(len(result.samples_ms), len(result.incumbent_ms))


def _compare(result: RunResult, policy: SwapPolicy) -> Verdict:
    n = _pairs(result)
    if result.stopped_early or n < policy.min_pairs:
        speedup = float(np.median(result.incumbent_ms) / np.median(result.samples_ms))
        if result.stopped_early:
            return Verdict(SLOWER, f"stopped early at {speedup:.2f}x", speedup)
        return Verdict(NOT_TOLD_APART, f"only {n} pairs of samples", speedup)
    confidence = policy.look_confidence
    speedup, low, high = speedup_interval(
        result.samples_ms, result.incumbent_ms, policy, confidence
    )
    outcome = outcome_of(low, high)
    if outcome == NOT_TOLD_APART:
        # Given up by its first look as a rule, so that is what its interval is of.
        _, least, most = speedup_interval(result.samples_ms, result.incumbent_ms, policy)
        if outcome_of(least, most) == SLOWER:
            outcome, confidence, low, high = SLOWER, policy.confidence, least, most
    text = f"{speedup:.3f}x, {confidence:.0%} interval {low:.3f}..{high:.3f} of {n} pairs"
    if outcome == NOT_TOLD_APART:
        text = f"{text} does not exclude 1"
    elif outcome == FASTER and speedup < 1 + policy.min_gain:
        text = f"{text}, gain below {policy.min_gain:.0%}"
    elif outcome == FASTER:
        outcome = WON
    return Verdict(outcome, text, speedup, low, high)


@cache
def _student_quantile(p: float, df: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(df, p))
