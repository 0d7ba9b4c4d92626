"""The model with its first and its tuned kernels, in turns: the only source of a model's gain."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.records import Kernel
from nnjit_studio.records.estimate import Ratio
from nnjit_studio.records.gain import NOT_COMPARED, TOO_BUSY, ModelGain
from nnjit_studio.tuner.protocols import Runner
from nnjit_studio.tuner.whole.machine import Machine, forbids_ratio

SAMPLE_MS = 3.0
"""A sample of a shorter model is the median of as many runs as take so long."""
MOST_RUNS = 40
"""In one sample: a model that takes no time by the page's clock ends too."""


class ModelPairs:
    """Pairs of samples of the model, valid as long as its kernels stay the same.

    Attributes
    ----------
    first_ms, tuned_ms
        Entry i of both is one pair.
    """

    def __init__(self, runner: Runner, feeds: Mapping[str, NDArray[Any]], machine: Machine) -> None:
        self._runner, self._feeds, self._machine = runner, feeds, machine
        self._kernels: tuple[tuple[str, str], ...] = ()
        self.first_ms: list[float] = []
        self.tuned_ms: list[float] = []

    def take(self, first: Sequence[Kernel], tuned: Sequence[Kernel], run_ms: float) -> None:
        """One more pair; the tuned kernels run again when this returns.

        Parameters
        ----------
        first, tuned
            Of the workloads whose kernel has changed, in the same order.
        run_ms
            About what a run takes.
        """
        kernels = _names(first, tuned)
        if kernels != self._kernels:
            self._kernels, self.first_ms, self.tuned_ms = kernels, [], []
        runs = min(MOST_RUNS, max(1, math.ceil(SAMPLE_MS / run_ms) if run_ms > 0 else MOST_RUNS))
        self._machine.pulse()
        try:
            if len(self.first_ms) % 2:  # ABBA: a steady drift cancels
                tuned_ms = self._sample(tuned, runs)
                first_ms = self._sample(first, runs)
            else:
                first_ms = self._sample(first, runs)
                tuned_ms = self._sample(tuned, runs)
        finally:
            self._runner.register(tuned)
        if first_ms > 0 and tuned_ms > 0:
            self.first_ms.append(first_ms)
            self.tuned_ms.append(tuned_ms)

    def count(self, first: Sequence[Kernel], tuned: Sequence[Kernel]) -> int:
        """How many pairs there are of these kernels."""
        return len(self.first_ms) if _names(first, tuned) == self._kernels else 0

    def gain(self) -> ModelGain:
        """What the pairs say, unless the machine forbids it."""
        if not self.first_ms:
            return ModelGain(NOT_COMPARED)
        level = self._machine.level
        if forbids_ratio(level):
            return ModelGain(TOO_BUSY, pairs=len(self.first_ms), machine=level)
        return ModelGain.of(Ratio.of(self.first_ms, self.tuned_ms), level)

    def _sample(self, kernels: Sequence[Kernel], runs: int) -> float:
        self._runner.register(kernels)
        self._runner.infer(self._feeds)
        return middle_ms(self._runner.infer(self._feeds, runs).runs_ms)


def middle_ms(runs_ms: Sequence[float]) -> float:
    """The median; the mean of runs most of which are shorter than the clock's tick."""
    return statistics.median(runs_ms) or statistics.fmean(runs_ms)


def _names(first: Sequence[Kernel], tuned: Sequence[Kernel]) -> tuple[tuple[str, str], ...]:
    return tuple((a.sha256, b.sha256) for a, b in zip(first, tuned, strict=True))
