"""The parts of a session: priority, choice of candidates, queue, evaluator, summary."""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tuner_fakes import DEVICE, TUNABLE, FakeCompiler, FakeRunner, Stage

from nnjit_studio.errors import BugError, CompileError
from nnjit_studio.model import Plan, PlanStep, Workload
from nnjit_studio.records import (
    CompileResult,
    Fixture,
    Kernel,
    KernelKey,
    MeasurePolicy,
    RunResult,
)
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.space.lite_space import build_lite_space
from nnjit_studio.tuner.baseline import state_of
from nnjit_studio.tuner.evaluator import Evaluator, at_once
from nnjit_studio.tuner.events import Measured
from nnjit_studio.tuner.queue import KernelQueue
from nnjit_studio.tuner.search.task_scheduler import (
    FIRST_LOOK,
    MIN_GAIN,
    MIN_MODEL_GAIN,
    MIN_ROUNDS,
    WorkloadState,
    model_ms,
    next_turn,
    shares_of,
)
from nnjit_studio.tuner.summary import Statistics, compile_summary, seconds_to_within
from nnjit_studio.tuner.swap_policy import SwapPolicy, decide
from nnjit_studio.tuner.timing import time_model, timing_runs
from nnjit_studio.tuner.whole.pairs import middle_ms

BIG, SMALL = TUNABLE
TILE = Candidate(8, 6, 4, 8, 6, 768)


def state(workload: Workload, **values: float) -> WorkloadState:
    compiled = FakeCompiler().compile(workload, None, ("simd128",))
    key = KernelKey.of(workload, DEVICE, "simd128", "test-1")
    found = state_of(compiled, workload, key)
    found.pending = list(build_lite_space(workload, DEVICE, workload is BIG).entries)
    found.default_ms = found.best_ms = 10.0
    for name, value in values.items():
        setattr(found, name, value)
    return found


def test_the_number_of_threads_is_part_of_a_kernels_identity() -> None:
    keys = [
        KernelKey.of(BIG, replace(DEVICE, target=target, threads=threads), "simd128", "test-1")
        for target in ("embedded", "/opt/browsers/b2t")
        for threads in (1, 2, 16)
    ]
    assert len(set(keys)) == 6
    assert [key.threads for key in keys] == [1, 2, 16] * 2


def test_a_rate_is_impossible_above_the_peak_of_all_threads() -> None:
    ms = BIG.flops / 1e6 / 150  # 150 GFLOP/s
    result = RunResult(BIG.key, str(TILE), "simd128", (ms,), (), 1, 0.5, True)
    device = replace(DEVICE, peak_gflops={"simd128": 100.0})
    assert decide(result, BIG.flops, device.peak("simd128")).state == "impossible"
    device = replace(device, threads=2)
    assert decide(result, BIG.flops, device.peak("simd128")).state == "won"


def test_shares_follow_the_steps() -> None:
    plan = Plan(
        "toy",
        (),
        (),
        (),
        (PlanStep("call", "a"), PlanStep("call", "b"), PlanStep("call", "a"), PlanStep("return")),
        0,
        0,
    )
    assert shares_of(plan, (1.0, 2.0, 5.0)) == {"a": 0.75, "b": 0.25}
    assert shares_of(plan, (0.0, 0.0, 0.0)) == {
        "a": pytest.approx(2 / 3),
        "b": pytest.approx(1 / 3),
    }
    assert shares_of(plan, (0.0, 2.0, 0.0)) == {"a": 0.5, "b": 0.5}, "the clock saw one of three"
    with pytest.raises(BugError, match="2 steps of a plan with 3"):
        shares_of(plan, (1.0, 2.0))


def test_priority_falls_with_the_expected_gain_and_with_what_was_saved() -> None:
    fresh = state(BIG, share=0.8, gain=0.5)
    assert fresh.priority == pytest.approx(0.4)
    assert state(BIG, share=0.8, gain=0.1).priority < fresh.priority
    fresh.log_rates = {"default": 0.0, str(TILE): math.log(5)}
    fresh.incumbent = replace(fresh.incumbent, candidate=TILE)
    assert fresh.priority == pytest.approx(0.08)


def test_first_a_round_for_each_then_the_highest_priority_until_nothing_is_expected() -> None:
    big, small = state(BIG, share=0.9), state(SMALL, share=0.1)
    big.gain, small.gain = 0.1, 0.5
    big.candidates = small.candidates = 100
    assert next_turn([small, big]) is small, "whatever their measured shares are"
    small.swept = True
    assert next_turn([small, big]) is big
    big.swept = True
    assert next_turn([small, big]) is big
    big.gain = MIN_GAIN / 2
    assert big.converged and next_turn([small, big]) is small
    big.exploit = big.pending[:1]
    assert not big.converged, "what won elsewhere is tried whatever the regression expects"
    big.exploit = []
    small.gain = MIN_MODEL_GAIN / small.share / 2
    assert next_turn([small, big]) is None


