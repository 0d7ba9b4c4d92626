"""The lie test on an injected clock: a busy machine whose true ratios are known."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pytest
from lies import (
    BusySession,
    Judged,
    Shown,
    counts,
    old_headline,
    ratios_shown,
)
from numpy.typing import NDArray
from tuner_fakes import TUNABLE, FakeRunner, Stage

from nnjit_studio.records import Inference, Kernel, MeasurePolicy, Pulse, RunResult
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.estimate import Ratio
from nnjit_studio.records.gain import ModelGain
from nnjit_studio.records.gpu_candidate import parse_candidate
from nnjit_studio.tuner.events import Event, ModelCompared, Swapped

CORES, SLICE_MS = 2, 3.0
PEAK = 90.0


@dataclass
class BusyRunner(FakeRunner):
    """A page on a core that other programs take in slices, and whose clock rate drifts.

    ``busy`` of a moment is how many programs want the cores; time is the fake clock's.
    """

    random: random.Random = field(default_factory=random.Random)
    busy_of: Any = lambda now_s: 0.0
    left_ms: float = 0.0
    """Of the slice that the page has now."""

    def passed(self, work_ms: float) -> float:
        """Milliseconds by the page's clock that some work takes from now on."""
        busy = max(0.0, self.busy_of(self.clock.now_s) + 1 - CORES)
        total = work_ms * self.random.lognormvariate(0, 0.01)
        if busy:
            while self.left_ms < work_ms:
                self.left_ms += self.random.expovariate(1 / SLICE_MS)
                total += self.random.expovariate(1 / (busy / CORES * SLICE_MS))
            self.left_ms -= work_ms
        self.clock.now_s += total / 1000
        return total

    def model_ms(self) -> float:
        """Of a run on a quiet machine, with the kernels of now."""
        kernels = [self.registered[s.workload] for s in self.plan.steps if s.op == "call"]
        return sum(self.speed(k.workload, k.candidate) for k in kernels)

    def infer(
        self, feeds: Mapping[str, NDArray[Any]], runs: int = 1, profile: bool = False
    ) -> Inference:
        inference = super().infer(feeds, 0, profile)
        runs_ms = tuple(self.passed(self.model_ms()) for _ in range(runs))
        return Inference({}, runs_ms, inference.steps_ms)

    def pulse(self, tier: str) -> Pulse:
        taken = [self.passed(2.0) for _ in range(5)]
        rate = 2.0 * PEAK
        return Pulse(rate / statistics.median(taken), throughput=rate / statistics.mean(taken))

    def measure(
        self, challenger: Kernel, incumbent: Kernel | None, policy: MeasurePolicy
    ) -> RunResult:
        quiet = super().measure(challenger, incumbent, policy)
        samples = [self.passed(8 * ms) / 8 for ms in quiet.samples_ms]
        others = [self.passed(8 * ms) / 8 for ms in quiet.incumbent_ms]
        return replace(quiet, samples_ms=tuple(samples), incumbent_ms=tuple(others))


def near(seed: int) -> Any:
    """Candidates that are a few percent better or worse than the default, as desktops have them."""

    def speed(workload: str, candidate: Candidate | None) -> float:
        base = 9.0 if workload.startswith("matmul") else 0.4
        if candidate is None:
            return base
        draw = random.Random(f"{seed} {workload} {candidate}").gauss(1.0, 0.1)
        return base * max(0.7, draw)

    return speed


def session(seed: int, programs: float) -> tuple[list[Event], list[tuple[ModelGain, float]]]:
    """Events of a session among so many programs, and each shown gain with the true ratio."""
    stage = Stage(workloads=TUNABLE)
    rng = random.Random(seed)
    phases = [rng.random() for _ in range(40)]
    stage.runner = BusyRunner(
        stage.clock,
        stage.runner.plan,
        speed=near(seed),
        random=rng,
        # Programs come and go every two seconds.
        busy_of=lambda now_s: programs if phases[int(now_s / 2) % 40] < 0.7 else 0.0,
    )
    events, truths = [], []
    runner = stage.runner
    for event in stage.session(seconds=12.0, exhaustive=False).run():
        events.append(event)
        if isinstance(event, ModelCompared) and event.gain.told_apart:
            default_ms = sum(
                runner.speed(s.workload, None) for s in runner.plan.steps if s.op == "call"
            )
            truths.append((event.gain, default_ms / runner.model_ms()))
    return events, truths


