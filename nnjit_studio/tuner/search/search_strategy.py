"""The order of candidates: what won for something alike, then what the cost model expects."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import groupby

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import CompileResult, DeviceProfile, KernelKey, TuningRecord
from nnjit_studio.records.gpu_candidate import AnyCandidate, GpuCandidate, parse_candidate
from nnjit_studio.records.outcomes import COMPARED
from nnjit_studio.space.lite_space import SpaceEntry
from nnjit_studio.space.registry import row_of
from nnjit_studio.tuner.events import Measured
from nnjit_studio.tuner.search.cost_model import (
    Array,
    CostModel,
    Point,
    expected_improvement,
    point_of,
)
from nnjit_studio.tuner.search.stored_records import stored_winner
from nnjit_studio.tuner.search.task_scheduler import WorkloadState

EXPLOITATION_SHARE = 0.1
"""Of the lite space: candidates that won elsewhere and are tried first (paper section 5.3)."""
NEAR = 1.0
"""Largest distance of a near shape: the sum of |log2| of the ratios of its dims."""
MAX_RECORDS = 240
"""Records that the regression learns from, those of this device first, then the newest."""
FLOOR = 1.5
"""A candidate slower than the incumbent by more than this (a logarithm) counts as this slow."""


class SearchStrategy:
    """Chooses candidates and learns from what was measured.

    Its choices are a function of the device, the records given, and the
    measurements noted, in order: nothing is drawn, and no clock is read.

    Parameters
    ----------
    least_gain
        A smaller speed-up leads to no swap.
    """

    def __init__(self, device: DeviceProfile, tier: str, least_gain: float) -> None:
        self._device, self._tier, self._least_gain = device, tier, least_gain
        self._cost_model = CostModel()
        self._history: dict[KernelKey, list[TuningRecord]] = {}
        self._points: dict[tuple[str, AnyCandidate], Point] = {}

    def remember(self, history: Sequence[TuningRecord], own: Collection[KernelKey]) -> None:
        """Learn from records of this tier, oldest first; those of the session's own keys have
        their turn in :meth:`open`."""
        mine = self._device.device_id
        for record in history:
            if record.key.tier == self._tier and record.key not in own:
                self._history.setdefault(record.key, []).append(record)
        usable = [
            r
            for records in self._history.values()
            for r in records
            if r.state in COMPARED and r.gflops > 0
        ]
        usable.sort(key=lambda r: (r.key.device_id == mine, r.created))
        for key, group in groupby(sorted(usable[-MAX_RECORDS:], key=_spelled), lambda r: r.key):
            records = list(group)
            peak = max(r.gflops for r in records)
            for r in records:
                point = self._point(str(key), _candidate(r), workload_of(key), peak)
                if point is not None:
                    self._cost_model.learn(point, math.log(r.gflops), key.device_id != mine)

    def open(self, state: WorkloadState, records: Sequence[TuningRecord]) -> None:
        """Take up a workload: what is known of it, and its exploitation set."""
        for r in records:
            if r.state in COMPARED and r.gflops > 0:
                self._learn(state, _candidate(r), math.log(r.gflops))
        state.exploit = self._exploitation(state)
        self.refresh(state)

    def refresh(self, state: WorkloadState) -> None:
        """Update ``state.gain``."""
        state.gain = max(self._gains(state), default=0.0)

    def ranked(self, state: WorkloadState) -> list[SpaceEntry]:
        """Pending entries, the next one first.

        The exploitation set; then by expected gain, and in the order of the
        space. Blocks per core, the paper's order (section 5.2), tie on Wasm;
        on a GPU small tiles win by them and lose by their loads, so they are
        among what the gain is expected from. While nothing of the workload was
        measured but its default kernel, by expected rate: that needs no measured
        time, so that cold sessions begin alike.
        """
        scores = self._gains(state) if state.tried else list(map(float, self._predict(state)[0]))
        by_score = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
        exploit = [e for e in state.exploit if e in state.pending]
        return exploit + [state.pending[i] for i in by_score if state.pending[i] not in exploit]

    def take(self, state: WorkloadState) -> SpaceEntry:
        """Remove the next entry from what is pending and return it."""
        entry = self.ranked(state)[0]
        state.pending.remove(entry)
        state.exploit = [e for e in state.exploit if e != entry]
        return entry

    def note(self, state: WorkloadState, compiled: CompileResult, measured: Measured) -> None:
        """Learn from a measurement; called before the incumbent changes."""
        if compiled.candidate is None:
            return
        here = state.log_rates.get(state.incumbent.settings, 0.0)
        if measured.state == "duplicate":
            rate = state.log_rates.get(state.measured[compiled.kernel(self._tier).sha256])
        elif measured.state in COMPARED and measured.speedup > 0:
            rate = here + max(math.log(measured.speedup), -FLOOR)
        else:
            rate = None
        if rate is not None:
            state.log_rates[measured.candidate] = rate
            self._learn(state, compiled.candidate, rate)

    def _learn(self, state: WorkloadState, candidate: AnyCandidate | None, log_rate: float) -> None:
        point = self._point(state.workload.key, candidate, state.workload, self._peak(state))
        if point is not None:
            self._cost_model.learn(point, log_rate)

    def _gains(self, state: WorkloadState) -> list[float]:
        incumbent = state.log_rates.get(state.incumbent.settings)
        if not state.pending or incumbent is None:
            return [1.0] * len(state.pending)
        mean, deviation = self._predict(state)
        gains = expected_improvement(mean, deviation, incumbent, self._least_gain)
        return list(map(float, gains))

    def _predict(self, state: WorkloadState) -> tuple[Array, Array]:
        """Mean and deviation of the logarithm of each pending entry's rate."""
        key = state.workload.key
        for entry in state.pending:
            if (key, entry.candidate) not in self._points:
                self._points[key, entry.candidate] = point_of(
                    key, entry.candidate, state.workload, self._device, self._peak(state)
                )
        return self._cost_model.predict([self._points[key, e.candidate] for e in state.pending])

    def _peak(self, state: WorkloadState) -> float:
        known = self._device.peak(self._tier, state.workload.kind)
        return known or 3 * math.exp(state.log_rates.get("default", 0.0))

    def _point(
        self, group: str, candidate: AnyCandidate | None, workload: Workload, peak: float
    ) -> Point | None:
        if candidate is None:
            return None
        try:
            return point_of(group, candidate, workload, self._device, peak)
        except UserError:  # dims of another version's kind
            return None

    def _exploitation(self, state: WorkloadState) -> list[SpaceEntry]:
        """Pending entries that are the winners of the same or near shapes, most alike first."""
        count = math.ceil(EXPLOITATION_SHARE * state.candidates)
        alike: list[tuple[float, bool, str, AnyCandidate]] = []
        for key, records in self._history.items():
            winner = stored_winner(records)
            distance = _distance(key, state.key)
            candidate = None if winner is None else _candidate(winner)
            if winner is not None and candidate is not None and distance <= NEAR:
                elsewhere = key.device_id != state.key.device_id
                fitted = _fitted(candidate, key, state.key)
                alike.append((distance, elsewhere, winner.created, fitted))
        alike.sort(key=lambda a: (a[0], a[1], a[2], a[3]))
        entries = {_choice(e.candidate): e for e in state.pending}
        fitting = (_choice(c) for *_, c in alike)
        found = dict.fromkeys(entries[c] for c in fitting if c in entries)
        return list(found)[:count]


