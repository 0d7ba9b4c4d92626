"""Rounds of the plan: another form of the model is made, checked, and compared with the one that
runs, in turns in one page; a winner takes its place."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from nnjit_studio.errors import NnjitError
from nnjit_studio.model.plan_choice import RULE, PlanChoice, spell
from nnjit_studio.records import DeviceProfile, KernelKey, MeasurePolicy, Trial
from nnjit_studio.records.outcomes import FASTER, NOT_TOLD_APART, WON
from nnjit_studio.tuner.evaluator import record_of
from nnjit_studio.tuner.events import (
    Compiled,
    Event,
    Measured,
    PlanSettled,
    RoundDone,
    SpaceBuilt,
    Swapped,
    Trying,
)
from nnjit_studio.tuner.in_place import LOOKS, InPlace, judge
from nnjit_studio.tuner.plan.space import PlanEntry, neighbours, ways_known
from nnjit_studio.tuner.protocols import Clock, Records
from nnjit_studio.tuner.search.stored_records import settled
from nnjit_studio.tuner.swap_policy import SwapPolicy, gflops_of

TOLERANCE = 1e-3
"""Largest difference of an output from that of the form that runs, relative to its largest
magnitude: that of ``nnjit diff``."""
PLAN_POLICY = MeasurePolicy(pairs=LOOKS[-1], min_sample_ms=5.0, warmup_ms=100.0, max_ms=6000.0)
"""``max_ms`` is of all pairs."""
KIND = "plan"
"""Of the keys under which plans are stored."""


class Forms(Protocol):
    """The open model in other forms than the one that runs."""

    @property
    def key(self) -> KernelKey: ...

    @property
    def name(self) -> str:
        """Of the model's plan, as records have it."""

    @property
    def flops(self) -> int:
        """Of one run, as the rules' form counts them."""

    @property
    def ways(self) -> dict[str, str]:
        """Of the form that runs."""

    @property
    def choices(self) -> Sequence[PlanChoice]:
        """Of the form that runs."""

    def make(self, ways: dict[str, str]) -> None:
        """Make a form and have it in the page, ready to run.

        Raises
        ------
        NnjitError
            When it cannot be made, or not be held.
        """

    def difference(self) -> float:
        """Of its outputs from those of the form that runs; infinite where one is not a number."""

    def trial(self, policy: MeasurePolicy) -> Trial:
        """The form that was made and the one that runs, in turns."""

    def adopt(self) -> None:
        """Run the form that was made from now on."""

    def drop(self) -> None:
        """Give the memory of the form that was made back."""


@dataclass(frozen=True)
class PlanOptions:
    """How long a plan is tuned, and what a winner has to gain.

    No round is begun that would end later, if it took as long as the longest one so far.
    """

    seconds: float | None = None
    first_s: float = 0.0
    """About what the first round takes at least: an import of the model."""
    thresholds: SwapPolicy = SwapPolicy()  # noqa: RUF009
    policy: MeasurePolicy = PLAN_POLICY
    tolerance: float = TOLERANCE


