"""Protocols of the rooms that the tuner works with: compiler, page, database, clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from nnjit_studio.model import Plan, Workload
from nnjit_studio.records import (
    CompileResult,
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
from nnjit_studio.records.gpu_candidate import AnyCandidate


class Compiler(Protocol):
    """The compile process. A failed build is a result with an error, not an exception."""

    @property
    def version(self) -> str: ...

    def compile(
        self, workload: Workload, candidate: AnyCandidate | None, tiers: Sequence[str]
    ) -> CompileResult: ...

    def fixture(self, workload: Workload) -> Fixture:
        """Raises ``CompileError`` where there is none. It may take minutes, beside other jobs."""

    def drop_reference(self, workload: str) -> None:
        """End the fixture that is being made, if it is of this key: who waits for it gets a
        ``CompileError``. For any thread.
        """


class Measures(Protocol):
    """What takes samples of two kernels in turns."""

    def measure(
        self, challenger: Kernel, incumbent: Kernel | None, policy: MeasurePolicy
    ) -> RunResult: ...


class Runner(Measures, Protocol):
    """The engine page. A failed measurement is a result with an error, not an exception."""

    def load(self, plan: Plan, weights: Path) -> None: ...

    def register(self, kernels: Sequence[Kernel]) -> None:
        """Hot swap: takes effect at the next inference boundary, before this returns."""

    def infer(
        self, feeds: Mapping[str, NDArray[Any]], runs: int = 1, profile: bool = False
    ) -> Inference: ...

    def trial(
        self, feeds: Mapping[str, NDArray[Any]], kernels: Sequence[Kernel], policy: MeasurePolicy
    ) -> Trial:
        """The model with these kernels and without them, in turns; none is registered."""

    def set_fixture(self, fixture: Fixture) -> None: ...

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        """Kernels that will be measured on the current fixture soon; returns at once."""

    def pulse(self, tier: str) -> Pulse:
        """How fast the tier's peak kernel runs now; about 10 ms, 40 the first time."""

    def within(self, left_s: Callable[[], float | None]) -> Runner:
        """The same page, whose calls raise ``PageError`` when so many seconds are over."""


class Records(Protocol):
    """The kernel database as the tuner sees it."""

    def commit_record(self, record: TuningRecord) -> object:
        """Durable when it returns."""

    def records(self, key: KernelKey) -> Sequence[TuningRecord]:
        """All records of a key, oldest first."""

    def history(self, workloads: Sequence[Workload]) -> Sequence[TuningRecord]:
        """Records of the kinds of these workloads under any key, oldest first, without modules."""


class Clock(Protocol):
    """Monotonic seconds, and the wall clock as ISO 8601 in UTC."""

    def monotonic_s(self) -> float: ...

    def now_iso(self) -> str: ...

    def wait(self, done: Future[Any], seconds: float) -> None:
        """Until it is done, at most so long."""