def workload_of(key: KernelKey) -> Workload:
    """As much of a workload as its key tells."""
    epilogue = tuple(key.layout.split("+")[1:])
    return Workload(key.kind, tuple(map(int, key.dims.split("x"))), key.dtype, epilogue)


def _spelled(record: TuningRecord) -> str:
    return str(record.key)


def _candidate(record: TuningRecord) -> AnyCandidate | None:
    try:
        return parse_candidate(record.settings)
    except UserError:
        return None


def _distance(a: KernelKey, b: KernelKey) -> float:
    """How far two shapes are apart; infinite for different kinds of work."""
    left, right = workload_of(a).dims, workload_of(b).dims
    if (a.kind, a.dtype, a.tier) != (b.kind, b.dtype, b.tier) or len(left) != len(right):
        return math.inf
    apart = [abs(math.log2((x + 1) / (y + 1))) for x, y in zip(left, right, strict=True)]
    return sum(apart) + (0.0 if a.layout == b.layout else 0.1)


def _choice(c: AnyCandidate) -> AnyCandidate:
    """The part that the tuner chooses: how B lies is the model's."""
    return c if isinstance(c, GpuCandidate) else replace(c, pack=True)


def _fitted(c: AnyCandidate, its: KernelKey, mine: KernelKey) -> AnyCandidate:
    """A near shape's winner with blocks of the reduction that fit this shape."""
    if isinstance(c, GpuCandidate) or not row_of(its.kind).blocks_k:
        return c
    theirs, here = (workload_of(key).dims[-2] for key in (its, mine))
    depth = here if c.r1 == theirs else min(c.r1, here)
    return replace(c, r1=depth)
