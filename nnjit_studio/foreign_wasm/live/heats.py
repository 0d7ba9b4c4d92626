"""Which of several kernels is fastest inside the model: all in turns, and the slower half goes.

A duel asks whether a challenger is proven faster than what serves. A swap costs nothing, so the
question here is another: which kernel serves best when the time is over? Successive halving
(Z. Karnin, T. Koren, O. Somekh, "Almost Optimal Exploration in Multi-Armed Bandits", ICML 2013)
gives each heat an equal share of the time, so that those which are hard to tell apart get most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from nnjit_studio.records import Kernel, RunResult
from nnjit_studio.records.outcomes import FASTER, WON
from nnjit_studio.tuner.swap_policy import SwapPolicy, Verdict, convincing, decide, speedup_interval

LEAST_ROUNDS, MOST_ROUNDS = 2, 32
LEAST_GAIN = 0.005
"""A kernel that can gain less over the first of its heat is not looked at again."""
CONFIDENCE = 0.9
"""Of the interval that says so: 5 % on the side that matters."""
VERDICT = SwapPolicy(min_gain=0.01)

Race = Callable[[Sequence[Kernel], int], list[list[float]]]
"""So many rounds of the kernels in turns; ms of each kernel's samples."""


@dataclass
class Heats:
    """Kernels in turns with the originals, which take part in every round.

    Attributes
    ----------
    left_ms
        What is left of the time.
    sample_ms
        What a sample of one kernel is expected to take before it has any.
    settle
        Samples of each kernel ahead of a heat that do not count.
    samples
        Ms of each kernel's samples; entry i of all is of the same round.
    running
        Kernels that are left, afterwards the fastest first.
    """

    race: Race
    running: list[Kernel]
    plain: Kernel
    left_ms: Callable[[], float]
    sample_ms: float
    settle: int
    samples: dict[Kernel, list[float]] = field(default_factory=dict)

    def run(self) -> Iterator[tuple[Kernel, ...]]:
        """Yields the kernels of each heat after it; there is one, however little time is left."""
        while len(self.running) > 1 and self._least_ms(self.running) > self.left_ms():
            self.running.pop()
        going = True
        while going:
            met = [*self.running, self.plain]
            for kernel, ms in zip(met, self.race(met, self._rounds()), strict=True):
                self.samples.setdefault(kernel, []).extend(ms)
            count, self.running = len(self.running), self.ranked(self.running)
            yield tuple(self.running)
            kept = [k for k in self.running[: -(-count // 2)] if self._may_be_first(k)]
            going = count > 2 and len(kept) > 1 and self._least_ms(kept) <= self.left_ms()
            self.running = kept if going else self.running

    def ranked(self, kernels: Sequence[Kernel]) -> list[Kernel]:
        """Fastest first, by the median over rounds of a time as a share of its round's median."""
        ms = np.array([self.samples[k] for k in kernels])
        shares = np.median(ms / np.median(ms, axis=0), axis=1)
        return [kernels[i] for i in np.argsort(shares, kind="stable")]

    def verdict(self, kernel: Kernel, incumbent: Kernel, flops: int) -> Verdict:
        """Of a kernel over another, on the rounds of both; only the originals are beaten."""
        samples = tuple(self.samples[kernel])
        others = tuple(self.samples[incumbent][: len(samples)])
        named = kernel.workload, kernel.settings, kernel.tier
        result = RunResult(*named, samples, others, error_ratio=0.0, guard_ok=True)
        found = decide(result, flops, None, VERDICT)
        if found.state == WON and not (incumbent is self.plain and convincing(result, found)):
            return replace(found, state=FASTER)
        return found

    def _may_be_first(self, kernel: Kernel) -> bool:
        first = self.running[0]
        pairs = self.samples[kernel], self.samples[first]
        return kernel is first or (
            speedup_interval(*pairs, VERDICT, CONFIDENCE)[2] >= 1 + LEAST_GAIN
        )

    def _rounds(self) -> int:
        heats = max(1, math.ceil(math.log2(len(self.running))))
        fitting = self.left_ms() / heats / self._round_ms(self.running) - self.settle
        return max(LEAST_ROUNDS, min(MOST_ROUNDS, int(fitting)))

    def _least_ms(self, kernels: Sequence[Kernel]) -> float:
        """Of the heats from here on with as few rounds as can be."""
        ms = (LEAST_ROUNDS + self.settle) * self._round_ms(kernels)
        half = kernels[: -(-len(kernels) // 2)]
        return ms + (self._least_ms(half) if len(kernels) > 2 else 0.0)

    def _round_ms(self, kernels: Sequence[Kernel]) -> float:
        return sum(
            float(np.median(self.samples.get(k, self.sample_ms))) for k in (*kernels, self.plain)
        )
