"""Model, rooms and options of a session, and the state that its parts share while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.model import Plan, Workload
from nnjit_studio.records import CompileResult, DeviceProfile, MeasurePolicy
from nnjit_studio.records.candidate import settings_of
from nnjit_studio.records.serving import ServingStats
from nnjit_studio.tuner.events import Compiled, Trying
from nnjit_studio.tuner.protocols import Clock, Compiler, Records, Runner
from nnjit_studio.tuner.queue import KernelQueue
from nnjit_studio.tuner.search.task_scheduler import WorkloadState
from nnjit_studio.tuner.session_clock import SessionClock
from nnjit_studio.tuner.swap_policy import SwapPolicy


@dataclass(frozen=True)
class TunedModel:
    """A model that the runner has loaded."""

    name: str
    plan: Plan
    workloads: Sequence[Workload]
    """Every workload of the plan, tunable or not."""
    feeds: Mapping[str, NDArray[Any]]
    """Inputs for the inferences between rounds, by name."""
    packable: frozenset[str] = frozenset()
    """Keys of the workloads whose B is a weight that may be packed."""


@dataclass(frozen=True)
class TuningContext:
    """The rooms that a session works with, and the device that it tunes for."""

    runner: Runner
    compiler: Compiler
    records: Records
    device: DeviceProfile
    clock: Clock


@dataclass(frozen=True)
class TuneOptions:
    """What the user may choose."""

    seconds: float | None = 30.0
    """Budget from the first event to the summary. With a budget every tunable workload gets
    ``MIN_ROUNDS`` candidates where time allows. None: until nothing is left to gain."""
    policy: MeasurePolicy = field(default_factory=MeasurePolicy)
    thresholds: SwapPolicy = field(default_factory=SwapPolicy)
    exhaustive: bool = False
    """Go on until every space is exhausted, though nothing is expected of it."""
    full_speed: bool = False
    """Run the model less often in between."""
    tier: str | None = None
    """Instruction tier to tune; None takes the device's best."""
    confirm: bool = True
    """Try winners of duels in the running model before they count; never on a GPU, nor while
    the model serves."""
    served: Callable[[], ServingStats] | None = None
    """Given when the model serves meanwhile: its inferences since the last call. Then the
    session runs it only to profile it."""


@dataclass(frozen=True)
class SessionState:
    """What the parts of a running session share."""

    context: TuningContext
    options: TuneOptions
    tier: str
    """The instruction tier that is tuned."""
    clock: SessionClock
    queue: KernelQueue
    states: list[WorkloadState]
    """Of the workloads whose default kernels are compiled, most work first."""

    @property
    def tunable(self) -> list[WorkloadState]:
        """Of those that were checked."""
        return [s for s in self.states if s.workload.tunable and s.checked]

    def trying(self, state: WorkloadState, settings: str, phase: str) -> Trying:
        return Trying(self.clock.t_s(), state.workload.key, settings, phase)

    def compiled(self, result: CompileResult) -> Compiled:
        return compiled_event(result, self.tier, self.clock.t_s())


def compiled_event(result: CompileResult, tier: str, t_s: float) -> Compiled:
    """The event of a build, with the bytes of one tier."""
    nbytes = sum(len(k.data) for k in result.kernels if k.tier == tier)
    settings = settings_of(result.candidate)
    return Compiled(t_s, result.workload, settings, result.ms, nbytes, result.pass_ms, result.error)
