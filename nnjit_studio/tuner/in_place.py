"""Kernels judged inside the running model: do the winners of a duel hold there?

A duel runs a kernel again and again on its own data, which stays in the caches and to which the
branch predictors get used. In the model it runs once, behind other steps. What holds there counts.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from numpy.typing import NDArray

from nnjit_studio.records import Kernel, MeasurePolicy, Trial
from nnjit_studio.records.outcomes import FASTER, NOT_TOLD_APART, SLOWER, outcome_of
from nnjit_studio.tuner.swap_policy import SwapPolicy, Verdict, speedup_interval

LOOKS = (4, 8, 16)
"""Pairs of samples after which a trial may be settled."""
TRIAL_POLICY = MeasurePolicy(pairs=LOOKS[-1], min_sample_ms=2.0, warmup_ms=15.0, max_ms=1500.0)
"""``max_ms`` is of all pairs."""


@dataclass(frozen=True)
class InPlace:
    """What became of kernels in the running model.

    The speed-up is that of the steps whose kernels differ, with the ends of its interval;
    ``run_speedup`` that of the whole model, 0 where it did not run as a whole.
    """

    outcome: str
    """``faster``, ``slower`` or ``not told apart``: see :mod:`nnjit_studio.records.outcomes`."""
    mode: str = ""
    """As in :class:`~nnjit_studio.records.Trial`."""
    pairs: int = 0
    speedup: float = 0.0
    low: float = 0.0
    high: float = 0.0
    run_speedup: float = 0.0
    run_low: float = 0.0
    run_high: float = 0.0
    error: str = ""

    def __str__(self) -> str:
        if self.error:
            return f"in place: {self.error}"
        ends = f"{self.low:.3f}..{self.high:.3f}"
        return f"in place {self.outcome}, {self.speedup:.3f}x ({ends}, {self.pairs} pairs)"


class Tries(Protocol):
    """What runs a model with other kernels and without them, in turns."""

    def trial(
        self,
        feeds: Mapping[str, NDArray[Any]],
        kernels: Sequence[Kernel],
        policy: MeasurePolicy,
    ) -> Trial: ...


def judge(trial: Trial, policy: SwapPolicy | None = None, confidence: float = 0.95) -> InPlace:
    """The outcome of a trial: that of the steps, unless the whole model tells the opposite.

    A kernel may be faster itself and yet leave the caches such that what follows is slower.
    """
    policy = policy or SwapPolicy()
    n = len(trial.ms)
    if trial.error or n < policy.min_pairs or min((*trial.ms, *trial.without_ms)) <= 0:
        error = trial.error or "too short for the clock of the page"
        return InPlace(NOT_TOLD_APART, trial.mode, n, error=error)
    found = speedup_interval(trial.ms, trial.without_ms, policy, confidence)
    whole = (0.0, 0.0, 0.0)
    if trial.runs_ms:
        whole = speedup_interval(trial.runs_ms, trial.runs_without_ms, policy, confidence)
    outcome = outcome_of(*found[1:])
    if outcome == FASTER and 0 < whole[2] < 1:
        outcome = SLOWER
    return InPlace(outcome, trial.mode, n, *found, *whole)


def try_in_place(
    runner: Tries,
    feeds: Mapping[str, NDArray[Any]],
    kernels: Sequence[Kernel],
    policy: MeasurePolicy = TRIAL_POLICY,
    thresholds: SwapPolicy | None = None,
    looks: Sequence[int] = LOOKS,
) -> Generator[int, None, InPlace]:
    """Try kernels in the model until it is told how they do there, or the looks are over.

    Yields, before each look, how many pairs there will be after it. Each look has an equal
    share of the error (Bonferroni).
    """
    thresholds = thresholds or SwapPolicy()
    confidence = 1 - (1 - thresholds.confidence) / len(looks)
    taken = Trial()
    verdict = InPlace(NOT_TOLD_APART)
    for pairs in looks:
        yield pairs
        more = pairs - len(taken.ms)
        max_ms = policy.max_ms * more / looks[-1]
        taken = joined(
            taken, runner.trial(feeds, kernels, replace(policy, pairs=more, max_ms=max_ms))
        )
        verdict = judge(taken, thresholds, confidence)
        if verdict.outcome != NOT_TOLD_APART or verdict.error:
            break
    return verdict


@dataclass(frozen=True)
class Trials:
    """Trials in a loaded model, on its inputs."""

    runner: Tries
    feeds: Mapping[str, NDArray[Any]]

    def of(
        self, kernel: Kernel, max_ms: float, thresholds: SwapPolicy
    ) -> Generator[int, None, InPlace]:
        """See :func:`try_in_place`; ``max_ms`` is of all pairs."""
        policy = replace(TRIAL_POLICY, max_ms=min(max_ms, TRIAL_POLICY.max_ms))
        return try_in_place(self.runner, self.feeds, [kernel], policy, thresholds)


def settled_in_place(verdict: Verdict, place: InPlace) -> Verdict:
    """The verdict on the winner of a duel: where it does not hold, that of the trial."""
    reason = f"{place}; in its duel: {verdict.reason}"
    if place.outcome == FASTER:
        return replace(verdict, reason=reason)
    ends = place.speedup, place.low, place.high
    return Verdict(place.outcome, reason, *ends)


def joined(before: Trial, more: Trial) -> Trial:
    """Both; only what ran the same way can be joined."""
    if more.error or before.mode not in ("", more.mode):
        return more
    return replace(
        more,
        ms=before.ms + more.ms,
        without_ms=before.without_ms + more.without_ms,
        runs_ms=before.runs_ms + more.runs_ms,
        runs_without_ms=before.runs_without_ms + more.runs_without_ms,
    )
