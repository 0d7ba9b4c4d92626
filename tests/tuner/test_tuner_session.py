"""The tuning session against fakes: what it does, in which order, and what it never does."""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from dataclasses import replace
from typing import TypeVar

import pytest
from tuner_fakes import (
    DEVICE,
    SOFTMAX,
    TUNABLE,
    WORKLOADS,
    FakeRecords,
    Stage,
    best_is_6x8,
)

from nnjit_studio.errors import CompileError, UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import TIERS, Fixture, Pulse
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.estimate import LEAST_PAIRS
from nnjit_studio.records.gain import TOO_BUSY, UNCHANGED, ModelGain
from nnjit_studio.records.outcomes import COMPARED, TIMED
from nnjit_studio.tuner.events import (
    Compiled,
    Event,
    Failed,
    Finished,
    MachineSeen,
    Measured,
    ModelCompared,
    ModelTimed,
    RoundDone,
    SessionStarted,
    SpaceBuilt,
    Swapped,
    Trying,
)
from nnjit_studio.tuner.search.task_scheduler import MIN_ROUNDS
from nnjit_studio.tuner.timing import PATIENT_LIMIT_S, TIMING_LIMIT_S

E = TypeVar("E", bound=Event)
BIG, SMALL = TUNABLE


def of(kind: type[E], events: list[Event]) -> list[E]:
    return [e for e in events if isinstance(e, kind)]


def last(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished), events[-1]
    return events[-1]


@pytest.fixture(scope="module")
def whole() -> tuple[Stage, list[Event]]:
    """A session without a limit, to the end of every space."""
    stage = Stage()
    return stage, list(stage.session().run())


def test_events_come_in_order(whole: tuple[Stage, list[Event]]) -> None:
    names = [e.name for e in whole[1] if not isinstance(e, Trying)]
    baseline = ["started", *["compiled"] * len(WORKLOADS), "model", "space", "space"]
    assert names[: len(baseline)] == baseline
    assert names[-2:] == ["model", "summary"]
    rounds = [n for n in names[len(baseline) : -2] if n not in ("model", "compared", "machine")]
    text = " ".join(rounds).replace("compiled measured swapped round", "win")
    assert set(text.replace("compiled measured round", "lose").split()) == {"win", "lose"}
    times = [e.t_s for e in whole[1]]
    assert times == sorted(times)
    assert times[0] == 0


def test_the_best_kernel_of_each_space_is_found_and_registered(
    whole: tuple[Stage, list[Event]],
) -> None:
    stage, events = whole
    for workload in TUNABLE:
        winner = stage.runner.registered[workload.key].candidate
        assert winner is not None
        assert (winner.y0, winner.x0) == (6, 8)
    summary = last(events)
    assert summary.reason == "exhausted"
    big = next(w for w in summary.workloads if w.workload == BIG.key)
    assert big.gflops["before"] == pytest.approx(453_000_000 / 90 / 1e6, rel=0.01)
    assert big.gflops["after"] > 6 * big.gflops["before"]
    assert big.rounds == big.candidates > 10
    assert summary.model_ms["after"] < summary.model_ms["before"] / 5
    assert summary.seconds_to_best == of(Swapped, events)[-1].t_s
    assert summary.compile_ms == {"median": 4.0, "p99": 4.0}


def test_summary_names_every_workload(whole: tuple[Stage, list[Event]]) -> None:
    summary = last(whole[1])
    assert [w.workload for w in summary.workloads] == [w.key for w in WORKLOADS]
    untouched = summary.workloads[-1]
    assert (untouched.workload, untouched.rounds, untouched.best) == (SOFTMAX.key, 0, "default")
    assert untouched.gflops == {"before": 0.0, "after": 0.0}
    assert sum(w.share for w in summary.workloads) == pytest.approx(1)


def test_every_event_is_strict_json(whole: tuple[Stage, list[Event]]) -> None:
    for event in whole[1]:
        back = json.loads(json.dumps(event.to_json(), allow_nan=False))
        assert back["event"] == event.name


def test_before_is_timed_with_default_kernels_of_this_run(
    whole: tuple[Stage, list[Event]],
) -> None:
    stage, events = whole
    again = Stage(records=FakeRecords(list(stage.records.rows)))
    second = last(list(again.session().run()))
    assert second.model_ms["before"] == last(events).model_ms["before"]
    assert second.model_ms["after"] == last(events).model_ms["after"]
    assert [k.settings for k in again.runner.swaps[: len(WORKLOADS)]] == ["default"] * 3


