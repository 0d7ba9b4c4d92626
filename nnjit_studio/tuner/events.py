"""The one stream of events that window, command line and tests consume."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True)
class Event:
    """Base: ``t_s`` is seconds since the session began, ``name`` is that of its kind in JSON."""

    name: ClassVar[str]
    t_s: float

    def __init_subclass__(cls, name: str) -> None:
        cls.name = name

    def to_json(self) -> dict[str, Any]:
        return {"event": self.name, **asdict(self)}


@dataclass(frozen=True)
class SessionStarted(Event, name="started"):
    """Model and target are ready; ``workloads`` are keys, most work first."""

    model: str
    workloads: tuple[str, ...]
    target: dict[str, Any]


@dataclass(frozen=True)
class KnownCandidate:
    """What the database holds of a candidate; ``state`` as in ``TuningRecord``."""

    candidate: str
    state: str
    gflops: float
    ms: float


@dataclass(frozen=True)
class SpaceBuilt(Event, name="space"):
    """The lite space of a workload: settings in order, the reason of each, naive size.

    ``known`` counts candidates whose measurement the database already holds;
    ``results`` tells those measurements.
    """

    workload: str
    candidates: tuple[str, ...]
    reasons: tuple[str, ...]
    naive_size: int
    known: int
    results: tuple[KnownCandidate, ...] = ()


@dataclass(frozen=True)
class Trying(Event, name="trying"):
    """What begins now: ``phase`` is one of :data:`PHASES`.

    ``check`` takes the first ``pairs`` of samples too; ``duel`` goes on to so many because
    it is not settled yet. ``timing`` is of the whole model and names no candidate.
    """

    workload: str
    candidate: str
    phase: str
    pairs: int = 0


PHASES = ("compile", "check", "duel", "timing")


@dataclass(frozen=True)
class Paused(Event, name="paused"):
    """The session rests until its consumer asks for the next event; the model is free meanwhile."""


@dataclass(frozen=True)
class Resumed(Event, name="resumed"):
    """It goes on after ``paused_s`` seconds, which count neither in ``t_s`` nor in the budget."""

    paused_s: float


@dataclass(frozen=True)
class ModelTimed(Event, name="model"):
    """Latency of the whole model: median of ``runs_ms``, and ms by step (plan order)."""

    ms: float
    runs_ms: tuple[float, ...]
    steps_ms: tuple[float, ...] = ()


@dataclass(frozen=True)
class Compiled(Event, name="compiled"):
    workload: str
    candidate: str
    ms: float
    nbytes: int
    pass_ms: dict[str, float] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class Measured(Event, name="measured"):
    """One candidate's verdict; ``state`` as in ``TuningRecord``.

    Entry i of ``samples_ms`` and of ``incumbent_ms`` is one pair. ``gpu_clock`` and
    ``pipeline_ms`` are of GPU kernels, as in ``RunResult``.
    """

    workload: str
    candidate: str
    state: str
    reason: str
    gflops: float
    ms: float
    samples_ms: tuple[float, ...] = ()
    speedup: float = 0.0
    speedup_low: float = 0.0
    speedup_high: float = 0.0
    error_ratio: float = 0.0
    incumbent_ms: tuple[float, ...] = ()
    gpu_clock: str = ""
    pipeline_ms: float = 0.0


@dataclass(frozen=True)
class Drift(Event, name="drift"):
    """The sentinel kernel's rate or the page's surroundings have changed.

    ``rate`` is a share of the usual one; ``doubtful`` are workload and candidate
    of what was measured since it was last usual: they are measured again next.
    """

    what: str
    rate: float
    doubtful: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Swapped(Event, name="swapped"):
    """A kernel was registered in the running engine."""

    workload: str
    candidate: str
    gflops_before: float
    gflops: float
    from_database: bool = False


@dataclass(frozen=True)
class RoundDone(Event, name="round"):
    """A tuning round ended: one candidate selected, compiled and measured.

    ``best_gflops`` is the highest rate at which an incumbent of this session won; it
    never falls, though ``best_candidate``, the incumbent now, may have been measured
    below it when the machine was slower. ``model_ms`` estimates the whole model with the
    incumbents of now, ``left_s`` the seconds to the summary; None before that can be told.
    """

    workload: str
    round: int
    candidate: str
    gflops: float
    best_gflops: float
    best_candidate: str
    remaining: int
    model_ms: float = 0.0
    left_s: float | None = None


@dataclass(frozen=True)
class WorkloadSummary:
    workload: str
    uses: int
    rounds: int
    candidates: int
    gflops: dict[str, float]  # "before", "after"
    ms: dict[str, float]  # "before", "after"
    best: str
    share: float  # of the model's time before tuning, 0..1


@dataclass(frozen=True)
class Finished(Event, name="summary"):
    """The summary; ``reason`` is ``time``, ``converged``, ``exhausted`` or ``cancelled``.

    ``seconds_to_within_3_percent``: when the estimate of the model's time came within
    3 % of its last value, counted as the budget is: from the lite spaces on.
    ``pipeline_ms`` is what the GPU's own compiler took for a kernel; empty on Wasm.
    ``late_share`` is the share of the rounds' measuring in which the GPU had finished
    and was not noticed.
    """

    reason: str
    model: str
    model_ms: dict[str, float]  # "before", "after"
    compile_ms: dict[str, float]  # "median", "p99"
    seconds_to_best: float
    workloads: tuple[WorkloadSummary, ...]
    target: dict[str, Any]
    seconds_to_within_3_percent: float = 0.0
    pipeline_ms: dict[str, float] = field(default_factory=dict)  # "median", "p99"
    late_share: float = 0.0


@dataclass(frozen=True)
class Served(Event, name="served"):
    """Inferences of the serving model since the last of these events; ms from request to answer.

    ``p95_reference`` is that of recent inferences which no tuning touched, None
    before there are enough; ``duty`` the share of the time that tuning had in the
    page; ``generations`` how many swaps came before each inference.
    """

    inferences: int
    p50_ms: float
    p95_ms: float
    p95_reference_ms: float | None
    duty: float
    latencies_ms: tuple[float, ...] = ()
    generations: tuple[int, ...] = ()


@dataclass(frozen=True)
class FellBack(Event, name="fell_back"):
    """The GPU was given up, for ``reason``; the model runs on in the Wasm of ``target``."""

    reason: str
    target: str


@dataclass(frozen=True)
class Failed(Event, name="failed"):
    """The session cannot go on; the error in its one JSON form."""

    error: dict[str, Any]
