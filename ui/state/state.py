"""The state that the views show, reduced from the stream of events. Knows no Qt."""

from __future__ import annotations

import logging
import statistics
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from nnjit_studio.generation.session import TextEvent
from nnjit_studio.model.readable import words_of
from nnjit_studio.model.survey import Survey
from nnjit_studio.records.estimate import Estimate
from nnjit_studio.records.gain import ModelGain
from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.state.plan import PlanProgress, is_plan
from nnjit_studio.ui.state.rounds import RoundPoint, Rounds
from nnjit_studio.ui.state.text_state import TextState
from nnjit_studio.ui.state.workload import WorkloadProgress
from nnjit_studio.ui.widgets.text import short_key
from nnjit_studio.workbench import OpenModel

log = logging.getLogger(__name__)

RUNS = 100
"""Latest runs of the model that its latency is estimated from."""

VIEWS = frozenset({"model", "graph", "space", "rounds", "latency", "phase", "text", "now"})


class SessionState:
    """The open model and the tuning session on it.

    ``selected`` is the key of a workload, ``node`` the name of the node that is current in the
    graph; both may be empty.
    ``code`` is what the session's kernels are written in, ``Wasm`` or ``WGSL``.
    ``node_ms_before`` is the first ``node_ms`` since the model was opened or tuning began.
    ``rounds`` are the model's: its rate as it was estimated after each round of any workload,
    and as it was timed since the one before. ``estimate`` is the model's latency with the kernels
    of now, ``compared`` the latest pairs, ``machine`` the latest look at it. ``left`` is the
    time of the latest round, and the seconds that were expected to the end then, None before
    that can be told. ``plan`` are the rounds of the plan, None before the first.
    ``survey`` is of the file that was read last.

    Views read the attributes; :meth:`take_changes` tells them which of
    :data:`VIEWS` need to be drawn again.
    """

    def __init__(self) -> None:
        self.model: OpenModel | None = None
        self.applied: tuple[str, ...] = ()
        self.workloads: dict[str, WorkloadProgress] = {}
        self.node_ms: Mapping[str, float] = MappingProxyType({})
        self.node_ms_before: Mapping[str, float] = MappingProxyType({})
        self.latency: list[tuple[float, float]] = []
        self.estimate: Estimate | None = None
        self.compared: ev.ModelCompared | None = None
        self.machine: ev.MachineSeen | None = None
        self.profile_warning = ""
        self._runs_ms: deque[float] = deque(maxlen=RUNS)
        self.rounds = Rounds()
        self.plan: PlanProgress | None = None
        self.survey: Survey | None = None
        self.trying: ev.Trying | None = None
        self.left: tuple[float, float | None] = (0.0, None)
        self.served: ev.Served | None = None
        self.paused = False
        self.phase = ""
        self.target = ""
        self.code = ""
        self.summary: ev.Finished | None = None
        self.failure: Mapping[str, object] | None = None
        self.selected = ""
        self.node = ""
        self.text = TextState()
        self._timed_gflops = 0.0
        self._changed: set[str] = set()

    def open(self, model: OpenModel) -> None:
        """Show another model; nothing of the old one stays.

        Of the same one in another form the rounds stay that led to it.
        """
        old, self.model = self.model, model
        if old is None or (old.path, old.plan.inputs) != (model.path, model.plan.inputs):
            self.plan = None
        self.selected = self.node = ""
        self._reset()
        first = self.by_share()
        self.selected = first[0].workload.key if first else ""
        self.phase = "Ready to tune"
        self._changed |= VIEWS

    def fail(self) -> None:
        """The session broke off without an event that says so."""
        self._settle()
        self.set_phase("Tuning failed")

    def begin_plan(self) -> None:
        """Forget the rounds of the plan: others are about to begin."""
        self.plan = None
        self._changed |= {"space", "rounds"}

    def select(self, key: str) -> bool:
        """Select a workload everywhere; False when it is unknown or selected already."""
        if key == self.selected or key not in self.workloads:
            return False
        self.selected = key
        self._changed |= {"graph", "space", "rounds"}
        return True

    def take_text(self, events: Iterable[TextEvent]) -> None:
        """Take events of a text in, in order."""
        for event in events:
            self.text.take(event)
            self._changed.add("text")

    def take_check(self, checked: Mapping[str, Any]) -> None:
        """The last text was compared with ONNX Runtime."""
        self.text.checked = checked
        self._changed.add("text")

    def set_applied(self, titles: Sequence[str]) -> None:
        """Name the rows of advice that are in use, over the model as it was at first."""
        if self.applied != tuple(titles):
            self.applied = tuple(titles)
            self._changed.add("phase")

    def set_phase(self, text: str) -> None:
        self.phase = text
        self._changed.add("phase")

    def take_changes(self) -> frozenset[str]:
        """The views that are out of date; asking clears the list."""
        changed, self._changed = frozenset(self._changed), set()
        return changed

    def by_share(self) -> list[WorkloadProgress]:
        """All workloads, the heaviest first, tunable ones before others of equal weight."""
        return sorted(
            self.workloads.values(), key=lambda w: (-w.weight, not w.workload.tunable, w.rank)
        )

    def find(self, text: str) -> WorkloadProgress | None:
        """The workload of a key or of a name (summaries may use either)."""
        if text in self.workloads:
            return self.workloads[text]
        named = [w for w in self.workloads.values() if w.workload.name == short_key(text)]
        return named[0] if len(named) == 1 else None

    @property
    def before_ms(self) -> float | None:
        """With the first kernels, in turns with those of now; None while nothing was compared."""
        if self.compared is None or not self.compared.before_ms:
            return None
        return statistics.median(self.compared.before_ms)

    @property
    def gain(self) -> ModelGain | None:
        """What pairs say of the model; None before the first."""
        if self.summary is not None:
            return self.summary.gain
        return self.compared.gain if self.compared else None

    @property
    def warning(self) -> str:
        """That the machine is busy; empty when it is not, or was not looked at."""
        if self.summary is not None:
            return self.summary.warning
        return self.machine.warning if self.machine else ""

    def take_estimate(self, estimate: Estimate, warning: str) -> None:
        """The latency of the open model as a profile found it, and whether the machine was busy."""
        self.estimate, self.profile_warning = estimate, warning
        self._changed |= {"latency"}

    def tried(self) -> tuple[int, int]:
        """Candidates with a verdict, and all candidates of the spaces built so far."""
        held = self.workloads.values()
        return sum(w.tried for w in held), sum(w.total for w in held)

    @property
    def goes_on(self) -> bool:
        """Whether a session of the open model ended before all was tried that it would try."""
        tried, total = self.tried()
        ended = self.summary is not None and self.summary.reason in ("cancelled", "time")
        return ended and tried < total

    def known(self) -> int:
        """Candidates of the session that the database knew when it began."""
        return sum(w.known for w in self.workloads.values())

    def reduce(self, events: Iterable[ev.Event]) -> None:
        """Take events in, in order."""
        for event in events:
            self._reduce(event)

    def _reset(self) -> None:
        workloads = self.model.workloads if self.model else ()
        heavy_first = sorted(workloads, key=lambda w: -w.flops * w.uses)
        self.workloads = {w.key: WorkloadProgress(w, rank) for rank, w in enumerate(heavy_first)}
        self.node_ms = self.node_ms_before = MappingProxyType({})
        self.latency, self.rounds = [], Rounds()
        self.estimate = self.compared = self.machine = None
        self.profile_warning = ""
        self._runs_ms.clear()
        self.trying, self.left, self.served, self.paused = None, (0.0, None), None, False
        self._timed_gflops = 0.0
        self.summary = self.failure = None

    def _settle(self) -> None:
        for workload in self.workloads.values():
            workload.settle()
        self.trying, self.paused = None, False
        self._changed |= {"space", "now"}

    def _reduce(self, event: ev.Event) -> None:
        match event:
            case _ if is_plan(event):
                self._reduce_plan(event)
            case ev.SessionStarted():
                self._start(event)
            case ev.ModelTimed():
                self._time(event)
            case ev.ModelCompared():
                self._compare(event)
            case ev.MachineSeen():
                self.machine = event
                self._changed.add("phase")
            case ev.Trying():
                self.trying = event
                self._changed.add("now")
            case ev.Served():
                self.served = event
                self._changed.add("now")
            case ev.Paused():
                self.trying, self.paused = None, True
                self.set_phase("Paused")
                self._changed.add("now")
            case ev.Resumed():
                self.paused = False
                self.set_phase("Tuning")
                self._changed.add("now")
            case ev.Finished():
                self.summary = event
                self._settle()
                # What happened to run last is no estimate; what the summary says is.
                if self.compared is not None and self.compared.after_ms:
                    self.estimate = Estimate.of(self.compared.after_ms)
                self.set_phase(_END.get(event.reason, event.reason))
            case ev.Failed():
                self.failure = event.error
                self.fail()
            case _:
                self._reduce_workload(event)

    def _start(self, event: ev.SessionStarted) -> None:
        selected = self.selected
        self._reset()
        for rank, key in enumerate(event.workloads):
            workload = self.find(key)
            if workload is not None:
                workload.rank = rank
        others = [w for w in self.workloads.values() if w.workload.key not in event.workloads]
        for rank, workload in enumerate(others, len(event.workloads)):
            workload.rank = rank
        self.selected = selected if selected in self.workloads else ""
        self.target = str(event.target.get("target") or event.target.get("name") or "")
        self.code = "WGSL" if event.target.get("gpu") else "Wasm"
        if adapter := event.target.get("adapter"):
            self.target += f" ({adapter})"
        self.phase = "Measuring the untuned model"
        self._changed |= VIEWS

    def _time(self, event: ev.ModelTimed) -> None:
        self.latency.append((event.t_s, event.ms))
        self._runs_ms.extend(event.runs_ms or (event.ms,))
        self.estimate = Estimate.of(self._runs_ms)
        self._timed_gflops = self._model_gflops(event.ms)
        self._changed |= {"latency", "phase"}
        if event.steps_ms and self.model:
            self.take_profile(event.steps_ms)

    def _compare(self, event: ev.ModelCompared) -> None:
        """Pairs hold the latest runs with the kernels of now, and those alone count."""
        self.compared = event
        if event.after_ms:
            self._runs_ms.clear()
            self._runs_ms.extend(event.after_ms)
            self.estimate = Estimate.of(event.after_ms)
            self.latency.append((event.t_s, event.after_ms[-1]))
        self._changed |= {"latency", "phase"}

    def take_profile(self, steps_ms: Sequence[float]) -> None:
        """Times of the open model's steps, for shares of workloads and colours of nodes."""
        assert self.model is not None
        steps = self.model.plan.steps
        if len(steps) != len(steps_ms):
            steps = tuple(step for step in steps if step.op == "call")
        if len(steps) != len(steps_ms):
            log.warning("The profile has %d steps, the plan %d.", len(steps_ms), len(steps))
            return
        node_ms: dict[str, float] = {}
        workload_ms: dict[str, float] = {}
        for step, ms in zip(steps, steps_ms, strict=True):
            node_ms[step.node] = node_ms.get(step.node, 0.0) + ms
            workload_ms[step.workload] = workload_ms.get(step.workload, 0.0) + ms
        total = sum(steps_ms)
        for key, workload in self.workloads.items():
            workload.share = workload_ms.get(key, 0.0) / total if total else None
        self.node_ms = MappingProxyType(node_ms)
        self.node_ms_before = self.node_ms_before or self.node_ms
        self._changed |= {"graph", "space"}

    def _reduce_plan(self, event: ev.Event) -> None:
        self.plan = self.plan or PlanProgress()
        self.plan.take(event)
        if isinstance(event, ev.Trying):
            self.set_phase(f"The plan: {event.candidate}")
        self._changed |= {"space", "rounds"}

    def _reduce_workload(self, event: ev.Event) -> None:
        key = getattr(event, "workload", None)
        if key is None:
            return
        workload = self.find(key)
        if workload is None:
            log.warning("An event names a workload that the model does not have: %s", event)
            return
        workload.take(event)
        match event:
            case ev.SpaceBuilt():
                self.set_phase(f"Lite space of {words_of(workload.workload.key)}")
            case ev.Compiled():
                self.set_phase(f"Tuning {words_of(workload.workload.key)}")
            case ev.Swapped():
                self._runs_ms.clear()
            case ev.RoundDone():
                self._model_round(event)
                self._changed |= {"rounds", "phase", "now"}
        self._changed.add("space")

    def _model_round(self, event: ev.RoundDone) -> None:
        """The model's rate after a round, and as it was timed since the one before."""
        self.left = event.t_s, event.left_s
        if not event.model_ms:
            return
        best = max(self._model_gflops(event.model_ms), self.rounds.best)
        number = len(self.rounds) + 1
        self.rounds.append(RoundPoint(number, event.t_s, event.candidate, self._timed_gflops, best))
        self._timed_gflops = 0.0

    def _model_gflops(self, ms: float) -> float:
        flops = sum(w.workload.flops * w.workload.uses for w in self.workloads.values())
        return flops / ms / 1e6 if ms else 0.0


_END = {
    "time": "Done: the time was used up",
    "converged": "Done: nothing more to gain is expected",
    "exhausted": "Done: every candidate was tried",
    "cancelled": "Stopped",
}