def test_before_and_after_are_timed_in_turns() -> None:
    """On a machine that is three times slower in the end, the gain is that of the kernels."""
    stage = Stage()
    stage.runner.speed = lambda workload, candidate: (
        best_is_6x8(workload, candidate) * (0.3 if len(stage.runner.measured) > 9 else 0.1)
    )
    events = list(stage.session().run())
    first, *_, end = of(ModelTimed, events)
    ms, gain = last(events).model_ms, last(events).gain
    assert ms["before"] == pytest.approx(3 * first.ms)
    assert ms["after"] == end.ms < ms["before"] / 5
    assert gain.outcome == "faster" and gain.pairs >= LEAST_PAIRS
    assert gain.ratio == pytest.approx(ms["before"] / ms["after"])
    compared = of(ModelCompared, events)
    assert compared[-1].gain == gain and len(compared[-1].before_ms) == gain.pairs
    between = [c.gain.ratio for c in compared if c.t_s < of(RoundDone, events)[-1].t_s]
    assert any(between), "also between rounds, and so many in a row that they tell an interval"
    for workload in TUNABLE:
        assert stage.runner.registered[workload.key].settings != "default"


def test_a_minute_tells_the_gain_of_a_slow_model() -> None:
    """Eleven pairs of 0.7 s take longer than timing the model alone may."""
    stage = Stage()
    stage.runner.speed = lambda workload, candidate: 0.8 * best_is_6x8(workload, candidate)
    events = list(stage.session(seconds=60.0).run())
    began_s = of(SpaceBuilt, events)[0].t_s
    assert last(events).model_ms["before"] > 200
    assert last(events).gain.told_apart and last(events).gain.pairs >= LEAST_PAIRS
    assert events[-1].t_s - began_s <= 60 + stage.runner.round_s


def test_where_nothing_won_the_model_is_as_fast_as_before() -> None:
    stage = Stage()
    stage.runner.speed = lambda workload, candidate: 1.0 + len(stage.runner.measured) / 100
    summary = last(list(stage.session().run()))
    assert summary.model_ms["before"] == summary.model_ms["after"] > 0
    assert summary.gain == ModelGain(UNCHANGED)
    assert [w.speedup for w in summary.workloads] == [(1.0, 1.0, 1.0)] * 3


def test_a_busy_machine_gets_a_warning_and_no_ratio() -> None:
    stage = Stage()
    stage.runner.pulse_of = lambda n: Pulse(90.0, throughput=27.0 if n > 3 else 89.0)
    events = list(stage.session().run())
    summary = last(events)
    assert (summary.gain.outcome, summary.gain.ratio) == (TOO_BUSY, None)
    assert summary.gain.machine == pytest.approx(0.3)
    assert "machine busy: figures are rough (30%" in summary.warning
    seen = of(MachineSeen, events)
    assert seen[0].warning == "" and seen[-1].warning == summary.warning


def test_gains_of_workloads_are_those_of_their_duels() -> None:
    """Rates of different moments are no gain: here the machine gets slower all the time."""
    stage = Stage()
    stage.runner.speed = lambda workload, candidate: (
        best_is_6x8(workload, candidate) * 1.05 ** len(stage.runner.measured)
    )
    events = list(stage.session().run())
    summary = last(events)
    for workload in summary.workloads[:2]:
        won = [
            m for m in of(Measured, events) if (m.workload, m.state) == (workload.workload, "won")
        ]
        ratio, low, high = workload.speedup or (0, 0, 0)
        assert (
            ratio == pytest.approx(math.prod(m.speedup for m in won)) and low > 1 and high > ratio
        )
        assert workload.ms["before"] / workload.ms["after"] == pytest.approx(ratio)
        rates = workload.gflops
        assert rates["after"] / rates["before"] == pytest.approx(ratio)
    assert summary.kept == 2 and summary.outcomes["won"] == len(
        [m for m in of(Measured, events) if m.state == "won"]
    )


def test_no_dot_stands_above_the_best_so_far(whole: tuple[Stage, list[Event]]) -> None:
    best: dict[str, float] = {}
    for done in of(RoundDone, whole[1]):
        best[done.workload] = max(best.get(done.workload, 0.0), done.gflops)
        assert done.best_gflops >= best[done.workload]


