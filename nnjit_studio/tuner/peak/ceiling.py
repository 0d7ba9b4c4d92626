"""What no kernel can be faster than: the clock's step, and the device's peak."""

from __future__ import annotations

import statistics
from dataclasses import replace

from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile, Kernel, MeasurePolicy, RunResult
from nnjit_studio.records.outcomes import NOT_TOLD_APART
from nnjit_studio.tuner.protocols import Runner
from nnjit_studio.tuner.swap_policy import SwapPolicy, Verdict, convincing, decide, gflops_of

ROUNDS = 5
"""The peak kernel and the suspect in turns, before it is refused."""


class Ceiling:
    """Refuses kernels that are too fast to have done their work.

    A peak that was probed while others used the machine is too low, and must not hit honest
    kernels. So a rate above it is only a suspicion: then the peak kernel and the suspect run in
    turns, and what counts is the rate of each against the peak of its own moment.

    Attributes
    ----------
    device
        With the highest peaks that were seen so far.
    """

    def __init__(
        self, device: DeviceProfile, tier: str, runner: Runner, thresholds: SwapPolicy
    ) -> None:
        self.device = device
        self._tier, self._runner, self._thresholds = tier, runner, thresholds

    def peak(self, kind: str) -> float | None:
        """GFLOP/s of all threads for a kind of workload, None where it was not probed."""
        return self.device.peak(self._tier, kind)

    def judged(
        self,
        result: RunResult,
        verdict: Verdict,
        workload: Workload,
        kernels: tuple[Kernel, Kernel | None],
        policy: MeasurePolicy,
    ) -> tuple[RunResult, Verdict]:
        """The result and verdict, or those of more samples where it was suspected and cleared.

        Parameters
        ----------
        kernels
            The challenger and the incumbent.
        """
        step_ms = self._clock_step_ms(result)
        if result.samples_ms and result.batch * max(result.samples_ms) < step_ms:
            reason = f"its samples are shorter than the clock's step of {step_ms:g} ms"
            return result, replace(verdict, state="impossible", reason=reason)
        if verdict.state != "impossible":
            return result, verdict
        return self._in_turns(result, verdict, workload, kernels, policy)

    def _in_turns(
        self,
        result: RunResult,
        verdict: Verdict,
        workload: Workload,
        kernels: tuple[Kernel, Kernel | None],
        policy: MeasurePolicy,
    ) -> tuple[RunResult, Verdict]:
        shares, more = [], result
        for number in range(ROUNDS):
            peak = self._peak_now(workload.kind)
            again = self._runner.measure(*kernels, replace(policy, pairs=2))
            if again.error or not again.samples_ms:
                return again, decide(again, workload.flops, None, self._thresholds)
            more = again if not number else more.with_more(again)
            rate = gflops_of(workload.flops, statistics.median(again.samples_ms))
            shares.append(rate / peak)
        share = statistics.median(shares)
        if share > self._thresholds.peak_margin:
            reason = (
                f"{verdict.reason}, and {share:.2f} times the peak kernel in {ROUNDS} turns: it "
                "cannot have done its work"
            )
            return result, replace(verdict, reason=reason)
        cleared = decide(more, workload.flops, None, self._thresholds)
        if cleared.state == "won" and not convincing(more, cleared):
            cleared = replace(cleared, state=NOT_TOLD_APART)
        return more, cleared

    def _peak_now(self, kind: str) -> float:
        """The peak of this moment; the highest one is kept."""
        gflops = self._runner.pulse(self._tier).gflops
        known = self.device.peak_gflops
        now = replace(self.device, peak_gflops={**known, self._tier: gflops})
        if gflops > known.get(self._tier, 0.0):
            self.device = now
        return now.peak(self._tier, kind) or float("inf")

    def _clock_step_ms(self, result: RunResult) -> float:
        gpu = self.device.gpu
        if gpu is not None and result.gpu_clock == "timestamp":
            return gpu.timestamp_quantum_ns / 1e6
        return self.device.timer_quantum_ms
