"""No session is longer than its budget and a fifth, whatever takes long; time is the fakes'."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tuner_fakes import SOFTMAX, TUNABLE, WORKLOADS, FakeCompiler, FakeRecords, Stage, best_is_6x8

from nnjit_studio.analysis.report import unchecked_text
from nnjit_studio.model import Workload
from nnjit_studio.records import CompileResult, Inference, Kernel, MeasurePolicy, RunResult
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.tuner.checks.defaults import CHECK_SHARE, by_cost
from nnjit_studio.tuner.events import (
    Event,
    Failed,
    Finished,
    RoundDone,
    SpaceBuilt,
    Swapped,
    Trying,
)
from nnjit_studio.tuner.session_clock import RESERVED_SHARE, SessionClock

BIG, SMALL = TUNABLE
OVER = 1.2
FOREVER_S = 1e9


def stage_of(takes: Callable[[str], float]) -> Stage:
    return Stage(compiler=FakeCompiler(takes=takes))


def tuned(stage: Stage, seconds: float | None, **options: bool) -> tuple[Finished, list[Event]]:
    began_s = stage.clock.now_s
    events = list(stage.session(seconds, **options).run())
    last = events[-1]
    assert isinstance(last, Finished), last
    assert stage.clock.now_s - began_s == pytest.approx(last.t_s)
    return last, events


@pytest.mark.parametrize("seconds", [0.0, 1.0, 5.0, 10.0, 20.0])
@pytest.mark.parametrize("takes_s", [0.0, 0.7, 8.0, FOREVER_S])
@pytest.mark.parametrize("slower", [1.0, 12.0])
def test_no_session_is_longer_than_its_budget_and_a_fifth(
    seconds: float, takes_s: float, slower: float
) -> None:
    stage = stage_of(lambda key: takes_s)
    stage.runner.speed = lambda workload, candidate: slower * best_is_6x8(workload, candidate)
    last, _ = tuned(stage, seconds)
    # A check that has begun ends: samples of both tiers.
    assert last.t_s <= OVER * seconds + (0.0 if seconds >= 5 else 2 * stage.runner.round_s)


@pytest.mark.parametrize("seconds", [5.0, 10.0, 20.0])
def test_small_workloads_are_tuned_while_the_reference_of_a_large_one_is_made(
    seconds: float,
) -> None:
    stage = stage_of(lambda key: FOREVER_S if key == BIG.key else 0.1)
    last, events = tuned(stage, seconds)
    assert last.reason == "time" and last.t_s <= OVER * seconds
    rounds = {e.workload for e in events if isinstance(e, RoundDone)}
    assert rounds == {SMALL.key} and last.kept == 1
    assert stage.runner.registered[BIG.key].candidate is None, "it is what it was"
    assert not any(r.workload == BIG.key for r in stage.records.rows), "and nothing is known of it"
    assert BIG.key not in stage.runner.fixtures
    assert set(stage.compiler.dropped) == {BIG.key}, "its reference is ended with the session"
    told = {w.workload: w.checked for w in last.workloads}
    assert told[SMALL.key] and not told[BIG.key]
    text = unchecked_text(last.to_json())
    # That of the softmax would have been made behind the large one's.
    names = "matmul:384x768x768:f32, softmax:12x64x64:f32"
    assert text == f"{names} not tuned: their checks did not end within the budget"


def test_a_reference_that_comes_late_is_not_too_late() -> None:
    stage = stage_of(lambda key: 16.0 if key == BIG.key else 0.0)
    last, events = tuned(stage, 40.0)
    spaces = {e.workload: e.t_s for e in events if isinstance(e, SpaceBuilt)}
    assert spaces[SMALL.key] < 16 <= spaces[BIG.key]
    assert {e.workload for e in events if isinstance(e, Swapped)} == {BIG.key, SMALL.key}
    assert all(w.checked for w in last.workloads) and not stage.compiler.dropped
    assert unchecked_text(last.to_json()) == ""
    first = next(e.t_s for e in events if isinstance(e, Trying) and e.workload == BIG.key)
    assert first >= 16 and last.t_s <= OVER * 40


def test_a_wrong_default_kernel_is_found_late_too() -> None:
    stage = stage_of(lambda key: 16.0 if key == BIG.key else 0.0)
    stage.runner.wrong = lambda k: k.workload == BIG.key
    failed = list(stage.session(40.0).run())[-1]
    assert isinstance(failed, Failed) and BIG.name in failed.error["error"]


def test_without_a_budget_every_check_is_waited_for() -> None:
    stage = stage_of(lambda key: 20.0)
    last, events = tuned(stage, None)
    assert all(w.checked for w in last.workloads) and last.kept == 2
    spaces = [e.t_s for e in events if isinstance(e, SpaceBuilt)]
    assert len(spaces) == 2 and min(spaces) > 60, "all before the first"


def test_a_session_goes_on_from_what_is_known_without_the_large_ones_reference() -> None:
    stage = Stage()
    tuned(stage, 6.0)
    known = [r for r in stage.records.rows if r.state == "default"]
    assert len(known) == len(WORKLOADS)
    again = stage_of(lambda key: FOREVER_S if key == BIG.key else 0.1)
    again.records = FakeRecords(known)
    last, events = tuned(again, 10.0)
    assert {e.workload for e in events if isinstance(e, RoundDone)} == {SMALL.key}
    assert last.t_s <= OVER * 10 and all(w.checked for w in last.workloads)


def test_kernels_that_compile_slowly_end_a_session_before_the_model_is_timed() -> None:
    stage = Stage()
    compile_ = stage.compiler.compile

    def slow(workload: Workload, candidate: Candidate | None, tiers: object) -> CompileResult:
        stage.clock.now_s += 4.0
        return compile_(workload, candidate, ("simd128", "relaxed-simd"))

    stage.compiler.compile = slow  # type: ignore[method-assign]
    last, _ = tuned(stage, 5.0)
    assert last.reason == "time" and last.model_ms == {"before": 0.0, "after": 0.0}
    assert stage.runner.inferences == 0


def test_a_request_for_a_workload_waits_for_its_check() -> None:
    stage, own = (
        stage_of(lambda key: 16.0 if key == BIG.key else 0.0),
        Candidate(16, 3, 2, 16, 3, 64),
    )
    session, events = stage.session(40.0), list[Event]()
    session.request(BIG.key, own)
    events = list(session.run())
    done = [e.t_s for e in events if isinstance(e, RoundDone) and e.candidate == str(own)]
    assert len(done) == 1 and done[0] > 16


def test_what_is_tuned_and_small_is_checked_first() -> None:
    assert sorted(WORKLOADS, key=by_cost) == [SMALL, BIG, SOFTMAX]
    assert 0 < CHECK_SHARE < 0.5


def test_a_budget_keeps_a_third_at_most_for_the_last_timing() -> None:
    stage = Stage()
    clock = SessionClock(stage.clock, seconds=9.0)
    assert clock.rounds_s() == 6.0 and not clock.stop(5.9) and clock.stop(6.0) == "time"
    clock.timing_s = 1.0
    assert clock.rounds_s() == 8.0
    clock.set_left(None)
    assert clock.rounds_s() is None and not clock.stop(1e9)


def test_short_rounds_go_on_where_long_ones_would_end_too_late() -> None:
    stage = Stage()
    measure = stage.runner.measure

    def slow(challenger: Kernel, incumbent: Kernel | None, policy: MeasurePolicy) -> RunResult:
        stage.clock.now_s += float(challenger.workload == BIG.key and incumbent is not None)
        return measure(challenger, incumbent, policy)

    stage.runner.measure = slow  # type: ignore[method-assign]
    last, events = tuned(stage, 20.0)
    rounds = [e for e in events if isinstance(e, RoundDone)]
    ends_s = [e.t_s for e in rounds if e.workload == BIG.key]
    assert ends_s[-1] - ends_s[-2] > 20 * (1 - RESERVED_SHARE) - ends_s[-1], "it fits no more"
    assert rounds[-1].workload == SMALL.key and rounds[-1].t_s > ends_s[-1]
    assert last.reason == "time" and last.t_s <= 20


HANGS_S = 60.0


@pytest.mark.parametrize("seconds", [1.0, 5.0, 20.0])
@pytest.mark.parametrize("after", [0, 1, 6])
def test_what_the_page_works_at_is_not_waited_for_behind_the_budget(
    seconds: float, after: int
) -> None:
    """A check on a software adapter once took 15 s of a budget of 10."""
    stage = Stage()
    measure = stage.runner.measure

    def slow(challenger: Kernel, incumbent: Kernel | None, policy: MeasurePolicy) -> RunResult:
        if len(stage.runner.measured) >= after:
            stage.runner.round_s = HANGS_S
        return measure(challenger, incumbent, policy)

    stage.runner.measure = slow  # type: ignore[method-assign]
    last, events = tuned(stage, seconds)
    assert last.reason == "time" and last.t_s <= OVER * seconds
    won = {e.workload: e.candidate for e in events if isinstance(e, Swapped)}
    registered = {key: str(k.candidate) for key, k in stage.runner.registered.items()}
    assert all(registered[key] == candidate for key, candidate in won.items())


def test_the_last_timing_of_a_model_is_not_waited_for_either() -> None:
    stage = Stage()
    infer, began_s = stage.runner.infer, stage.clock.now_s

    def slow(*given: object, **options: object) -> Inference:
        if stage.clock.now_s > began_s + 14:
            stage.runner.takes(HANGS_S)
        return infer(*given, **options)  # type: ignore[arg-type]

    stage.runner.infer = slow  # type: ignore[method-assign]
    last, events = tuned(stage, 20.0)
    assert any(isinstance(e, Swapped) for e in events) and last.kept
    assert last.reason == "time" and last.t_s <= OVER * 20


def test_a_page_that_fails_in_time_fails_the_session() -> None:
    stage = Stage()
    stage.runner.crashes_after = 3
    assert isinstance(list(stage.session(20.0).run())[-1], Failed)