class PlanRounds:
    """Tunes the plan of one model; :meth:`run` may be consumed once."""

    def __init__(
        self,
        forms: Forms,
        records: Records,
        device: DeviceProfile,
        clock: Clock,
        options: PlanOptions | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._forms, self._records, self._device, self._clock = forms, records, device, clock
        self._options, self._cancelled = options or PlanOptions(), cancelled
        self._began_s = clock.monotonic_s()
        self._done: set[str] = set()
        self._gain, self._rounds, self._best_ms = 1.0, 0, 0.0
        self._longest_s = self._options.first_s

    def run(self) -> Iterator[Event]:
        """Every plan one choice away from the one that runs, until none of them is better."""
        known = settled(self._records.records(self._forms.key), self._device.user_agent)
        self._done = {r.settings for r in known} | {spell(self._forms.ways)}
        if any(r.state == WON for r in known):
            self._done.add(RULE)  # the first winner beat it
        before = len(known)
        reason = "converged"
        while entries := self._pending():
            yield self._space(entries, before)
            for entry in entries:
                if self._cancelled() or self._over():
                    reason = "cancelled" if self._cancelled() else "time"
                    break
                began_s = self._t_s()
                won = yield from self._round(entry)
                self._longest_s = max(self._longest_s, self._t_s() - began_s)
                if won:
                    break  # others are one choice away now
            if reason != "converged":
                break
        forms = self._forms
        yield PlanSettled(
            self._t_s(), forms.name, spell(forms.ways), reason, self._rounds, len(self._done),
            ways_known(forms.choices), self._gain,
        )  # fmt: skip

    def _t_s(self) -> float:
        return self._clock.monotonic_s() - self._began_s

    def _over(self) -> bool:
        seconds = self._options.seconds
        return seconds is not None and self._t_s() + self._longest_s >= seconds

    def _pending(self) -> list[PlanEntry]:
        return [e for e in neighbours(self._forms.choices) if e.settings not in self._done]

    def _space(self, entries: Sequence[PlanEntry], known: int) -> SpaceBuilt:
        names = tuple(e.settings for e in entries)
        reasons = tuple(e.reason for e in entries)
        naive = ways_known(self._forms.choices)
        return SpaceBuilt(self._t_s(), self._forms.name, names, reasons, naive, known)

    def _round(self, entry: PlanEntry) -> Generator[Event, None, bool]:
        """Make, check and compare one plan; whether it runs now."""
        forms, settings = self._forms, entry.settings
        self._done.add(settings)
        self._rounds += 1
        yield Trying(self._t_s(), forms.name, settings, "compile")
        began_s = self._clock.monotonic_s()
        measured = Measured(0.0, forms.name, settings, "failed", "", 0.0, 0.0)
        try:
            forms.make(entry.ways)
            made_ms = 1e3 * (self._clock.monotonic_s() - began_s)
            yield Compiled(self._t_s(), forms.name, settings, made_ms, 0)
            yield Trying(self._t_s(), forms.name, settings, "check", LOOKS[0])
            measured = yield from self._judged(measured)
            if measured.state == WON:
                forms.adopt()
            else:
                forms.drop()
        except NnjitError as error:
            measured = replace(measured, state="failed", reason=str(error))
        measured = replace(measured, t_s=self._t_s())
        now = self._clock.now_iso()
        self._records.commit_record(record_of(measured, None, forms.key, self._device, now))
        yield measured
        won = measured.state == WON
        if won:
            self._gain *= measured.speedup
            before = gflops_of(forms.flops, statistics.median(measured.incumbent_ms))
            yield Swapped(self._t_s(), forms.name, settings, before, measured.gflops)
        yield self._round_done(measured)
        return won

    def _judged(self, measured: Measured) -> Generator[Event, None, Measured]:
        """The verdict on the form that was made: right first, then faster."""
        difference = self._forms.difference()
        worst = difference / self._options.tolerance
        if not worst <= 1:  # NaN is wrong too
            return replace(measured, state="wrong", reason=f"{worst:.3g} x the accepted difference")
        trial, place = yield from self._looks(measured)
        if not trial.ms:
            return replace(measured, state="failed", reason=place.error)
        gain = self._options.thresholds.min_gain
        enough = place.outcome == FASTER and place.speedup >= 1 + gain
        ms = statistics.median(trial.ms)
        ends = f"{place.low:.3f}..{place.high:.3f}"
        return replace(
            measured,
            state=WON if enough else place.outcome,
            reason=f"{place.outcome}, {place.speedup:.3f}x, interval {ends} of {place.pairs} pairs",
            gflops=gflops_of(self._forms.flops, ms),
            ms=ms,
            samples_ms=trial.ms,
            incumbent_ms=trial.without_ms,
            speedup=place.speedup,
            speedup_low=place.low,
            speedup_high=place.high,
            error_ratio=worst,
            in_place=place,
        )

    def _looks(self, measured: Measured) -> Generator[Event, None, tuple[Trial, InPlace]]:
        policy, thresholds = self._options.policy, self._options.thresholds
        confidence = 1 - (1 - thresholds.confidence) / len(LOOKS)
        taken, place = Trial(), InPlace(NOT_TOLD_APART)
        for pairs in LOOKS:
            yield Trying(self._t_s(), measured.workload, measured.candidate, "duel", pairs)
            more = pairs - len(taken.ms)
            max_ms = policy.max_ms * more / LOOKS[-1]
            if self._options.seconds is not None:
                max_ms = min(max_ms, max(1.0, 1e3 * (self._options.seconds - self._t_s())))
            part = replace(policy, pairs=more, max_ms=max_ms)
            new = self._forms.trial(part)
            ms, without_ms = taken.ms + new.ms, taken.without_ms + new.without_ms
            taken = replace(new, ms=ms, without_ms=without_ms, runs_ms=(), runs_without_ms=())
            place = judge(taken, thresholds, confidence)
            hopeless = 0 < place.high < 1 + thresholds.min_gain
            if place.outcome != NOT_TOLD_APART or place.error or hopeless:
                break
        return taken, place

    def _round_done(self, measured: Measured) -> RoundDone:
        self._best_ms = measured.ms if measured.state == WON else self._best_ms
        best_ms = self._best_ms or statistics.median(measured.incumbent_ms or (0.0,))
        forms = self._forms
        return RoundDone(
            self._t_s(), forms.name, self._rounds, measured.candidate, measured.gflops,
            gflops_of(forms.flops, best_ms), spell(forms.ways), len(self._pending()), best_ms,
        )  # fmt: skip
