from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from numpy.typing import NDArray
from tuner_fakes import Stage, best_is_6x8

from nnjit_studio.records import Kernel, MeasurePolicy, Trial
from nnjit_studio.records.outcomes import FASTER, NOT_TOLD_APART, SLOWER
from nnjit_studio.tuner.evaluator import at_once
from nnjit_studio.tuner.events import Event, Measured, Swapped, Trying
from nnjit_studio.tuner.in_place import judge, try_in_place

STEADY = (1.0, 1.01, 0.99, 1.0)


def times(by: float, values: Sequence[float] = STEADY) -> tuple[float, ...]:
    return tuple(v * by for v in values)


def trial(speedup: float, whole: float = 0.0) -> Trial:
    runs = (times(9.0 / whole), times(9.0)) if whole else ((), ())
    return Trial("runs" if whole else "windows", 1, times(1 / speedup), times(1.0), *runs)


@pytest.mark.parametrize(
    ("steps", "whole", "outcome"),
    [
        (1.2, 0.0, FASTER),
        (1.2, 1.01, FASTER),
        (1.2, 0.8, SLOWER),  # what comes behind the kernel pays for it
        (0.8, 0.0, SLOWER),
        (0.8, 1.2, SLOWER),
        (1.0, 1.0, NOT_TOLD_APART),
    ],
)
def test_the_steps_decide_unless_the_model_tells_the_opposite(
    steps: float, whole: float, outcome: str
) -> None:
    found = judge(trial(steps, whole))
    assert found.outcome == outcome
    assert found.speedup == pytest.approx(steps)
    assert found.low <= found.speedup <= found.high
    assert outcome in str(found)


def test_what_was_not_measured_is_not_told_apart() -> None:
    assert "traps" in str(judge(Trial(error="it traps")))
    for nothing in (Trial("runs", 1, (0.0, 0.0), (1.0, 1.0)), Trial()):
        found = judge(nothing)
        assert found.outcome == NOT_TOLD_APART
        assert "too short" in found.error


class Model:
    """A model in which the kernels tried are this much faster, as often as it is asked."""

    def __init__(self, *speedups: float) -> None:
        self.speedups = list(speedups)
        self.policies: list[MeasurePolicy] = []

    def trial(
        self, feeds: Mapping[str, NDArray[Any]], kernels: Sequence[Kernel], policy: MeasurePolicy
    ) -> Trial:
        self.policies.append(policy)
        speedup = self.speedups.pop(0)
        if speedup == 0:
            return Trial(error="it traps")
        jitter = [1 + 0.01 * (i % 2) for i in range(policy.pairs)]
        return Trial("windows", 1, times(1 / speedup, jitter), times(1.0, jitter[::-1]))


def test_a_trial_goes_on_until_it_is_settled_and_no_longer() -> None:
    clear = Model(1.5)
    assert at_once(try_in_place(clear, {}, [])).outcome == FASTER
    assert [p.pairs for p in clear.policies] == [4]
    close = Model(1.0, 1.0, 1.0)
    found = at_once(try_in_place(close, {}, [], MeasurePolicy(max_ms=1600)))
    assert (found.outcome, found.pairs) == (NOT_TOLD_APART, 16)
    assert [p.pairs for p in close.policies] == [4, 4, 8]
    assert [p.max_ms for p in close.policies] == [400, 400, 800]
    longer = Model(1.0, 1.0)
    assert at_once(try_in_place(longer, {}, [], looks=(8, 32))).pairs == 32
    assert [p.pairs for p in longer.policies] == [8, 24]
    assert at_once(try_in_place(Model(0.7), {}, [])).outcome == SLOWER
    assert at_once(try_in_place(Model(1.0, 0), {}, [])).error == "it traps"


def swapped(events: Sequence[Event]) -> set[str]:
    return {e.candidate for e in events if isinstance(e, Swapped)}


def test_a_winner_counts_only_if_it_holds_in_the_model() -> None:
    stage = Stage()
    stage.runner.in_place = lambda workload, candidate: (
        best_is_6x8(workload, candidate) * (9 if candidate and candidate.x0 == 8 else 1)
    )  # the best tile of all, until something else was in the caches
    events = list(stage.session().run())
    refuted = [e for e in events if isinstance(e, Measured) and e.in_place and e.state != "won"]
    assert refuted and all(e.candidate.startswith("x0=8,") for e in refuted)
    for event in refuted:
        assert event.in_place is not None and event.in_place.outcome == SLOWER
        assert event.state == "slower" and event.speedup < 1 and "in place" in event.reason
    won = [e for e in events if isinstance(e, Measured) and e.state == "won"]
    assert won and all(e.in_place and e.in_place.outcome == FASTER for e in won)
    assert swapped(events) == {e.candidate for e in won}
    told = {r.settings: r.in_place for r in stage.records.rows if r.in_place}
    assert all("in place faster" in told[e.candidate] for e in won)
    assert any("in place slower" in text for text in told.values())
    assert not any(settings.startswith("x0=8,") for settings in swapped(events))
    assert any(isinstance(e, Trying) and e.phase == "place" for e in events)
    assert stage.runner.registered.keys() == {w.key for w in stage.workloads}


def test_what_makes_no_difference_in_the_model_is_not_swapped_in() -> None:
    stage = Stage()
    stage.runner.in_place = lambda workload, candidate: 1.0
    events = list(stage.session().run())
    assert swapped(events) == set() and stage.runner.tried


def test_without_confirmation_nothing_is_tried() -> None:
    stage = Stage()
    stage.runner.in_place = lambda workload, candidate: 1.0
    assert swapped(list(stage.session(confirm=False).run()))
    assert stage.runner.tried == []