SEEDS = range(17)


@pytest.fixture(scope="module", params=[1, 2, 6])
def campaign(request: pytest.FixtureRequest) -> list[Any]:
    """Sessions among one program, which leaves a core free, two, and six."""
    return [(request.param, *session(seed, request.param)) for seed in SEEDS]


def test_no_session_shows_a_ratio_that_a_quiet_machine_refutes(campaign: list[Any]) -> None:
    shown = [pair for _, _, truths in campaign for pair in truths]
    lies = [(str(gain), truth) for gain, truth in shown if not gain.low <= truth <= gain.high]
    assert lies == []
    if campaign[0][0] == 1:
        assert shown, "a quiet machine shows its gains"


def test_the_headline_of_old_lies_in_the_same_sessions(campaign: list[Any]) -> None:
    """The first timing by the last inference: off by more than a tenth in most busy sessions."""
    programs, off = campaign[0][0], 0
    for seed, (_, events, _) in zip(SEEDS, campaign, strict=True):
        speed = near(seed)
        kernels = {e.workload: parse_candidate(e.candidate) for e in events if type(e) is Swapped}
        first = sum(w.uses * speed(w.key, None) for w in TUNABLE)
        truth = first / sum(w.uses * speed(w.key, kernels.get(w.key)) for w in TUNABLE)
        old = old_headline(events)
        off += old is not None and abs(old / truth - 1) > 0.1
    assert programs == 1 or off > len(SEEDS) / 3


def test_lies_are_counted_by_intervals_that_exclude_the_repetition() -> None:
    quiet = Ratio(1.20, 1.18, 1.22, 40)

    def judged(ratio: float, low: float, high: float, level: float = 0.98) -> Judged:
        outcome = "faster" if low > 1 else "slower" if high < 1 else "not told apart"
        return Judged("m", ModelGain(outcome, ratio, low, high, 24), quiet, level, 0.31)

    found = [
        judged(1.25, 1.15, 1.3),
        judged(1.4, 1.3, 1.5),
        judged(0.8, 0.7, 0.9),
        judged(1.0, 0.9, 1.1),  # no number is shown
        judged(1.4, 1.3, 1.5, level=0.5),  # nobody can judge
    ]
    assert counts(found, [BusySession("m", "faster", (), None)] * 5) == {
        "sessions": 5, "shown": 4, "judged": 3, "lies": 2, "old_judged": 4, "old_lies": 4,
        "too_busy": 0, "not_told_apart": 0,
    }  # fmt: skip


def test_each_set_of_kernels_is_judged_by_its_last_pairs() -> None:
    gains = [ModelGain("faster", r, r - 0.1, r + 0.1, 24) for r in (1.2, 1.3, 1.6)]
    events: list[Event] = [
        Swapped(0.0, "w", "a", 1.0, 2.0),
        ModelCompared(1.0, (), (), gains[0]),
        ModelCompared(2.0, (), (), gains[1]),
        Swapped(3.0, "w", "b", 1.0, 2.0),
        ModelCompared(4.0, (), (), gains[2]),
    ]
    assert [(s.gain.ratio, s.kernels) for s in ratios_shown(events)] == [
        (1.3, (("w", "a"),)),
        (1.6, (("w", "b"),)),
    ]


def test_a_kept_session_is_repeated_with_the_kernels_that_it_showed() -> None:
    shown = Shown(ModelGain("faster", 1.2, 1.1, 1.3, 24, 0.9), (("w", "a"), ("v", "b")))
    session = BusySession("m", "faster", (shown,), 0.31)
    assert BusySession.from_json(json.loads(json.dumps(asdict(session)))) == session