def test_second_run_repeats_nothing(whole: tuple[Stage, list[Event]]) -> None:
    stage, first = whole
    again = Stage(records=FakeRecords(list(stage.records.rows)))
    events = list(again.session().run())
    assert again.runner.measured == []
    winners = {w.best for w in last(first).workloads}  # built anew, and compared by their bytes
    assert {settings for _, settings, _ in again.compiler.built} == {"default"} | winners
    assert all(e.known == len(e.candidates) for e in of(SpaceBuilt, events))
    assert all(e.known == 0 for e in of(SpaceBuilt, first))
    swaps = of(Swapped, events)
    for space in of(SpaceBuilt, events):
        assert {r.candidate for r in space.results} == set(space.candidates)
        won = [r.candidate for r in space.results if r.state == "won"]
        assert won == [s.candidate for s in swaps if s.workload == space.workload]
        assert all(r.ms > 0 for r in space.results if r.state in COMPARED)
    assert [s.from_database for s in swaps] == [True, True]
    summary = last(events)
    assert (summary.reason, summary.outcomes) == ("exhausted", {})
    assert summary.gain.pairs == LEAST_PAIRS, "and it ends as soon as it can tell what it is worth"
    assert {s.candidate for s in swaps} == {w.best for w in last(first).workloads[:2]}
    assert last(events).reason == "exhausted"


@pytest.mark.parametrize(("rate", "renewed"), [(90.0, True), (50.0, False)])
def test_a_default_that_was_timed_on_a_busy_machine_is_timed_anew_on_a_quiet_one(
    whole: tuple[Stage, list[Event]], rate: float, renewed: bool
) -> None:
    rows = [r for r in whole[0].records.rows if r.state == "default"]
    slow = [replace(r, median_ms=3 * r.median_ms, gflops=r.gflops / 3) for r in rows]
    again = Stage(records=FakeRecords(slow))
    again.runner.pulse_of = lambda n: Pulse(90.0, throughput=rate)
    events = list(again.session().run())
    workload = next(w for w in last(events).workloads if w.workload == BIG.key)
    old = next(r for r in slow if r.workload == BIG.key)
    stored = [r for r in again.records.rows if (r.workload, r.state) == (BIG.key, "default")]
    told = [m for m in of(Measured, events) if (m.workload, m.state) == (BIG.key, "default")]
    assert (len(stored), len(told)) == ((2, 1) if renewed else (1, 0))
    assert workload.ms["before"] == pytest.approx(90.0 if renewed else old.median_ms, rel=0.01)
    done = [d for d in of(RoundDone, events) if d.workload == BIG.key]
    assert done[-1].best_gflops == pytest.approx(workload.gflops["after"], rel=0.01)


@pytest.mark.parametrize("change", [{"sha256": "0" * 64}, {"settings": "x0=many"}])
def test_a_winner_that_the_compiler_does_not_make_is_not_registered(
    whole: tuple[Stage, list[Event]], change: dict[str, str]
) -> None:
    rows = [replace(r, **change) if r.state == "won" else r for r in whole[0].records.rows]
    again = Stage(records=FakeRecords(rows))
    events = list(again.session().run())
    assert all(e.known < len(e.candidates) for e in of(SpaceBuilt, events))
    assert not any(s.from_database for s in of(Swapped, events))
    winner = again.runner.registered[BIG.key].candidate
    assert winner is not None  # the winners were tried again
    assert (winner.y0, winner.x0) == (6, 8)


def test_code_in_the_database_is_never_run(whole: tuple[Stage, list[Event]]) -> None:
    again = Stage(records=FakeRecords([replace(r, wasm=b"!") for r in whole[0].records.rows]))
    assert any(s.from_database for s in of(Swapped, list(again.session().run())))
    assert all(k.data != b"!" for k in again.runner.swaps)


def test_another_compiler_version_knows_nothing(whole: tuple[Stage, list[Event]]) -> None:
    again = Stage(records=FakeRecords(list(whole[0].records.rows)))
    again.compiler.version = "test-2"
    events = list(again.session().run())
    assert all(e.known == 0 for e in of(SpaceBuilt, events))
    assert len(again.runner.measured) > 10


def test_default_kernels_exist_in_both_tiers_and_the_best_is_measured() -> None:
    stage = Stage()
    events = list(stage.session().run())
    tiers = {tiers for _, settings, tiers in stage.compiler.built if settings == "default"}
    assert tiers == {TIERS}
    assert {k.tier for k in stage.runner.swaps} == {"relaxed-simd"}
    assert last(events).target["tier"] == "relaxed-simd"
    plain = Stage()
    list(plain.session(tier="simd128").run())
    assert {k.tier for k in plain.runner.swaps} == {"simd128"}