def test_with_a_budget_all_get_their_rounds_and_exhaustive_goes_to_the_end() -> None:
    big, small = state(BIG, share=0.9), state(SMALL, share=0.1)
    for each in (big, small):
        each.swept, each.gain, each.candidates = True, 0.0, len(each.pending) + FIRST_LOOK
    assert next_turn([big, small]) is None
    assert next_turn([big, small], minimum=True) is big
    del big.pending[FIRST_LOOK - MIN_ROUNDS :]
    assert next_turn([big, small], minimum=True) is small
    del small.pending[FIRST_LOOK - MIN_ROUNDS :]
    assert next_turn([big, small], minimum=True) is None
    assert next_turn([big, small], minimum=True, exhaustive=True) is big
    big.pending, small.pending = [], []
    assert next_turn([big, small], minimum=True, exhaustive=True) is None


def test_an_exhaustive_sweep_leaves_out_nobody_however_small_its_share() -> None:
    big, small = state(BIG, share=1.0), state(SMALL, share=MIN_MODEL_GAIN / 2)
    big.swept = True
    assert small.converged and next_turn([big, small]) is big
    assert next_turn([big, small], exhaustive=True) is small
    small.swept = True
    assert next_turn([big, small], exhaustive=True) is big


def test_a_first_look_is_taken_though_one_measurement_promises_nothing() -> None:
    some = state(BIG, share=0.9, gain=0.0)
    some.candidates = len(some.pending) + FIRST_LOOK - 1
    assert not some.converged
    some.share = MIN_MODEL_GAIN / 2
    assert some.converged


def test_the_model_is_estimated_from_shares_and_chained_speedups() -> None:
    big, small = state(BIG, share=0.8), state(SMALL, share=0.1)
    assert model_ms(50.0, [big, small]) == pytest.approx(50)
    big.log_rates = {"default": 1.0, str(TILE): 1.0 + math.log(4)}
    big.incumbent = replace(big.incumbent, candidate=TILE)
    assert model_ms(50.0, [big, small]) == pytest.approx(50 * 0.4)


def test_seconds_until_the_estimate_stays_within_three_percent() -> None:
    assert seconds_to_within([], 0.03) == 0
    assert seconds_to_within([(0.5, 10.0)], 0.03) == 0.5
    dips = [(0.0, 20.0), (1.0, 10.1), (2.0, 12.0), (3.0, 10.2), (4.0, 10.0)]
    assert seconds_to_within(dips, 0.03) == 3.0


class SlowCompiler(FakeCompiler):
    def compile(
        self, workload: Workload, candidate: Candidate | None, tiers: Sequence[str]
    ) -> CompileResult:
        time.sleep(0.005)
        return super().compile(workload, candidate, tiers)


def test_queue_keeps_the_order_and_its_bound() -> None:
    compiler = SlowCompiler()
    candidates = [replace(TILE, r0=r) for r in (1, 2, 4, 8)] * 3
    with KernelQueue(compiler, depth=2) as queue:
        for candidate in candidates:
            queue.put(BIG, candidate, ("simd128",))
        for done, candidate in enumerate(candidates):
            assert len(compiler.built) <= done + 2
            assert queue.get().candidate == candidate
        with pytest.raises(IndexError):
            queue.get()


def test_queue_has_a_thread_for_kernels_and_one_for_references_and_ends_both() -> None:
    seen: dict[str, set[int]] = {"fixture": set(), "compile": set()}

    class Watching(FakeCompiler):
        def fixture(self, workload: Workload) -> Fixture:
            seen["fixture"].add(threading.get_ident())
            return super().fixture(workload)

        def compile(
            self, workload: Workload, candidate: Candidate | None, tiers: Sequence[str]
        ) -> CompileResult:
            seen["compile"].add(threading.get_ident())
            return super().compile(workload, candidate, tiers)

    with KernelQueue(Watching()) as queue:
        queue.put(BIG, TILE, ("simd128",))
        for workload in (BIG, SMALL):
            queue.references.get(workload)
        queue.get()
    ours = {threading.get_ident()}
    assert len(seen["fixture"]) == len(seen["compile"]) == 1
    assert len(seen["fixture"] | seen["compile"] | ours) == 3
    names = [t.name for t in threading.enumerate()]
    assert not any(name.startswith(("compile-ahead", "references")) for name in names)


def test_queue_keeps_fixtures_within_its_bytes() -> None:
    made: list[str] = []

    class Large(FakeCompiler):
        def fixture(self, workload: Workload) -> Fixture:
            made.append(workload.key)
            zeros = np.zeros(100, np.float32)
            return Fixture(workload.key, (), (zeros,), (zeros,))

    with KernelQueue(Large(), cache_bytes=2000) as queue:
        for workload in (BIG, SMALL, BIG, SMALL):
            queue.references.get(workload)
        assert made == [BIG.key, SMALL.key]
    made.clear()
    with KernelQueue(Large(), cache_bytes=1000) as queue:
        for workload in (BIG, BIG, SMALL, BIG):
            queue.references.get(workload)
    assert made == [BIG.key, SMALL.key, BIG.key]


