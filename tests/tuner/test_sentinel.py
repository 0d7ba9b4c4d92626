"""The sentinel: drift told from noise, doubtful measurements taken again, surroundings."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tuner_fakes import FakeClock, FakeRunner, Stage

from nnjit_studio.records import Pulse
from nnjit_studio.tuner.events import Drift, Event, Measured
from nnjit_studio.tuner.sentinel import INTERVAL_S, Change, Sentinel


class Patient:
    """Pulses in a given order; the last one is repeated."""

    def __init__(self, *pulses: Pulse | float) -> None:
        self.pulses = [p if isinstance(p, Pulse) else Pulse(p) for p in pulses]
        self.taken = 0

    def __call__(self) -> Pulse:
        self.taken += 1
        return self.pulses[min(self.taken, len(self.pulses)) - 1]


def watch(
    patient: Patient, looks: int, may_hide: bool = False, peak: float | None = None
) -> list[Change[str] | None]:
    """What each look finds; eight measurements stand before each."""
    clock = FakeClock()
    sentinel: Sentinel[str] = Sentinel(patient, clock, peak, may_hide)
    found = []
    for look in range(looks):
        for i in range(8):
            sentinel.note(f"{look}.{i}")
        found.append(sentinel.check())
        assert sentinel.check() is None  # none is due
        clock.now_s += INTERVAL_S
    return found


def test_small_changes_and_a_single_bad_pulse_are_noise() -> None:
    patient = Patient(100, 95, 104, 60, 99, 101, 100)
    assert watch(patient, 6) == [None] * 6
    assert patient.taken == 7


@pytest.mark.parametrize("factor", [0.5, 0.89, 1.2])
def test_two_pulses_that_agree_are_drift_reported_once(factor: float) -> None:
    patient = Patient(100, 100, 100 * factor)
    found = watch(patient, 6, peak=125.0)
    assert [f is not None for f in found] == [False, False, True, False, False, False]
    change = found[2]
    assert change is not None
    assert change.rate == pytest.approx(factor)
    assert f"{factor:.2f} of its usual rate" in change.what
    assert f"{factor * 0.8:.2f} of the probed peak" in change.what


def test_only_what_was_measured_since_the_last_usual_rate_is_doubtful() -> None:
    change = watch(Patient(100, 100, 50), 3)[2]
    assert change is not None
    assert change.doubtful == tuple(f"2.{i}" for i in range(2, 8))  # a quarter of 24, the newest


def test_repeats_are_bounded_on_a_machine_that_is_never_quiet() -> None:
    restless = [rate for i in range(100) for rate in (100 * 2 ** (i % 2),) * 2]
    found = watch(Patient(*restless), 50)
    repeated = sum(len(change.doubtful) for change in found if change)
    assert 0 < repeated <= 50 * 8 / 4


def test_a_page_that_hides_is_told_but_makes_nothing_doubtful() -> None:
    patient = Patient(Pulse(100), Pulse(100, hidden=True), Pulse(100, hidden=True), Pulse(100))
    told = watch(patient, 4)
    texts = [c and c.what for c in told]
    assert texts == [None, "The page is hidden now.", None, "The page is visible again."]
    assert all(c is None or c.doubtful == () for c in told)


def test_the_embedded_page_may_be_hidden_from_the_start_another_may_not() -> None:
    assert watch(Patient(Pulse(100, hidden=True)), 1, may_hide=True) == [None]
    (told,) = watch(Patient(Pulse(100, hidden=True)), 1)
    assert told is not None and "hidden" in told.what


def test_battery_is_told_where_the_browser_tells() -> None:
    on, off = Pulse(100, on_battery=True), Pulse(100, on_battery=False)
    texts = [c and c.what for c in watch(Patient(Pulse(100), off, on, on, off), 5)]
    battery = "The device is on battery."
    assert texts == [None, None, battery, None, "It is charging again."]


def of_drift(events: Sequence[Event]) -> list[Drift]:
    return [e for e in events if isinstance(e, Drift)]


def test_a_session_measures_the_affected_window_again_once() -> None:
    stage = Stage()
    stage.runner.pulse_of = lambda n: Pulse(90.0 if n <= 4 else 45.0)
    events = list(stage.session().run())
    (drift,) = of_drift(events)
    assert drift.rate == pytest.approx(0.5)
    assert drift.doubtful
    after = events[events.index(drift) + 1 :]
    measured = [e for e in after if isinstance(e, Measured)]
    repeated = [(e.workload, e.candidate) for e in measured[: len(drift.doubtful)]]
    assert repeated == list(drift.doubtful)
    everything = [(e.workload, e.candidate) for e in events if isinstance(e, Measured)]
    twice = {pair for pair in everything if everything.count(pair) == 2}
    assert twice == set(drift.doubtful)
    assert max(everything.count(pair) for pair in everything) == 2
    assert "duplicate" not in {e.state for e in measured[: len(drift.doubtful)]}


def test_a_steady_machine_costs_pulses_alone() -> None:
    stage = Stage()
    events = list(stage.session().run())
    runner: FakeRunner = stage.runner
    assert of_drift(events) == []
    assert 2 <= runner.pulses <= stage.clock.now_s - 100 + 1