def test_wrong_candidates_are_never_registered() -> None:
    stage = Stage()
    stage.runner.wrong = lambda k: k.candidate is not None and k.candidate.y0 == 6
    events = list(stage.session().run())
    wrong = [m for m in of(Measured, events) if m.state == "wrong"]
    assert wrong
    assert all("y0=6" in m.candidate for m in wrong)
    assert all(k.candidate is None or k.candidate.y0 != 6 for k in stage.runner.swaps)
    assert {r.settings for r in stage.records.rows if r.state == "wrong"} >= {
        wrong[0].candidate,
    }


def test_a_winner_whose_other_tier_is_wrong_is_never_registered() -> None:
    stage = Stage()
    stage.runner.wrong = lambda k: (
        k.tier == "simd128" and k.candidate is not None and k.candidate.y0 == 6
    )
    events = list(stage.session().run())
    wrong = [m for m in of(Measured, events) if m.state == "wrong"]
    assert wrong and all("y0=6" in m.candidate and "as simd128" in m.reason for m in wrong)
    assert not any("y0=6" in k.settings for k in stage.runner.swaps)
    assert last(events).reason == "exhausted"


def test_a_wrong_other_tier_of_a_default_kernel_is_a_bug() -> None:
    stage = Stage()
    stage.runner.wrong = lambda k: k.tier == "simd128"
    failed = list(stage.session().run())[-1]
    assert isinstance(failed, Failed)
    assert "as simd128" in failed.error["error"]
    assert stage.records.rows == []


def test_a_device_of_one_tier_has_no_others() -> None:
    stage = Stage(device=replace(DEVICE, tiers=("simd128",)))
    events = list(stage.session().run())
    assert of(Swapped, events)
    assert {k.tier for k in stage.runner.swaps} == {"simd128"}


def test_only_winners_are_swapped_in(whole: tuple[Stage, list[Event]]) -> None:
    stage, events = whole
    won = [(m.workload, m.candidate) for m in of(Measured, events) if m.state == "won"]
    assert won == [(s.workload, s.candidate) for s in of(Swapped, events)]
    assert won == list(
        dict.fromkeys(
            (k.workload, k.settings) for k in stage.runner.swaps if k.settings != "default"
        )
    )
    assert stage.records.states() <= {*TIMED, "duplicate"} and "won" in stage.records.states()


def test_impossible_rates_are_not_swapped_in() -> None:
    stage = Stage(device=replace(DEVICE, peak_gflops={"relaxed-simd": 10.0}))
    stage.runner.pulse_of = lambda n: Pulse(9.8)
    events = list(stage.session().run())
    impossible = {m.candidate for m in of(Measured, events) if m.state == "impossible"}
    assert any("y0=6" in c for c in impossible)
    assert not impossible & {s.candidate for s in of(Swapped, events)}
    assert last(events).workloads[0].gflops["after"] <= 11.0


def test_failed_builds_are_recorded_and_the_session_goes_on() -> None:
    stage = Stage()
    stage.compiler.fails = lambda c: c.x0 == 16
    events = list(stage.session().run())
    failed = [r for r in stage.records.rows if r.state == "failed"]
    assert failed
    assert {r.error for r in failed} == {"too many locals"}
    assert all(r.sha256 == "" and r.samples_ms == () for r in failed)
    assert last(events).reason == "exhausted"
    assert any(c.error for c in of(Compiled, events))


def test_equal_bytes_are_measured_once() -> None:
    stage = Stage()
    stage.compiler.same_bytes = lambda c: c.order == "mn"
    events = list(stage.session().run())
    copies = [m for m in of(Measured, events) if m.state == "duplicate"]
    assert copies
    assert all("order=mn" in m.candidate and "order=mn" in m.reason for m in copies)
    measured = {pair for pair in stage.runner.measured if "order=mn" in pair[1]}
    assert len(measured) == len(TUNABLE)


def test_wrong_default_kernel_is_a_bug_that_names_the_workload() -> None:
    stage = Stage()
    stage.runner.wrong = lambda k: k.workload == SOFTMAX.key
    events = list(stage.session().run())
    failed = events[-1]
    assert isinstance(failed, Failed)
    assert failed.error["kind"] == "bug"
    assert SOFTMAX.name in failed.error["error"]
    assert stage.runner.swaps == []


