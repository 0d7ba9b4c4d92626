"""Fakes of the rooms that a tuning session works with; time passes only where they say."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.errors import CompileError, PageError
from nnjit_studio.model import Plan, PlanStep, Workload
from nnjit_studio.records import (
    CompileResult,
    DeviceProfile,
    Fixture,
    Inference,
    Kernel,
    KernelKey,
    MeasurePolicy,
    Pulse,
    RunResult,
    Trial,
    TuningRecord,
)
from nnjit_studio.records.candidate import Candidate, settings_of
from nnjit_studio.tuner import TunedModel, TuneOptions, TuningContext, TuningSession

BIG = Workload("matmul", (384, 768, 768), "f32", fingerprint="aa", uses=4, flops=453_000_000)
SMALL = Workload("batch_matmul", (12, 64, 64, 64), "f32", fingerprint="bb", flops=6_000_000)
SOFTMAX = Workload("softmax", (12, 64, 64), "f32", fingerprint="cc")
TUNABLE = tuple(
    Workload(w.kind, w.dims, w.dtype, (), w.fingerprint, w.uses, w.flops, True)
    for w in (BIG, SMALL)
)
WORKLOADS = (*TUNABLE, SOFTMAX)
DEVICE = DeviceProfile(
    "cpu",
    "embedded",
    tiers=("simd128", "relaxed-simd"),
    peak_gflops={"simd128": 60.0, "relaxed-simd": 100.0},
)
DEFAULT_MS = {"matmul": 90.0, "batch_matmul": 2.0, "softmax": 0.5}


def best_is_6x8(workload: str, candidate: Candidate | None) -> float:
    """Ms of one run: the 6x8 tile is the fastest, the default schedule the slowest."""
    slow = DEFAULT_MS[workload.split(":")[0]]
    if candidate is None:
        return slow
    tile = {(6, 8): 0.15, (8, 8): 0.3}.get((candidate.y0, candidate.x0), 0.6)
    return slow * (tile + 0.001 * candidate.r0)


class FakeClock:
    """Time passes where somebody says so, or waits for a reference that takes long."""

    def __init__(self) -> None:
        self._now_s = 100.0
        self.making: dict[str, tuple[float, threading.Event]] = {}
        """When the reference of a workload will be there, and what says so."""

    @property
    def now_s(self) -> float:
        return self._now_s

    @now_s.setter
    def now_s(self, now_s: float) -> None:
        self._now_s = now_s
        for due_s, there in list(self.making.values()):
            if due_s <= now_s:
                there.set()

    def monotonic_s(self) -> float:
        return self.now_s

    def now_iso(self) -> str:
        return "2026-11-21T00:00:00Z"

    def wait(self, done: Future[Any], seconds: float) -> None:
        end_s = self.now_s + max(seconds, 1e-6)  # less is lost in the sum
        while not done.done() and self.now_s < end_s:
            futures.wait([done], timeout=0.05)  # the thread that does it may only begin now
            dues_s = [due_s for due_s, there in list(self.making.values()) if not there.is_set()]
            if not done.done() and dues_s:
                self.now_s = min(end_s, max(self.now_s, min(dues_s)))
                futures.wait([done], timeout=0.01)


@dataclass
class FakeCompiler:
    """Bytes spell the settings; ``fails`` and ``same_bytes`` pick candidates by a test."""

    version: str = "test-1"
    fails: Callable[[Candidate], bool] = lambda c: False
    same_bytes: Callable[[Candidate], bool] = lambda c: False
    built: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    takes: Callable[[str], float] = lambda workload: 0.0
    """Seconds of the clock until the reference of a workload is there, by its key."""
    clock: FakeClock = field(default_factory=FakeClock)
    dropped: list[str] = field(default_factory=list)

    def compile(
        self, workload: Workload, candidate: Candidate | None, tiers: Sequence[str]
    ) -> CompileResult:
        self.built.append((workload.key, settings_of(candidate), tuple(tiers)))
        if candidate is not None and self.fails(candidate):
            return CompileResult(workload.key, candidate, error="too many locals")
        same = candidate is not None and self.same_bytes(candidate)
        spelled = "same" if same else settings_of(candidate)
        kernels = []
        for tier in tiers:
            data = f"{workload.key} {spelled} {tier}".encode()
            sha = hashlib.sha256(data).hexdigest()
            kernels.append(Kernel(workload.key, candidate, tier, data, sha))
        return CompileResult(workload.key, candidate, tuple(kernels), ms=4.0)

    def fixture(self, workload: Workload) -> Fixture:
        key = workload.key
        if (takes_s := self.takes(key)) > 0:
            there = threading.Event()
            self.clock.making[key] = self.clock.now_s + takes_s, there
            in_time = there.wait(120)
            del self.clock.making[key]
            assert in_time, "nobody let time pass"
        if key in self.dropped:
            raise CompileError("The compile process died.")
        return Fixture(workload.key, (), (np.zeros(4),), (np.ones(4, np.float32),))

    def drop_reference(self, workload: str) -> None:
        if workload in self.clock.making:
            self.dropped.append(workload)
            self.clock.making[workload][1].set()


@dataclass
class FakeRunner:
    """A page whose kernels take the time that ``speed`` says; ``round_s`` passes a measurement."""

    clock: FakeClock
    plan: Plan
    speed: Callable[[str, Candidate | None], float] = best_is_6x8
    wrong: Callable[[Kernel], bool] = lambda k: False
    crashes_after: int | None = None
    round_s: float = 0.2
    registered: dict[str, Kernel] = field(default_factory=dict)
    swaps: list[Kernel] = field(default_factory=list)
    fixtures: list[str] = field(default_factory=list)
    measured: list[tuple[str, str]] = field(default_factory=list)
    inferences: int = 0
    tick_ms: float = 0.0
    """Of the page's clock, which tells runs in whole ticks; 0 tells them as they are."""
    pulse_of: Callable[[int], Pulse] = lambda n: Pulse(90.0)
    pulses: int = 0
    prepared: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    in_place: Callable[[str, Candidate | None], float] | None = None
    left_s: Callable[[], float | None] = lambda: None

    def within(self, left_s: Callable[[], float | None]) -> FakeRunner:
        self.left_s = left_s
        return self

    def takes(self, seconds: float) -> None:
        """So many seconds pass, or those that are left."""
        left_s = self.left_s()
        if left_s is not None and seconds > left_s:
            self.clock.now_s += max(0.0, left_s)
            raise PageError("The page did not answer in time.")
        self.clock.now_s += seconds

    def load(self, plan: Plan, weights: Path) -> None:
        self.plan = plan

    def register(self, kernels: Sequence[Kernel]) -> None:
        self.swaps.extend(kernels)
        self.registered |= {k.workload: k for k in kernels}

    def infer(
        self, feeds: Mapping[str, NDArray[Any]], runs: int = 1, profile: bool = False
    ) -> Inference:
        kernels = [self.registered[s.workload] for s in self.plan.steps if s.op == "call"]
        steps_ms = tuple(self.speed(k.workload, k.candidate) for k in kernels)
        self.takes(runs * sum(steps_ms) / 1000)
        self.inferences += runs
        return Inference({}, self._told(sum(steps_ms), runs), steps_ms if profile else ())

    def _told(self, run_ms: float, runs: int) -> tuple[float, ...]:
        if not self.tick_ms:
            return (run_ms,) * runs
        ticks = [int(i * run_ms / self.tick_ms) for i in range(runs + 1)]
        return tuple((b - a) * self.tick_ms for a, b in pairwise(ticks))

    def trial(
        self, feeds: Mapping[str, NDArray[Any]], kernels: Sequence[Kernel], policy: MeasurePolicy
    ) -> Trial:
        self.takes(0.1)
        self.tried += [kernel.settings for kernel in kernels]
        now = [self.registered[k.workload] for k in kernels]

        def samples(some: Sequence[Kernel], shift: int) -> tuple[float, ...]:
            place = self.in_place or self.speed
            ms = sum(place(k.workload, k.candidate) for k in some)
            return tuple(ms * (1 + 0.002 * ((i + shift) % 3)) for i in range(policy.pairs))

        return Trial("windows", 1, samples(kernels, 0), samples(now, 1))

    def set_fixture(self, fixture: Fixture) -> None:
        self.fixtures.append(fixture.workload)

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        self.prepared += [kernel.settings for kernel in kernels]

    def pulse(self, tier: str) -> Pulse:
        self.pulses += 1
        return self.pulse_of(self.pulses)

    def measure(
        self, challenger: Kernel, incumbent: Kernel | None, policy: MeasurePolicy
    ) -> RunResult:
        assert self.fixtures[-1] == challenger.workload
        self.takes(self.round_s)
        self.measured.append((challenger.workload, challenger.settings))
        if self.crashes_after is not None and len(self.measured) > self.crashes_after:
            raise PageError("The page went silent.", "Start it again.")
        jitter = [1 + 0.002 * (i % 3) for i in range(policy.pairs)]

        def samples(kernel: Kernel) -> tuple[float, ...]:
            return tuple(self.speed(kernel.workload, kernel.candidate) * j for j in jitter)

        wrong = self.wrong(challenger)  # the page takes no samples of such a kernel
        return RunResult(
            challenger.workload,
            challenger.settings,
            challenger.tier,
            () if wrong else samples(challenger),
            samples(incumbent) if incumbent and not wrong else (),
            batch=8,
            error_ratio=float("inf") if wrong else 0.2,
            guard_ok=True,
        )


