"""The best settings of one size against the first guess at other sizes, in turns."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nnjit_studio.errors import CompileError
from nnjit_studio.model import Workload
from nnjit_studio.model.family import Family
from nnjit_studio.records import Kernel, KernelKey, MeasurePolicy
from nnjit_studio.records.candidate import DEFAULT_SETTINGS, Candidate
from nnjit_studio.records.outcomes import COMPARED
from nnjit_studio.records.size_tuning import UNMEASURED, AtSize, SizeTuning
from nnjit_studio.tuner.context import TuningContext
from nnjit_studio.tuner.evaluator import duel
from nnjit_studio.tuner.queue import References
from nnjit_studio.tuner.session_clock import SessionClock
from nnjit_studio.tuner.swap_policy import SwapPolicy

POLICY = MeasurePolicy(max_ms=2000.0)
"""Of one duel; what takes longer than that to be told apart gains little."""


@dataclass(frozen=True)
class Place:
    """A size at which settings are compared."""

    workload: Workload
    """What the kernel is there."""
    share: float
    """As of :class:`AtSize`."""
    guess: Candidate
    """The tile that the kernel for any size has there by its first guess,"""
    tiles: Mapping[str, Candidate]
    """and by settings."""


class Comparison:
    """Of one kernel; :meth:`run` measures size by size, :meth:`result` is what it found.

    Settings that are wrong at one size are left out at all of them. Nothing is begun once the
    clock's budget is over.
    """

    def __init__(
        self,
        family: Family,
        places: Sequence[Place],
        context: TuningContext,
        clock: SessionClock,
        references: References,
    ) -> None:
        self._family, self._places, self._context = family, places, context
        self._clock, self._references = clock, references
        self._tier = context.device.best_tier
        self._rows: list[AtSize] = []
        self._wrong: set[str] = set()

    def run(self) -> Iterator[tuple[Place, str]]:
        """Yields each size and the settings before they are measured there.

        Raises
        ------
        CompileError
            When a first guess does not compile.
        """
        for place in self._places:
            if not self._clock.stop():
                yield from self._at(place)

    @property
    def complete(self) -> bool:
        """Whether every size was measured before the time was over."""
        return len(self._rows) == len(self._places)

    def result(self, before: str) -> SizeTuning:
        """Of all sizes, ascending, when complete; ``before`` as of :class:`SizeTuning`."""
        context, last = self._context, self._places[-1]
        key = KernelKey.of(last.workload, context.device, self._tier, context.compiler.version)
        family = self._family
        rows = (
            replace(row, speedups={n: s for n, s in row.speedups.items() if n not in self._wrong})
            for row in self._rows
        )
        return SizeTuning(
            replace(key, dims=family.extents, fingerprint=family.fingerprint),
            family.key,
            str(last.guess),
            tuple(rows),
            context.clock.now_iso(),
            DEFAULT_SETTINGS if before in self._wrong else before,
        )

    def _at(self, place: Place) -> Iterator[tuple[Place, str]]:
        context, workload = self._context, place.workload
        guess = self._compiled(workload, place.guess)
        if isinstance(guess, str):
            raise CompileError(f"The first guess of {workload.name} does not compile: {guess}.")
        if not self._clock.wait(self._references.ahead(workload), math.inf):
            return
        context.runner.set_fixture(self._references.get(workload))
        alone = context.runner.measure(guess, None, replace(POLICY, pairs=SwapPolicy().min_pairs))
        if alone.error:
            raise CompileError(f"The first guess of {workload.name} does not run: {alone.error}.")
        samples_ms = list(alone.samples_ms)
        known, found = {guess.sha256: UNMEASURED}, dict[str, tuple[float, float, float]]()
        for settings, tile in place.tiles.items():
            if settings in self._wrong:
                continue
            if self._clock.stop():
                return
            yield place, settings
            kernel = self._compiled(workload, tile)
            if isinstance(kernel, str):
                continue  # it fits other sizes alone: nothing is known of it here
            if kernel.sha256 not in known:
                # Without a peak, which a busy machine probes too low: numbers are checked anyway.
                result, verdict = duel(
                    context.runner, kernel, guess, workload.flops, None, self._policy, SwapPolicy()
                )
                samples_ms += result.incumbent_ms
                if verdict.state not in COMPARED:
                    self._wrong.add(settings)
                    continue
                ends = (verdict.low, verdict.high) if verdict.high else (0.0, verdict.speedup)
                known[kernel.sha256] = (verdict.speedup, *ends)
            found[settings] = known[kernel.sha256]
        size, ms = workload.dims[self._family.axis], statistics.median(samples_ms)
        self._rows.append(AtSize(size, workload.key, place.share, ms, found))

    @property
    def _policy(self) -> MeasurePolicy:
        left_s = self._clock.left_s()
        return (
            POLICY if left_s is None else replace(POLICY, max_ms=min(POLICY.max_ms, 1e3 * left_s))
        )

    def _compiled(self, workload: Workload, tile: Candidate) -> Kernel | str:
        """A kernel, or why there is none."""
        made = self._context.compiler.compile(workload, tile, (self._tier,))
        return made.error or made.kernel(self._tier)