def test_a_page_error_ends_the_session_with_failed() -> None:
    stage = Stage()
    stage.runner.crashes_after = 8
    events = list(stage.session().run())
    failed = events[-1]
    assert isinstance(failed, Failed)
    assert failed.error["error"] == "The page went silent."
    assert len(stage.runner.measured) == 9


def test_cancel_ends_with_a_summary() -> None:
    stage = Stage()
    session = stage.session(cancelled=lambda: len(stage.runner.measured) >= 9)
    events = list(session.run())
    summary = last(events)
    assert summary.reason == "cancelled"
    assert len(stage.runner.measured) in (9, 10), "a winner's other tier belongs to its round"
    assert summary.model_ms["after"] <= summary.model_ms["before"]
    assert isinstance(events[-2], ModelTimed)


def test_cancel_does_not_wait_for_what_a_long_budget_reserves() -> None:
    stage, asked_s = Stage(), list[float]()
    stage.runner.speed = lambda workload, candidate: 3 * best_is_6x8(workload, candidate)

    def cancelled() -> bool:
        if len(stage.runner.measured) >= 12:
            asked_s.append(stage.clock.monotonic_s())
        return bool(asked_s)

    summary = last(list(stage.session(600.0, cancelled=cancelled).run()))
    assert summary.reason == "cancelled" and summary.gain.pairs
    waited_s = stage.clock.monotonic_s() - asked_s[0]
    assert waited_s <= TIMING_LIMIT_S + PATIENT_LIMIT_S + stage.runner.round_s


def test_who_stops_a_session_may_end_the_reference_that_is_made() -> None:
    stage, stopped = Stage(), list[bool]()

    def killed(workload: Workload) -> Fixture:
        stopped.append(True)
        raise CompileError("The compile process died.")

    stage.compiler.fixture = killed  # type: ignore[method-assign]
    summary = last(list(stage.session(cancelled=lambda: bool(stopped)).run()))
    assert summary.reason == "cancelled" and summary.model_ms == {"before": 0.0, "after": 0.0}
    (failed,) = [e for e in stage.session().run() if isinstance(e, Failed)]
    assert failed.error["error"] == "The compile process died.", "nobody stopped that one"


def test_cancel_before_the_model_ran_has_no_times() -> None:
    stage = Stage()
    summary = last(list(stage.session(cancelled=lambda: True).run()))
    assert summary.reason == "cancelled"
    assert summary.model_ms == {"before": 0.0, "after": 0.0}
    assert stage.runner.inferences == 0


@pytest.mark.parametrize("seconds", [6.0, 12.0, 18.0])
def test_budget_is_kept_but_for_one_round(seconds: float) -> None:
    stage = Stage()
    events = list(stage.session(seconds=seconds).run())
    begin = of(SpaceBuilt, events)[0].t_s
    assert last(events).t_s - begin <= seconds + stage.runner.round_s + 1e-9
    assert last(events).reason == "time"
    assert len(of(RoundDone, events)) > 3


def test_every_tunable_workload_gets_its_rounds() -> None:
    stage = Stage()
    events = list(stage.session(seconds=15.0).run())
    rounds = Counter(e.workload for e in of(RoundDone, events))
    assert all(rounds[w.key] >= MIN_ROUNDS for w in TUNABLE)
    assert last(events).reason == "time"


def test_model_keeps_running_between_rounds(whole: tuple[Stage, list[Event]]) -> None:
    _, events = whole
    live = of(ModelTimed, events)[1:-1]
    assert len(live) > 5
    assert all(len(e.runs_ms) == 1 and not e.steps_ms for e in live[:-1])
    busy = Stage()
    fast = list(busy.session(full_speed=True).run())
    assert len(of(ModelTimed, fast)) < len(of(ModelTimed, events))


def test_fixtures_are_sent_once_a_turn(whole: tuple[Stage, list[Event]]) -> None:
    stage, events = whole
    rounds = len(of(RoundDone, events))
    assert len(stage.runner.fixtures) < len(WORKLOADS) + rounds / 2


def test_first_event_names_target_and_workloads_by_work(whole: tuple[Stage, list[Event]]) -> None:
    started = whole[1][0]
    assert isinstance(started, SessionStarted)
    assert started.workloads == tuple(w.key for w in WORKLOADS)
    assert started.target["device_id"] == "cpu"


def compile_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("compile-ahead")]


def test_compile_ahead_thread_ends_with_the_session() -> None:
    list(Stage().session(seconds=5.0).run())
    assert compile_threads() == []


