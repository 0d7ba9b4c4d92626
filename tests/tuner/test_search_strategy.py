"""The order of candidates: what is predicted, what is remembered, what is settled."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from tuner_fakes import DEVICE, TUNABLE, FakeRecords, Stage, best_is_6x8

from nnjit_studio.model import Workload
from nnjit_studio.records import KernelKey, TuningRecord
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.space.lite_space import build_lite_space
from nnjit_studio.tuner.events import Finished, Measured, RoundDone
from nnjit_studio.tuner.search.cost_model import (
    FEATURES,
    PRIOR_WEIGHTS,
    CostModel,
    Point,
    expected_improvement,
    features,
    point_of,
)
from nnjit_studio.tuner.search.stored_records import FAILURES, settled
from nnjit_studio.tuner.search.task_scheduler import FIRST_LOOK, MIN_ROUNDS

BIG, SMALL = TUNABLE
TILE = Candidate(8, 6, 4, 8, 6, 768)
CONV = Workload("conv2d", (1, 64, 28, 28, 64, 3, 3, 1, 1, 1, 1), "f32")


def candidates(workload: Workload) -> list[Candidate]:
    return [e.candidate for e in build_lite_space(workload, DEVICE, workload is BIG).entries]


def points(workload: Workload, group: str = "a") -> list[Point]:
    return [point_of(group, c, workload, DEVICE, 100.0) for c in candidates(workload)]


def twelve_rows(workload: Workload) -> NDArray[np.bool_]:
    return np.array([c.y0 == 12 for c in candidates(workload)])


def run(stage: Stage, **options: object) -> tuple[list[tuple[str, str]], Finished]:
    """Workload and candidate of each round in order, and the summary."""
    events = list(stage.session(**options).run())  # type: ignore[arg-type]
    assert isinstance(events[-1], Finished), events[-1]
    return [(e.workload, e.candidate) for e in events if isinstance(e, RoundDone)], events[-1]


def test_every_family_has_a_weight_for_every_feature() -> None:
    assert {len(w) for w in PRIOR_WEIGHTS.values()} == {len(FEATURES)}
    assert len(features(TILE, BIG, DEVICE)) == len(FEATURES)


def test_features_tell_what_they_say() -> None:
    def of(c: Candidate, w: Workload = BIG) -> dict[str, float]:
        return dict(zip(FEATURES, features(c, w, DEVICE), strict=True))

    assert of(TILE)["spilled"] == 0
    assert of(replace(TILE, x0=16, y0=8))["spilled"] == pytest.approx(37 / 16 - 1)
    assert of(replace(TILE, y0=2))["few_sums"] == 0.5
    assert of(TILE, replace(BIG, dims=(97, 768, 770)))["tail_rows"] == pytest.approx(1 / 97)
    assert of(replace(TILE, r1=192))["blocks_of_k"] == 2
    conv = Candidate(8, 6, 3, 7, 6, 576, "mn", False)
    assert of(conv, CONV)["block_rows"] == 2


@pytest.mark.parametrize("workload", [BIG, SMALL, CONV])
def test_without_any_measurement_a_full_tile_comes_first(workload: Workload) -> None:
    found = points(workload)
    mean, deviation = CostModel().predict(found)
    best = candidates(workload)[int(np.argmax(mean))]
    assert (best.y0, best.x0) in ((6, 8), (5, 8))
    assert np.all(deviation > 0)


def test_a_measured_tile_tells_of_its_variations_and_of_other_workloads() -> None:
    some, predictor = points(BIG), CostModel()
    before, doubt = predictor.predict(some)
    tile = twelve_rows(BIG)
    fast = int(np.argmax(tile))
    predictor.learn(some[fast], before[fast] + 0.5)
    predictor.learn(some[0], before[0])
    after, less = predictor.predict(some)
    gained = after - before
    assert gained[fast] > 0.3
    assert min(gained[tile]) > max(gained[~tile])
    assert np.all(less < doubt)
    other = points(SMALL, "b")
    moved = predictor.predict(other)[0] - CostModel().predict(other)[0]
    alike = twelve_rows(SMALL)
    assert min(moved[alike]) > max(moved[~alike])


def test_what_another_device_measured_counts_less() -> None:
    some = points(BIG)
    near, far = CostModel(), CostModel()
    rate = CostModel().predict(some[:1])[0][0] + 0.5
    near.learn(some[0], rate)
    far.learn(some[0], rate, distant=True)
    assert near.predict(some[:1])[0] > far.predict(some[:1])[0]


def test_residuals_wider_than_expected_widen_the_predictions() -> None:
    some = points(BIG)
    calm, wild = CostModel(), CostModel()
    for i, p in enumerate(some[:8]):
        mean = CostModel().predict([p])[0][0]
        calm.learn(p, mean)
        wild.learn(p, mean + (0.6 if i % 2 else -0.6))
    assert np.all(wild.predict(some[8:])[1] > 1.5 * calm.predict(some[8:])[1])


def test_expected_gain_counts_only_what_would_be_swapped_in() -> None:
    sure = np.array([1e-6])
    assert expected_improvement(np.array([0.02]), sure, 0.0, 0.03)[0] == pytest.approx(0, abs=1e-9)
    half = expected_improvement(np.array([math.log(2)]), sure, 0.0, 0.03)[0]
    assert half == pytest.approx(0.5)
    doubtful = expected_improvement(np.array([0.0, 0.0]), np.array([0.05, 0.1]), 0.0, 0.03)
    assert 0 < doubtful[0] < doubtful[1]


def test_the_order_is_a_function_of_database_and_results() -> None:
    first, one = run(Stage())
    again, two = run(Stage())
    assert first == again
    assert [w.best for w in one.workloads] == [w.best for w in two.workloads]
    slow = Stage()
    slow.runner.round_s = 3.0  # time alone changes nothing
    assert run(slow)[0] == first
    other = Stage()
    other.runner.speed = lambda w, c: best_is_6x8(w, c and replace(c, y0=c.x0, x0=c.y0))
    assert run(other)[0] != first


def test_a_sweep_gives_every_workload_its_first_round_most_work_first() -> None:
    rounds, _ = run(Stage())
    assert [w for w, _ in rounds[:2]] == [BIG.key, SMALL.key]


@pytest.mark.parametrize("big_ms", [0.01, 20.0, 300.0])
def test_cold_sessions_begin_alike_whatever_their_machine_measures(big_ms: float) -> None:
    """The workload of each first round, and the first candidate of all."""
    cold = Stage()
    cold.runner.speed = lambda w, c: big_ms if c is None and w == BIG.key else best_is_6x8(w, c)
    first, again = run(Stage())[0], run(cold)[0]
    assert again[0] == first[0]
    assert [w for w, _ in again[:2]] == [w for w, _ in first[:2]]


def test_it_converges_long_before_the_space_ends_and_finds_the_best_tile() -> None:
    stage = Stage()
    _, summary = run(stage, exhaustive=False)
    assert summary.reason == "converged"
    big = next(w for w in summary.workloads if w.workload == BIG.key)
    assert FIRST_LOOK <= big.rounds <= 16 < big.candidates
    assert "x0=8,y0=6" in big.best
    assert summary.seconds_to_within_3_percent > 0


def test_with_a_budget_it_goes_on_to_the_minimum_of_rounds() -> None:
    _, summary = run(Stage(), exhaustive=False, seconds=1000.0)
    counts = {w.workload: w.rounds for w in summary.workloads[:2]}
    assert summary.reason == "converged"
    assert min(counts.values()) >= MIN_ROUNDS


def test_the_estimate_of_the_model_ends_at_its_measured_time() -> None:
    events = list(Stage().session().run())
    estimates = [e.model_ms for e in events if isinstance(e, RoundDone)]
    last = events[-1]
    assert isinstance(last, Finished)
    assert estimates[-1] == pytest.approx(last.model_ms["after"], rel=0.02)
    assert estimates == sorted(estimates, reverse=True)


def test_winners_of_near_shapes_are_tried_first() -> None:
    stage = Stage()
    run(stage)
    rows = [r for r in stage.records.rows if r.key.kind == "matmul"]
    won = {r.settings.replace("pack=1", "pack=0") for r in rows if r.state == "won"}
    near = replace(BIG, dims=(320, 768, 768), fingerprint="dd")
    warm = Stage(workloads=(near,), records=FakeRecords(list(stage.records.rows)))
    rounds, _ = run(warm)
    cold, _ = run(Stage(workloads=(near,)))
    assert rounds[0][1] in won
    tile = [i for i, (_, c) in enumerate(rounds) if "x0=8,y0=6" in c]
    assert tile[0] == 0
    assert sorted(rounds) == sorted(cold)


def test_records_of_another_tier_are_no_history() -> None:
    stage = Stage()
    run(stage)
    near = replace(BIG, dims=(320, 768, 768), fingerprint="dd")
    rows = [replace(r, key=replace(r.key, tier="simd128")) for r in stage.records.rows]
    assert (
        run(Stage(workloads=(near,), records=FakeRecords(rows)))[0]
        == run(Stage(workloads=(near,)))[0]
    )


def record(state: str, settings: str = str(TILE), browser: str = "engine 1") -> TuningRecord:
    key = KernelKey.of(BIG, DEVICE, "simd128", "test-1")
    return TuningRecord(
        key, BIG.key, settings, state, 1.0, 1.0, (1.0,), "", b"", (), 1, 1.0, browser, "", 0.1, ""
    )


def test_wrong_stays_wrong_but_impossible_is_measured_again() -> None:
    past = [record("wrong"), record("impossible"), record("slower"), record("won")]
    assert [r.state for r in settled(past, "engine 1")] == ["wrong", "slower", "won"]


def test_what_seems_faster_but_not_beyond_the_noise_is_measured_again() -> None:
    tie = record("not told apart")
    equal = replace(tie, speedup=1.01, speedup_low=0.98, speedup_high=1.04)
    given_up = replace(tie, speedup=0.97, speedup_low=0.6, speedup_high=1.9)
    seems_faster = replace(tie, speedup=1.2, speedup_low=0.7, speedup_high=1.9)
    assert settled([equal, given_up, seems_faster], "engine 1") == [equal, given_up]


def test_what_failed_is_tried_again_until_it_failed_twice_in_this_engine() -> None:
    once = [record("failed")]
    assert settled(once, "engine 1") == []
    assert len(settled(once * FAILURES, "engine 1")) == FAILURES
    assert settled(once * FAILURES, "engine 2") == []


def test_a_session_repeats_what_failed_or_was_impossible() -> None:
    stage = Stage()
    stage.compiler.fails = lambda c: c.x0 == 16
    run(stage)
    tried = []
    for _ in range(FAILURES):
        again = Stage(records=stage.records)
        again.compiler.fails = stage.compiler.fails
        tried.append(run(again)[0])
    assert tried[0] and all("x0=16" in c for _, c in tried[0])
    assert tried[1:] == [[]] * (FAILURES - 1)
    fast = Stage(device=replace(DEVICE, peak_gflops={"relaxed-simd": 10.0}))
    events = list(fast.session().run())
    impossible = {
        e.candidate for e in events if isinstance(e, Measured) and e.state == "impossible"
    }
    right = Stage(records=fast.records)
    again_rounds, _ = run(right)
    assert {c for _, c in again_rounds} == impossible
