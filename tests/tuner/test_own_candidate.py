"""A candidate of the user's own against fakes: the gates of a session, one round."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tuner_fakes import DEVICE, TUNABLE, FakeCompiler, Stage

from nnjit_studio.errors import CompileError
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.tuner.events import Compiled, Event, Measured, Swapped
from nnjit_studio.tuner.in_place import Trials
from nnjit_studio.tuner.own_candidate import try_candidate

BIG = TUNABLE[0]
GOOD = Candidate(8, 6, 1, 8, 6, 768)
POOR = Candidate(4, 2, 1, 4, 2, 768)


def run(stage: Stage, candidate: Candidate, incumbent: Candidate | None) -> list[Event]:
    return list(try_candidate(BIG, candidate, incumbent, stage.context))


def test_a_faster_one_is_registered_and_recorded() -> None:
    stage = Stage()
    compiled, measured, swapped = run(stage, GOOD, None)
    assert isinstance(compiled, Compiled) and isinstance(measured, Measured)
    assert isinstance(swapped, Swapped)
    assert swapped.gflops > swapped.gflops_before > 0
    assert stage.runner.registered[BIG.key].candidate == GOOD
    assert [(r.settings, r.state) for r in stage.records.rows] == [(str(GOOD), "won")]


def test_a_slower_one_changes_nothing_but_the_database() -> None:
    stage = Stage()
    events = run(stage, POOR, GOOD)
    assert [type(e) for e in events] == [Compiled, Measured]
    assert stage.runner.swaps == []
    assert stage.records.states() == {"slower"}


def test_a_winner_that_does_not_hold_in_the_model_is_not_registered() -> None:
    stage = Stage()
    kernel = FakeCompiler().compile(BIG, None, ("simd128",)).kernels[0]
    stage.runner.registered[BIG.key] = kernel
    stage.runner.in_place = lambda workload, candidate: 1.0 if candidate is None else 2.0
    trials = Trials(stage.runner, {})
    events = list(try_candidate(BIG, GOOD, None, stage.context, trials=trials))
    assert isinstance(events[-1], Measured) and events[-1].state == "slower"
    assert stage.runner.swaps == [] and "in place slower" in stage.records.rows[-1].in_place


def test_it_is_measured_again_each_time() -> None:
    stage = Stage()
    run(stage, POOR, GOOD)
    before = len(stage.runner.measured)
    run(stage, POOR, GOOD)
    assert len(stage.runner.measured) == 2 * before


def test_a_wrong_other_tier_keeps_it_out() -> None:
    stage = Stage()
    stage.runner.wrong = lambda kernel: kernel.tier == "simd128"
    events = run(stage, GOOD, None)
    assert isinstance(events[-1], Measured)
    assert events[-1].state == "wrong"
    assert "simd128" in events[-1].reason
    assert stage.runner.swaps == []


def test_one_tier_has_no_other_to_check() -> None:
    stage = Stage(device=replace(DEVICE, tiers=("simd128",)))
    assert isinstance(run(stage, GOOD, None)[-1], Swapped)


def test_what_does_not_compile_is_a_verdict() -> None:
    stage = Stage(compiler=FakeCompiler(fails=lambda c: c == POOR))
    compiled, measured = run(stage, POOR, GOOD)
    assert isinstance(compiled, Compiled) and compiled.error == "too many locals"
    assert isinstance(measured, Measured) and measured.state == "failed"


def test_an_incumbent_that_does_not_compile_is_an_error() -> None:
    stage = Stage(compiler=FakeCompiler(fails=lambda c: c == GOOD))
    with pytest.raises(CompileError, match="runs now"):
        run(stage, POOR, GOOD)