def test_compile_ahead_thread_ends_when_the_consumer_leaves() -> None:
    events = Stage().session().run()
    for event in events:
        if isinstance(event, RoundDone):
            break
    assert len(compile_threads()) == 1
    events.close()  # type: ignore[attr-defined]
    assert compile_threads() == []


def test_a_tier_that_the_device_lacks_is_refused() -> None:
    stage = Stage(device=replace(DEVICE, tiers=("simd128",)))
    with pytest.raises(UserError, match="no relaxed-simd kernels"):
        stage.session(tier="relaxed-simd")


def test_the_best_so_far_never_falls_though_the_machine_slows_down() -> None:
    stage = Stage()
    seen: dict[str, int] = {}

    def slowing(workload: str, candidate: Candidate | None) -> float:
        """Each new candidate gains 6 %, each measurement later costs 10 %."""
        turn = seen.setdefault(f"{workload} {candidate}", len(seen))
        return float(90 * 0.94**turn * 1.1 ** len(stage.runner.measured))

    stage.runner.speed = slowing
    events = list(stage.session().run())
    swapped = [e for e in of(Swapped, events) if e.workload == BIG.key]
    assert any(e.gflops < e.gflops_before for e in swapped)
    best = [e.best_gflops for e in of(RoundDone, events) if e.workload == BIG.key]
    assert best == sorted(best)
    first = last(events).workloads[0].gflops["before"]
    won = [m.speedup for m in of(Measured, events) if (m.workload, m.state) == (BIG.key, "won")]
    assert best[-1] >= first * math.prod(won) * 0.99


def test_a_candidate_of_the_users_own_comes_next() -> None:
    stage = Stage()
    own = Candidate(16, 3, 2, 16, 3, 64)
    session = stage.session()
    events: list[Event] = []
    for event in session.run():
        events.append(event)
        if isinstance(event, RoundDone) and len(of(RoundDone, events)) == 2:
            session.request(SMALL.key, own)
            session.request("no such workload", own)
    third = of(RoundDone, events)[2]
    assert (third.workload, third.candidate) == (SMALL.key, str(own))
    tried = [e.candidate for e in of(RoundDone, events) if e.workload == SMALL.key]
    assert tried.count(str(own)) == 1
    assert last(events).reason in ("converged", "exhausted")


def test_who_stops_a_session_may_end_the_compilation_of_a_candidate_of_the_users_own() -> None:
    stage, own, stopped = Stage(), Candidate(16, 3, 2, 16, 3, 64), list[bool]()

    def killed(candidate: Candidate) -> bool:
        if candidate == own:
            stopped.append(True)
        return candidate == own

    stage.compiler.fails = killed
    session = stage.session(cancelled=lambda: bool(stopped))
    events: list[Event] = []
    for event in session.run():
        events.append(event)
        if isinstance(event, RoundDone) and not stopped:
            session.request(SMALL.key, own)
    assert last(events).reason == "cancelled"
    assert str(own) not in [e.candidate for e in of(Measured, events)], "no verdict of a kernel"


def test_a_known_candidate_is_measured_again_when_the_user_asks() -> None:
    stage = Stage()
    session = stage.session()
    asked = ""
    events: list[Event] = []
    for event in session.run():
        events.append(event)
        if isinstance(event, RoundDone) and not asked and event.workload == BIG.key:
            asked = event.candidate
            session.request(BIG.key, Candidate.parse(asked))
    verdicts = [
        e.state for e in of(Measured, events) if (e.workload, e.candidate) == (BIG.key, asked)
    ]
    assert len(verdicts) == 2
    assert "duplicate" not in verdicts


def test_a_peak_probed_in_a_slow_moment_is_probed_again() -> None:
    slow = replace(DEVICE, peak_gflops={"simd128": 1.0, "relaxed-simd": 1.0})
    stage = Stage(device=slow)
    events = list(stage.session().run())
    assert last(events).model_ms["after"] < last(events).model_ms["before"]
    assert not [m for m in of(Measured, events) if m.state == "impossible"]
    assert of(Swapped, events)


def test_a_default_kernel_above_every_probe_is_kept() -> None:
    slow = replace(DEVICE, peak_gflops={"simd128": 1.0, "relaxed-simd": 1.0})
    stage = Stage(device=slow)
    stage.runner.pulse_of = lambda n: Pulse(1.0)
    events = list(stage.session().run())
    assert last(events).reason in ("converged", "exhausted")
    assert {m.state for m in of(Measured, events)} <= {
        "impossible",
        "slower",
        "not told apart",
        "duplicate",
    }
