"""The one stream of events that window, command line and tests consume."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from nnjit_studio.errors import NnjitError, UserError
from nnjit_studio.records.gain import ModelGain
from nnjit_studio.tuner.in_place import InPlace


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
    """What the database holds of a candidate; ``state`` and the speed-up as in ``TuningRecord``."""

    candidate: str
    state: str
    gflops: float
    ms: float
    speedup: float = 0.0
    speedup_low: float = 0.0
    speedup_high: float = 0.0


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
    it is not settled yet; ``place`` is a winner's trial in the running model, up to so many.
    ``timing`` is of the whole model and names no candidate.
    """

    workload: str
    candidate: str
    phase: str
    pairs: int = 0


PHASES = ("compile", "check", "duel", "place", "timing")


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
class ModelCompared(Event, name="compared"):
    """The model with its first and its tuned kernels, in turns: entry i of both is one pair.

    The only source of a gain of the model; ``gain`` is of all pairs with the kernels of now.
    """

    before_ms: tuple[float, ...]
    after_ms: tuple[float, ...]
    gain: ModelGain


@dataclass(frozen=True)
class MachineSeen(Event, name="machine"):
    """The machine gives the page so much of its usual rate, 0 to 1, by the sentinel's pulses.

    ``warning`` is empty on a quiet machine.
    """

    rate: float
    warning: str = ""


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
    ``pipeline_ms`` are of GPU kernels, as in ``RunResult``. ``in_place`` is of a winner of the
    samples that was tried in the running model; if it was not faster there, its state and its
    speed-up are those of the trial.
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
    in_place: InPlace | None = None


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

    Rates are comparable: the first kernel's times the speed-ups of the duels since, so that
    the machine's drift is not in them; what did not prove to be faster counts no higher than
    the kernel that it met. ``best_gflops`` is the highest of them so far. ``model_ms``
    estimates the whole model with the incumbents of now, ``left_s`` the seconds to the summary;
    None before that can be told.
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
    speedup: tuple[float, float, float] | None = None
    """Of the kernels by their duels, with the interval; None where it is not known, and 1, 1, 1
    where no kernel was replaced. What is before times it is after."""
    checked: bool = True
    """False: its check did not end within the budget, so it was not tuned."""


@dataclass(frozen=True)
class Finished(Event, name="summary"):
    """The summary; ``reason`` is ``time``, ``converged``, ``exhausted`` or ``cancelled``.

    ``seconds_to_within_3_percent``: when the estimate of the model's time came within
    3 % of its last value, counted from the lite spaces on.
    ``pipeline_ms`` is what the GPU's own compiler took for a kernel; empty on Wasm.
    ``late_share`` is the share of the rounds' measuring in which the GPU had finished
    and was not noticed. ``gain`` is the only statement about the model's speed-up: the ratio of
    ``model_ms`` is none. ``outcomes`` counts this session's candidates by their states,
    ``undecided`` those that seem faster, but not beyond the noise; they are tried again.
    ``of_peak`` is the share of the device's peak at which the tuned kernels run, None where
    that is not known, and ``warning`` says that the machine was busy.
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
    gain: ModelGain = field(default_factory=ModelGain)
    outcomes: dict[str, int] = field(default_factory=dict)
    kept: int = 0
    of_peak: float | None = None
    warning: str = ""
    undecided: int = 0


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
class PlanSettled(Event, name="plan"):
    """The choices of the import were measured, as far as there was time.

    ``settings`` are those that differ from their rules, ``rule`` without any; ``reason`` is
    ``converged``, ``time`` or ``cancelled``; ``tried`` plans of all sessions, of ``ways`` that
    all choices together make; ``speedup`` is the product of this session's winners.
    """

    plan: str
    settings: str
    reason: str
    rounds: int
    tried: int
    ways: int
    speedup: float


@dataclass(frozen=True)
class FellBack(Event, name="fell_back"):
    """The GPU was given up, for ``reason``; the model runs on in the Wasm of ``target``."""

    reason: str
    target: str


@dataclass(frozen=True)
class Failed(Event, name="failed"):
    """The session cannot go on; the error in its one JSON form."""

    error: dict[str, Any]

    @property
    def cause(self) -> NnjitError:
        """The exception that the error stands for: of its kind."""
        raised = UserError if self.error["kind"] == UserError.kind else NnjitError
        return raised(self.error["error"], self.error["hint"])
