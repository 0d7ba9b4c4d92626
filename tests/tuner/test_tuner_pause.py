"""What a user does to a running session: pause it, change its budget, ask how long it takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tuner_fakes import TUNABLE, WORKLOADS, Stage, best_is_6x8

from nnjit_studio.records import TuningRecord
from nnjit_studio.tuner.events import (
    Event,
    Finished,
    Measured,
    Paused,
    Resumed,
    RoundDone,
    SpaceBuilt,
    Swapped,
    Trying,
)
from nnjit_studio.tuner.search.task_scheduler import MIN_ROUNDS
from nnjit_studio.tuner.session import TuningSession
from nnjit_studio.tuner.time_left import LEAST_ROUNDS, RoundClock

BIG, SMALL = TUNABLE


def until(events: Iterator[Event], kind: type[Event], count: int = 1) -> list[Event]:
    """Events up to the ``count``-th of a kind."""
    seen: list[Event] = []
    while sum(isinstance(e, kind) for e in seen) < count:
        seen.append(next(events))
    return seen


def rounds(events: list[Event]) -> list[RoundDone]:
    return [e for e in events if isinstance(e, RoundDone)]


def paused_at(stage: Stage, after: int, **options: float) -> tuple[TuningSession, Iterator[Event]]:
    session = stage.session(**options)
    events = session.run()
    until(events, RoundDone, after)
    session.pause()
    assert isinstance(until(events, Paused)[-1], Paused)
    return session, events


def test_a_pause_begins_between_rounds_and_counts_nowhere() -> None:
    quiet = list(Stage().session(30.0).run())
    stage = Stage()
    _, events = paused_at(stage, 3, seconds=30.0)
    fixture = stage.runner.fixtures[-1]
    stage.clock.now_s += 1000.0
    stage.runner.fixtures.append("somebody else's")
    stage.runner.registered = {}
    resumed = next(events)
    assert isinstance(resumed, Resumed) and resumed.paused_s == pytest.approx(1000.0)
    rest = list(events)
    assert stage.runner.fixtures[-1] in {w.key for w in TUNABLE}
    assert set(stage.runner.registered) == {w.key for w in WORKLOADS}
    assert fixture in stage.runner.fixtures[stage.runner.fixtures.index("somebody else's") :]
    end, quiet_end = rest[-1], quiet[-1]
    assert isinstance(end, Finished) and isinstance(quiet_end, Finished)
    assert end.reason == quiet_end.reason
    assert end.t_s == pytest.approx(quiet_end.t_s), "neither in time nor in the budget"
    assert len(rounds(rest)) + 3 == len(rounds(quiet))


def test_a_pause_that_is_taken_back_does_not_come() -> None:
    session = Stage().session()
    events = session.run()
    until(events, RoundDone)
    session.pause()
    session.pause(False)
    assert not any(isinstance(e, Paused) for e in events)


def test_a_session_pauses_while_its_defaults_are_checked() -> None:
    stage = Stage()
    session = stage.session()
    events = session.run()
    session.pause()
    begun = until(events, Paused)
    assert not any(isinstance(e, SpaceBuilt) for e in begun)
    assert isinstance(list(events)[-1], Finished)


def test_what_won_during_a_pause_is_taken_up() -> None:
    best = next(
        e.candidate
        for e in reversed(list(Stage().session().run()))
        if isinstance(e, Swapped) and e.workload == BIG.key
    )
    stage = Stage()
    _, events = paused_at(stage, 2)
    row: TuningRecord = next(
        r for r in stage.records.rows if r.key.kind == "matmul" and r.state in ("won", "slower")
    )
    kernel = stage.compiler.compile(BIG, _parsed(best), ("relaxed-simd",)).kernel("relaxed-simd")
    won = replace(row, settings=best, state="won", median_ms=13.5, sha256=kernel.sha256)
    stage.records.rows.append(won)
    resumed, swapped, *rest = events
    assert isinstance(resumed, Resumed)
    assert isinstance(swapped, Swapped) and swapped.from_database and swapped.candidate == best
    assert not any(isinstance(e, Measured) and e.candidate == best for e in rest if _is_big(e))
    assert stage.runner.registered[BIG.key].settings == best


def _parsed(settings: str):  # type: ignore[no-untyped-def]
    from nnjit_studio.records.gpu_candidate import parse_candidate

    return parse_candidate(settings)


def _is_big(event: Event) -> bool:
    return getattr(event, "workload", "") == BIG.key


def test_the_budget_of_a_running_session_may_change() -> None:
    stage = Stage()
    session = stage.session(3600.0)
    events = session.run()
    until(events, RoundDone, 3)
    began_s = stage.clock.now_s
    session.set_seconds_left(2.0)
    end = list(events)[-1]
    assert isinstance(end, Finished) and end.reason == "time"
    assert stage.clock.now_s - began_s < 2.0 + stage.runner.round_s + 1.0

    session = Stage().session(4.0)
    events = session.run()
    until(events, SpaceBuilt)
    session.set_seconds_left(None)
    end = list(events)[-1]
    assert isinstance(end, Finished) and end.reason == "exhausted"


def test_how_long_it_takes_is_unknown_first_and_then_falls() -> None:
    stage = Stage()
    stage.runner.speed = lambda workload, candidate: 0.1 * best_is_6x8(workload, candidate)
    left = [r.left_s for r in rounds(list(stage.session().run()))]
    assert left[: LEAST_ROUNDS - 1] == [None] * (LEAST_ROUNDS - 1)
    told = [s for s in left if s is not None]
    assert len(told) > MIN_ROUNDS
    assert told[0] > 3 * told[-1]


@pytest.mark.parametrize("seconds", [8.0, None])
def test_what_is_left_comes_near_to_what_it_took(seconds: float | None) -> None:
    events = list(Stage().session(seconds, exhaustive=seconds is None).run())
    told = [r for r in rounds(events) if r.left_s is not None]
    middle = told[len(told) // 2]
    assert middle.left_s == pytest.approx(events[-1].t_s - middle.t_s, rel=0.5)


def test_a_round_clock_asks_for_a_few_rounds_first() -> None:
    clock = RoundClock()
    assert clock.seconds(0) == 0.0 and clock.seconds(5) is None
    for i in range(LEAST_ROUNDS):
        clock.note(i / 2)
    assert clock.seconds(6) == 3.0


def test_what_is_tried_is_told_before_it_is_done() -> None:
    events = list(Stage().session().run())
    for place, event in enumerate(events):
        if not isinstance(event, Measured) or event.state == "duplicate":
            continue
        before = [e for e in events[:place] if isinstance(e, Trying)][-1]
        assert (before.workload, before.candidate) == (event.workload, event.candidate)
        assert before.phase in ("check", "duel", "place") and before.pairs >= 2
    assert {e.phase for e in events if isinstance(e, Trying)} >= {"compile", "check", "timing"}
