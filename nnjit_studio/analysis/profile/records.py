"""Records of a profile: one row for each step, and the model's times and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np

from nnjit_studio.analysis.profile.memory import MeasuredMemory
from nnjit_studio.errors import UserError
from nnjit_studio.records.estimate import Estimate


@dataclass(frozen=True)
class StepProfile:
    """One step of the plan."""

    node: str
    op: str
    workload: str
    source: tuple[str, ...]
    """The ONNX nodes that were fused into it."""
    ms: float
    """Median of the profiled runs."""
    iqr_ms: float
    """Their third less their first quartile."""
    share: float
    """Of the sum of all steps."""
    flops: int
    """Operations that count: two for a multiply-add of a product."""
    nbytes: int
    """Of all tensors read and written; of a gather's table only as many as it writes."""
    gflops: float
    gbytes_per_s: float
    threads: int
    intensity: float
    """FLOPs for each byte."""
    bound: str
    """``compute`` or ``memory``: which of both limits the step comes closer to; empty where
    neither is known."""
    percent_of_peak: float | None
    """Of the threads' measured multiply-add rate; None without one."""
    percent_of_roof: float | None
    """Of the limit that bounds it (Williams, Waterman and Patterson, "Roofline", 2009); above
    100 where the data came from caches. None where memory could be the limit and its bandwidth
    was never measured."""
    device: str = ""
    """``webgpu`` or ``wasm``, which of both ran it; empty in older files."""
    chunks: tuple[int, ...] = ()
    """How many chunks of its loop each thread took in all profiled runs, the caller first;
    empty without threads."""


@dataclass(frozen=True)
class Steady:
    """Runs of the warm model, ms."""

    median_ms: float
    min_ms: float
    iqr_ms: float
    runs: int
    low_ms: float = 0.0
    """Of the median's interval; 0 in older files."""
    high_ms: float = 0.0

    @property
    def estimate(self) -> Estimate:
        """The same as any view states a latency; without an interval in older files."""
        ends = (self.low_ms, self.high_ms) if self.high_ms else (self.median_ms, self.median_ms)
        return Estimate(self.median_ms, *ends, self.runs)

    @classmethod
    def of(cls, runs_ms: Sequence[float]) -> Steady:
        """Median, minimum and spread of runs."""
        low, high = np.percentile(runs_ms, (25, 75))
        found = Estimate.of(runs_ms)
        spread = float(high - low)
        return cls(found.ms, min(runs_ms), spread, found.count, found.low, found.high)


@dataclass(frozen=True)
class ModelProfile:
    """Where a model's time and memory go on a target."""

    model: str
    target: str
    user_agent: str
    threads: int
    tier: str
    peak_gflops: float
    """Of one thread, for the tier that runs."""
    bandwidth_gbs: float | None
    """10^9 bytes a second that the threads together read from memory; None when it was never
    measured on this device and target."""
    cold_ms: Mapping[str, float]
    """By phase, in order, from the file to the first output."""
    warm: Steady
    memory: MeasuredMemory
    steps: tuple[StepProfile, ...]
    machine_rate: float | None = None
    """Share of its usual rate, 0 to 1, that the machine gave the page right after the runs."""

    @property
    def steps_ms(self) -> float:
        """Sum of all steps."""
        return sum(step.ms for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        target = {"name": self.target, "user_agent": self.user_agent}
        data = {**asdict(self), "target": target, "cold_ms": dict(self.cold_ms)}
        del data["user_agent"]
        return data

    @classmethod
    def from_json(cls, data: Any) -> ModelProfile:
        """The counterpart of :meth:`to_json`.

        Raises
        ------
        UserError
            When it is no profile. What a newer Studio has in addition is left out.
        """
        try:
            target = data["target"]
            flat = {**data, "target": target["name"], "user_agent": target["user_agent"]}
            return msgspec.convert(flat, cls)
        except (KeyError, TypeError, msgspec.ValidationError) as e:
            raise UserError(
                f"This is no profile of this NNJIT Studio: {type(e).__name__} at {e}.",
                "Write one with `nnjit profile MODEL --save FILE`.",
            ) from e