@dataclass
class FakeRecords:
    rows: list[TuningRecord] = field(default_factory=list)

    def commit_record(self, record: TuningRecord) -> None:
        self.rows.append(record)

    def records(self, key: KernelKey) -> Sequence[TuningRecord]:
        return [r for r in self.rows if r.key == key]

    def history(self, workloads: Sequence[Workload]) -> Sequence[TuningRecord]:
        return [r for r in self.rows if r.key.kind in {w.kind for w in workloads}]

    def states(self) -> set[str]:
        return {r.state for r in self.rows}


@dataclass
class Stage:
    """Everything around one session; a later session may share the records."""

    workloads: Iterable[Workload] = WORKLOADS
    device: DeviceProfile = DEVICE
    records: FakeRecords = field(default_factory=FakeRecords)
    compiler: FakeCompiler = field(default_factory=FakeCompiler)
    runner: FakeRunner = field(init=False)

    def __post_init__(self) -> None:
        steps = [PlanStep("call", w.key) for w in self.workloads for _ in range(w.uses)]
        plan = Plan("toy", (), (), (), (*steps, PlanStep("return")), 0, 0)
        self.runner = FakeRunner(self.clock, plan)

    def session(
        self, seconds: float | None = None, cancelled: Callable[[], bool] = lambda: False, **kw: Any
    ) -> TuningSession:
        kw.setdefault("exhaustive", True)
        packable = frozenset({TUNABLE[0].key})
        model = TunedModel("toy", self.runner.plan, tuple(self.workloads), {}, packable)
        return TuningSession(model, self.context, TuneOptions(seconds=seconds, **kw), cancelled)

    @property
    def clock(self) -> FakeClock:
        return self.compiler.clock

    @property
    def context(self) -> TuningContext:
        return TuningContext(self.runner, self.compiler, self.records, self.device, self.clock)
