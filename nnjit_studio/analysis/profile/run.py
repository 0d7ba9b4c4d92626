"""Measuring a profile: open a model cold, then run it warm."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.analysis.profile.memory import (
    MeasuredMemory,
    forecast,
    live_bytes,
    renderer_memory,
)
from nnjit_studio.analysis.profile.records import ModelProfile, Steady
from nnjit_studio.analysis.profile.rows import step_rows
from nnjit_studio.records import DeviceProfile, Inference

STEP_QUANTA = 20
"""A step is looked at for so many quanta of the page's timer: 5 % of it at most are lost."""
WARM_MS = 300.0
"""Runs before the timed ones: V8 compiles its fast code in the background meanwhile."""

NOT_COLD: Mapping[str, float] = MappingProxyType({})


class Profilable(Protocol):
    """What a profile needs of the workbench."""

    @property
    def runner(self) -> Any: ...

    def connect(self) -> DeviceProfile: ...

    def open_model(
        self,
        path: Path,
        on_phase: Callable[[str], None],
        feeds: Mapping[str, NDArray[Any]] | None,
    ) -> Any: ...

    def register_best(self, on_phase: Callable[[str], None]) -> None: ...

    def infer(
        self, runs: int = 1, profile: bool = False, least_step_ms: float = 0.0
    ) -> Inference: ...

    def bandwidth_gbs(self) -> Mapping[int, float]: ...


DONE = "done"
"""Said in place of a phase where the last one ended."""
FIRST_RUN = "first run"


class Phases:
    """Milliseconds of phases: each ends where the next one begins.

    ``on_phase`` hears of each; who goes on with the ledger of another may put its own there.
    """

    def __init__(self, on_phase: Callable[[str], None] = lambda phase: None) -> None:
        self.ms: dict[str, float] = {}
        self.on_phase = on_phase
        self._phase = ""
        self._since = 0.0

    def __call__(self, phase: str) -> None:
        now = time.perf_counter()
        if self._phase:
            self.ms[self._phase] = self.ms.get(self._phase, 0.0) + (now - self._since) * 1e3
        self._phase, self._since = ("" if phase == DONE else phase), now
        if self._phase:
            self.on_phase(phase)


def profile_model(
    bench: Profilable,
    path: Path,
    feeds: Mapping[str, NDArray[Any]] | None,
    runs: int,
    on_phase: Callable[[str], None] = lambda phase: None,
) -> ModelProfile:
    """Open a model, run it cold once, then ``runs`` times warm and as often step by step.

    The page is there before the clock starts. Its cold phases are those that the
    workbench names, from reading the file to the first run; "first run" is the page's
    own time, without the way to it.

    Raises
    ------
    ModelError, UserError, PageError
    """
    bench.connect()
    before = renderer_memory()
    phases = Phases(on_phase)
    opened = bench.open_model(path, phases, feeds)
    cold_ms = run_cold(bench, phases)
    return profile_open(bench, opened, runs, on_phase, cold_ms, before)


def run_cold(bench: Profilable, phases: Phases) -> Mapping[str, float]:
    """Complete the ledger of a model that was just opened: its kernels, then its first run."""
    bench.register_best(phases)
    phases(DONE)
    phases.on_phase("running")
    phases.ms[FIRST_RUN] = bench.infer(1).runs_ms[0]
    return phases.ms


def profile_open(
    bench: Profilable,
    opened: Any,
    runs: int,
    on_phase: Callable[[str], None] = lambda phase: None,
    cold_ms: Mapping[str, float] = NOT_COLD,
    before: tuple[int, int] | None = None,
) -> ModelProfile:
    """Run the open model warm, with the kernels that are registered.

    Parameters
    ----------
    cold_ms, before
        Of the cold start that went before: its phases, and the renderers' memory ahead of it;
        without them the profile has neither.

    Raises
    ------
    UserError, PageError
    """
    device = bench.connect()
    on_phase("warming up")
    once_ms = bench.infer(1).runs_ms[0]
    bench.infer(max(2, min(1000, round(WARM_MS / max(once_ms, 0.1)))))
    on_phase("timing whole runs")
    warm = bench.infer(runs)
    on_phase("timing every step")
    steps = bench.infer(runs, profile=True, least_step_ms=STEP_QUANTA * device.timer_quantum_ms)
    bandwidth = bench.bandwidth_gbs()
    rows = step_rows(
        opened.graph,
        opened.plan,
        opened.workloads,
        steps.steps_ms,
        device,
        steps.steps_threads,
        steps.steps_iqr_ms,
        bandwidth,
        steps.steps_chunks,
    )
    return ModelProfile(
        model=opened.graph.name,
        target=device.target,
        user_agent=device.user_agent,
        threads=device.threads,
        tier=device.best_tier,
        peak_gflops=device.peak_gflops.get(device.best_tier, 0.0),
        bandwidth_gbs=bandwidth.get(device.threads),
        cold_ms=dict(cold_ms),
        warm=steady(warm.runs_ms),
        memory=_memory(opened.plan, bench.runner.memory_bytes, before),
        steps=tuple(rows),
    )


def steady(runs_ms: tuple[float, ...]) -> Steady:
    """Median, minimum and spread of runs."""
    low, middle, high = np.percentile(runs_ms, (25, 50, 75))
    return Steady(float(middle), min(runs_ms), float(high - low), len(runs_ms))


def _memory(plan: Any, wasm_bytes: int, before: tuple[int, int] | None) -> MeasuredMemory:
    after = renderer_memory()
    grown = (after[0] - before[0], after[1] - before[0]) if after and before else (None, None)
    return MeasuredMemory(forecast(plan), wasm_bytes, grown[0], grown[1], live_bytes(plan))