def test_what_the_compiler_raises_reaches_the_session() -> None:
    class Broken(FakeCompiler):
        def compile(
            self, workload: Workload, candidate: Candidate | None, tiers: Sequence[str]
        ) -> CompileResult:
            raise CompileError("The compile process does not start.", "See nnjit doctor.")

    stage = Stage(compiler=Broken())
    events = list(stage.session().run())
    assert [e.name for e in events] == ["started", "failed"]
    assert "does not start" in json_error(events[-1].to_json())


def json_error(event: dict[str, object]) -> str:
    error = event["error"]
    assert isinstance(error, dict)
    return str(error["error"])


def test_an_unbuilt_default_kernel_is_a_bug() -> None:
    broken = CompileResult(BIG.key, None, error="no such op")
    with pytest.raises(BugError, match="no such op"):
        state_of(broken, BIG, KernelKey.of(BIG, DEVICE, "simd128", "test-1"))


class NoisyRunner(FakeRunner):
    """The first pairs meet a busy machine; later ones do not."""

    def measure(
        self, challenger: Kernel, incumbent: Kernel | None, policy: MeasurePolicy
    ) -> RunResult:
        quiet = super().measure(challenger, incumbent, policy)
        if len(self.measured) > 1:
            return quiet
        return replace(quiet, samples_ms=(200.0, 27.0), incumbent_ms=(90.0, 90.0))


def test_an_unproven_gain_gets_more_pairs_and_a_hopeless_one_none() -> None:
    some = state(BIG)
    stage = Stage(device=replace(DEVICE, tiers=("simd128",)))
    runner = NoisyRunner(stage.clock, stage.runner.plan)
    runner.set_fixture(FakeCompiler().fixture(BIG))
    compiled = FakeCompiler().compile(BIG, TILE, ("simd128",))
    context = replace(stage.context, runner=runner)
    compile_now, now_s = stage.compiler.compile, stage.clock.monotonic_s
    evaluator = Evaluator(context, "simd128", SwapPolicy(), compile_now, now_s)
    measured = at_once(evaluator.challenge(compiled, some, MeasurePolicy(max_ms=10_000.0)))
    assert measured.state == "won"
    assert len(measured.samples_ms) == 16
    assert len(runner.measured) == 4  # after 2, 4, 8 and 16 pairs
    assert measured.samples_ms[0] == 200.0
    slow = FakeCompiler().compile(BIG, replace(TILE, r0=8), ("simd128",))
    runner.speed = lambda workload, candidate: 90.0 * (1 if candidate is None else 1.2)
    measured = at_once(evaluator.challenge(slow, some, MeasurePolicy()))
    assert measured.state == "slower"
    assert len(measured.samples_ms) == 2
    assert len(runner.measured) == 5


def test_a_slow_model_is_timed_less_often() -> None:
    stage = Stage()
    list(stage.session(cancelled=lambda: bool(stage.runner.swaps)).run())
    runs, steps = time_model(stage.runner, {}, limit_s=100.0)
    assert len(runs) == 10
    assert len(steps) == len(stage.runner.plan.steps) - 1
    for limit_s, few in ((1.0, 2), (0.01, 1)):
        before = stage.runner.inferences
        runs, steps = time_model(stage.runner, {}, limit_s=limit_s)
        assert len(runs) == 1 and len(steps) == len(stage.runner.plan.steps) - 1
        assert stage.runner.inferences - before == timing_runs(runs[0], limit_s) == few


def test_a_model_shorter_than_the_clocks_tick_has_a_time() -> None:
    stage, tick = Stage(), 0.1
    list(stage.session(cancelled=lambda: bool(stage.runner.swaps)).run())
    stage.runner.speed = lambda workload, candidate: 0.001
    stage.runner.tick_ms = tick
    run_ms = 0.001 * (len(stage.runner.plan.steps) - 1)
    runs, _ = time_model(stage.runner, {}, limit_s=5.0)
    assert statistics.median(runs) == 0 and set(runs) <= {0, tick}
    assert middle_ms(runs) == pytest.approx(run_ms, rel=0.1)


def test_a_candidate_that_is_measured_again_is_counted_once() -> None:
    found = Statistics()
    for candidate, state in (("a", "not told apart"), ("a", "slower"), ("b", "slower")):
        found.note(Measured(0.0, "w", candidate, state, "", 1.0, 1.0))
    found.note(Measured(0.0, "w", "default", "default", "", 1.0, 1.0))
    assert (found.outcomes, found.undecided) == ({"slower": 2}, 0)


def test_compile_summary() -> None:
    assert compile_summary([]) == {"median": 0.0, "p99": 0.0}
    found = compile_summary([float(i) for i in range(101)])
    assert found == {"median": 50.0, "p99": 99.0}
