"""The summary at the end of a session, and what of its events goes into it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.candidate import settings_of
from nnjit_studio.records.outcomes import is_undecided
from nnjit_studio.tuner.events import (
    Compiled,
    Event,
    Measured,
    RoundDone,
    Swapped,
    WorkloadSummary,
)
from nnjit_studio.tuner.search.task_scheduler import WorkloadState
from nnjit_studio.tuner.swap_policy import gflops_of


class Statistics:
    """Of a session, gathered from its events.

    Attributes
    ----------
    compile_ms, pipeline_ms
        Of each successful build, and of what the GPU's compiler took for each candidate.
    best_s
        When the last kernel was swapped in.
    """

    def __init__(self) -> None:
        self.compile_ms: list[float] = []
        self.pipeline_ms: list[float] = []
        self.best_s = 0.0
        self._last: dict[tuple[str, str], Measured] = {}
        self._progress: list[tuple[float, float]] = []
        self._began_s = 0.0

    def note(self, event: Event) -> None:
        if isinstance(event, Measured) and event.state != "default":
            self._last[event.workload, event.candidate] = event
        if isinstance(event, Compiled) and not event.error:
            self.compile_ms.append(event.ms)
        elif isinstance(event, Measured) and event.gpu_clock:
            self.pipeline_ms.append(event.pipeline_ms)
        elif isinstance(event, Swapped):
            self.best_s = event.t_s
        elif isinstance(event, RoundDone):
            self.progress(event.t_s, event.model_ms)

    @property
    def outcomes(self) -> dict[str, int]:
        """How many candidates have each state, by the last measurement of each."""
        return dict(Counter(event.state for event in self._last.values()))

    @property
    def undecided(self) -> int:
        """How many of them seem faster, but not beyond the noise."""
        found = self._last.values()
        return sum(is_undecided(e.state, e.speedup, e.speedup_high) for e in found)

    def begin(self, t_s: float) -> None:
        """Progress counts from now on."""
        self._began_s = t_s

    def progress(self, t_s: float, model_ms: float) -> None:
        """The model's estimated time at a moment of the session."""
        self._progress.append((t_s - self._began_s, model_ms))

    def seconds_to_within(self, share: float) -> float:
        """See :func:`seconds_to_within`."""
        return seconds_to_within(self._progress, share)


def target_json(device: DeviceProfile, tier: str) -> dict[str, Any]:
    """The device with the tier that was measured, and on a GPU the adapter's name."""
    named = {"adapter": device.gpu.name} if device.gpu else {}
    return {**asdict(device), "tier": tier, **named}


def compile_summary(times_ms: Sequence[float]) -> dict[str, float]:
    """Median and 99th percentile of all successful builds, in ms; 0 without any."""
    if not times_ms:
        return {"median": 0.0, "p99": 0.0}
    median, p99 = np.percentile(times_ms, (50, 99))
    return {"median": float(median), "p99": float(p99)}


def workload_summaries(states: Sequence[WorkloadState]) -> tuple[WorkloadSummary, ...]:
    """Every workload of the model, the largest share of its time first."""
    ranked = sorted(states, key=lambda s: -s.share)
    return tuple(
        WorkloadSummary(
            workload=s.workload.key,
            uses=s.workload.uses,
            rounds=s.rounds,
            candidates=s.candidates,
            gflops={
                "before": gflops_of(s.workload.flops, s.default_ms),
                "after": gflops_of(s.workload.flops, s.comparable_ms),
            },
            ms={"before": s.default_ms, "after": s.comparable_ms},
            best=settings_of(s.incumbent.candidate),
            share=s.share,
            speedup=s.speedup,
            checked=s.checked,
        )
        for s in ranked
    )


def share_of_peak(
    states: Sequence[WorkloadState], device: DeviceProfile, tier: str
) -> float | None:
    """At which share of the device's peak the kernels run, all together, 0 to 1.

    Of the workloads whose operations are counted; None without any, or without a peak.
    """
    least_ms = taken_ms = 0.0
    for s in states:
        peak = device.peak(tier, s.workload.kind)
        if peak and s.workload.flops and s.workload.tunable and s.checked:
            least_ms += s.workload.uses * s.workload.flops / peak / 1e6
            taken_ms += s.workload.uses * s.comparable_ms
    return min(1.0, least_ms / taken_ms) if taken_ms > 0 else None


def seconds_to_within(progress: Sequence[tuple[float, float]], share: float) -> float:
    """When an estimate came within ``share`` of its last value, in s, to stay; 0 without any.

    Parameters
    ----------
    progress
        Seconds of tuning and the estimated ms of the model then, in order.
    """
    reached: float | None = None
    for t_s, ms in progress:
        if ms > (1 + share) * progress[-1][1]:
            reached = None
        elif reached is None:
            reached = t_s
    return reached or 0.0
