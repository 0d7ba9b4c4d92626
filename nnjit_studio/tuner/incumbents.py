"""The kernels that the model runs with: swapped in when they win, or taken from the database."""

from __future__ import annotations

from collections.abc import Iterator

from nnjit_studio.errors import UserError
from nnjit_studio.records import Kernel, TuningRecord
from nnjit_studio.records.gpu_candidate import parse_candidate
from nnjit_studio.tuner.context import SessionState
from nnjit_studio.tuner.events import Swapped
from nnjit_studio.tuner.search.stored_records import Speedup, chained, stored_speedup, stored_winner
from nnjit_studio.tuner.search.task_scheduler import WorkloadState
from nnjit_studio.tuner.swap_policy import gflops_of


class Incumbents:
    """Registers the kernels of a session in the running engine."""

    def __init__(self, session: SessionState) -> None:
        self._session = session

    def swap(
        self,
        state: WorkloadState,
        kernel: Kernel,
        ms: float,
        speedup: Speedup | None,
        from_database: bool = False,
    ) -> Swapped:
        """Have the model run this kernel from now on.

        Parameters
        ----------
        ms
            Median of one run.
        speedup
            Over the incumbent; over the default where it is from the database.
        """
        self._session.context.runner.register([kernel])
        before = gflops_of(state.workload.flops, state.best_ms)
        gflops = gflops_of(state.workload.flops, ms)
        state.incumbent, state.best_ms = kernel, ms
        held = (1.0, 1.0, 1.0) if from_database else state.speedup
        state.speedup = chained(held, speedup) if held and speedup else None
        if from_database:
            state.best_gflops = max(state.best_gflops, gflops)
        t_s = self._session.clock.t_s()
        return Swapped(t_s, state.workload.key, kernel.settings, before, gflops, from_database)

    def rebuilt(self, winner: TuningRecord, state: WorkloadState) -> Kernel | None:
        """A stored winner, compiled anew: a database is no place to take code from.

        None when these are not the bytes that were measured.
        """
        try:
            candidate = parse_candidate(winner.settings)
        except UserError:
            return None
        tier = self._session.tier
        compiled = self._session.queue.at_once(state.workload, candidate, (tier,))
        same = not compiled.error and compiled.kernel(tier).sha256 == winner.sha256
        return compiled.kernel(tier) if same else None

    def restore(self) -> Iterator[Swapped]:
        """After a pause: adopt what won meanwhile, and register everything again."""
        for state in self._session.tunable:
            winner = stored_winner(self._session.context.records.records(state.key))
            if winner is None or winner.settings == state.incumbent.settings:
                continue
            kernel = self.rebuilt(winner, state)
            if kernel is not None:
                state.pending = [e for e in state.pending if str(e.candidate) != winner.settings]
                chain = stored_speedup(self._session.context.records.records(state.key))
                yield self.swap(state, kernel, winner.median_ms, chain, from_database=True)
        self._session.context.runner.register([s.incumbent for s in self._session.states])
