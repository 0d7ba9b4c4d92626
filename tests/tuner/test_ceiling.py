"""What is shorter than the clock's step was not measured."""

from __future__ import annotations

from dataclasses import replace

from tuner_fakes import DEVICE, Stage

from nnjit_studio.tuner.events import Measured, Swapped


def test_samples_below_the_clocks_step_win_nothing() -> None:
    stage = Stage(device=replace(DEVICE, timer_quantum_ms=1e6))
    events = list(stage.session().run())
    states = {event.state for event in events if isinstance(event, Measured)}
    assert "impossible" in states and not states & {"won", "slower"}
    assert not [event for event in events if isinstance(event, Swapped)]
