"""The start of tuning: figures of default kernels, and lite spaces with their known results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from nnjit_studio.errors import BugError
from nnjit_studio.model import Workload
from nnjit_studio.records import CompileResult, KernelKey, TuningRecord
from nnjit_studio.records.estimate import Estimate
from nnjit_studio.space.lite_space import build_lite_space
from nnjit_studio.tuner.context import SessionState
from nnjit_studio.tuner.events import Event, SpaceBuilt
from nnjit_studio.tuner.incumbents import Incumbents
from nnjit_studio.tuner.search.search_strategy import SearchStrategy
from nnjit_studio.tuner.search.stored_records import (
    known_results,
    settled,
    stored_speedup,
    stored_winner,
)
from nnjit_studio.tuner.search.task_scheduler import WorkloadState
from nnjit_studio.tuner.swap_policy import gflops_of

FAR_OFF = 0.1
"""A share: a default's figure this far outside of the interval of a new one is replaced."""


def state_of(compiled: CompileResult, workload: Workload, key: KernelKey) -> WorkloadState:
    """The state of a workload whose default kernel was compiled.

    Raises
    ------
    BugError
        When it was not: the model cannot run without it.
    """
    if compiled.error:
        raise BugError(
            f"The default kernel of {workload.name} could not be compiled: {compiled.error}.",
            "Report it together with the model.",
        )
    kernel = compiled.kernel(key.tier)
    return WorkloadState(
        workload, key, default=kernel, incumbent=kernel, measured={kernel.sha256: kernel.settings}
    )


def stored_default(state: WorkloadState, records: Sequence[TuningRecord]) -> TuningRecord | None:
    """The newest figure of the very same default kernel."""
    ours = state.default.sha256
    same = (r for r in reversed(records) if r.state == "default" and r.sha256 == ours)
    return next(same, None)


def is_far_off(state: WorkloadState, incumbent_ms: Sequence[float]) -> bool:
    """Whether the default kernel's figure does not fit samples that a duel took of the incumbent.

    It may have been measured while the machine was busy, maybe in an earlier session.
    """
    if not incumbent_ms or state.speedup is None:
        return False
    now, held = Estimate.of(incumbent_ms), state.default_ms / state.speedup[0]
    return not now.low * (1 - FAR_OFF) <= held <= now.high * (1 + FAR_OFF)


def renew_default(state: WorkloadState, incumbent_ms: Sequence[float]) -> None:
    """Take the figure of the default kernel from such samples."""
    assert state.speedup is not None
    now = Estimate.of(incumbent_ms)
    state.best_ms, state.default_ms = now.ms, now.ms * state.speedup[0]
    state.best_gflops = gflops_of(state.workload.flops, now.ms)
    met = state.log_rates.get(state.incumbent.settings)
    state.scale = state.best_gflops / math.exp(met) if met is not None else 1.0


class Spaces:
    """Opens the lite space of each tunable workload; what the database knows of it is taken up."""

    def __init__(
        self,
        session: SessionState,
        packable: frozenset[str],
        search: SearchStrategy,
        incumbents: Incumbents,
    ) -> None:
        self._session, self._packable = session, packable
        self.search, self.incumbents = search, incumbents
        self._open: set[str] = set()
        workloads = [s.workload for s in session.states if s.workload.tunable]
        history = session.context.records.history(workloads)
        search.remember(history, {s.key for s in session.states})

    def open(self) -> Iterator[Event]:
        """The spaces of workloads that were checked since the last time."""
        for state in self._session.tunable:
            if state.workload.key not in self._open and not self._session.clock.stop():
                self._open.add(state.workload.key)
                yield from self._of(state)

    def _of(self, state: WorkloadState) -> Iterator[Event]:
        session, context = self._session, self._session.context
        packable = state.workload.key in self._packable
        space = build_lite_space(state.workload, context.device, packable)
        records = context.records.records(state.key)
        winner = stored_winner(records)
        kernel = None if winner is None else self.incumbents.rebuilt(winner, state)
        if kernel is None:
            # A winner of other bytes makes doubtful what was compared with it.
            records = [r for r in records if r.state != "won"]
        records = settled(records, context.device.user_agent)
        settings = [str(e.candidate) for e in space.entries]
        known = {r.settings for r in records} & set(settings)
        state.candidates = len(space.entries)
        state.pending = [e for e in space.entries if str(e.candidate) not in known]
        state.measured |= {r.sha256: r.settings for r in records if r.sha256}
        state.log_rates |= {r.settings: math.log(r.gflops) for r in records if r.gflops > 0}
        yield SpaceBuilt(
            session.clock.t_s(),
            state.workload.key,
            tuple(settings),
            tuple(e.reason for e in space.entries),
            space.naive_size,
            len(known),
            known_results(records, known),
        )
        if winner is not None and kernel is not None:
            chain = stored_speedup(records)
            yield self.incumbents.swap(state, kernel, winner.median_ms, chain, from_database=True)
        self.search.open(state, records)
