from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nnjit_studio.bench.tuner import plan_regret
from nnjit_studio.bench.tuner.plan_regret import (
    Combination,
    bench_plan_regret,
    every_plan,
    regret_of,
    told,
)
from nnjit_studio.model.plan_choice import PlanChoice
from nnjit_studio.records import MeasurePolicy, Trial
from nnjit_studio.tuner.events import PlanSettled
from nnjit_studio.tuner.in_place import InPlace


def combination(name: str, speedup: float, spread: float) -> Combination:
    return Combination(name, InPlace("", "models", 16, speedup, speedup - spread, speedup + spread))


@pytest.mark.parametrize(
    ("slower", "spread", "pairs"),
    [(1.5, 0.02, 4), (1.0, 0.001, 4), (1.0, 0.5, 128), (0.9, 0.001, 4), (0.9, 0.2, 128)],
)
def test_a_combination_is_tried_until_its_regret_is_known_to_the_goal(
    slower: float, spread: float, pairs: int
) -> None:
    """A faster one too: its interval was left as wide as it was when it first excluded 1."""
    rng = np.random.default_rng(3)

    def trial(policy: MeasurePolicy) -> Trial:
        ms, others = (rng.uniform(10, 10 + 10 * spread, policy.pairs) for _ in range(2))
        return Trial("models", 1, tuple(slower * ms), tuple(others))

    place = told(trial)
    assert place.pairs == pairs
    assert 1 / place.low - 1 / place.high < 0.06 or spread == 0.5


def test_a_slow_model_has_as_many_looks_as_its_time_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(plan_regret.time, "monotonic", lambda: now[0])

    def trial(policy: MeasurePolicy) -> Trial:
        now[0] += 2.5 * policy.pairs
        ms = tuple(10.0 + i % 5 for i in range(policy.pairs))
        return Trial("models", 1, ms, ms[::-1])

    assert told(trial).pairs == 16 and now[0] <= plan_regret.MOST_S


def test_every_combination_is_spelled_by_what_differs_from_the_rules() -> None:
    tiles = PlanChoice("w", "2x2", "4x4", ("direct", "4x4"), "")
    merge = PlanChoice("m", "on", "on", ("off",), "")
    plans = list(every_plan([tiles, merge]))
    assert len(plans) == 6 and {} in plans and {"w": "direct", "m": "off"} in plans
    assert list(every_plan([])) == [{}]


def test_regret_is_of_the_best_that_is_proven_faster() -> None:
    found = regret_of([combination("a", 1.25, 0.1), combination("b", 2.0, 1.5)], 8)
    assert (found["best"], found["plans"], found["measured"]) == ("a", 8, 3)
    assert found["regret"] == pytest.approx(0.2)
    assert found["regret_high"] == pytest.approx(1 - 1 / 3.5)
    none = regret_of([combination("a", 0.9, 0.05), Combination("c", None, "wrong")], 3)
    assert (none["best"], none["regret"], none["regret_high"], none["measured"]) == ("", 0, 0, 2)


def test_the_minutes_limit_what_tunes_the_plan_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of 5 minutes came out of one minute."""
    given = []

    def tune(model: object, seconds: float, records: object) -> list[PlanSettled]:
        given.append(seconds)
        return [PlanSettled(0.0, "m", "rule", "time", 1, 2, 2, 1.0)]

    monkeypatch.setattr(plan_regret, "tune_plan", tune)
    monkeypatch.setattr(plan_regret, "_compared", lambda bench, ways: Combination("", None))
    monkeypatch.setattr(plan_regret, "measured_on", lambda *_: {})
    opened = SimpleNamespace(
        graph=SimpleNamespace(name="m"),
        program=lambda: SimpleNamespace(choices=[PlanChoice("m", "on", "on", ("off",), "")]),
    )
    device = SimpleNamespace(threads=1)
    bench: Any = SimpleNamespace(
        open_model=lambda path: opened,
        model=None,
        page=SimpleNamespace(connect=lambda: device),
        compiler=SimpleNamespace(version="1"),
    )
    bench_plan_regret(bench, [Path("m.onnx")], 40, print, minutes=1)
    assert len(given) == 1 and 0 < given[0] <= 60
