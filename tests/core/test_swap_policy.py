"""Gates of a swap, one by one, and its error rates under realistic noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnjit_studio.space.records import CompileResult, RunResult
from nnjit_studio.tuner.evaluator import Outcome, measured_event
from nnjit_studio.tuner.swap_policy import SwapPolicy, decide, gflops_of, speedup_interval

FAST = RunResult(
    "matmul:1x1x1:f32#",
    "x0=8",
    "simd128",
    samples_ms=(1.0, 1.01, 1.0, 1.02, 1.0, 1.01),
    incumbent_ms=(2.0, 2.01, 2.0, 2.02, 2.0, 2.01),
    batch=8,
    error_ratio=0.3,
    guard_ok=True,
)
FLOPS = 20_000_000  # 20 GFLOP/s in 1 ms


def test_a_clear_gain_wins() -> None:
    verdict = decide(FAST, FLOPS, 50.0)
    assert verdict.state == "won"
    assert 1 < verdict.low <= verdict.speedup <= verdict.high
    assert verdict.speedup == pytest.approx(2.0, abs=0.02)


@pytest.mark.parametrize(
    ("change", "state", "word"),
    [
        ({"error": "trap: unreachable"}, "failed", "trap"),
        ({"samples_ms": ()}, "failed", "no sample"),
        ({"error_ratio": 1.5}, "wrong", "1.5"),
        ({"error_ratio": float("nan")}, "wrong", "nan"),
        ({"guard_ok": False}, "wrong", "outside"),
        ({"stopped_early": True}, "slower", "stopped early"),
        ({"samples_ms": (1.0, 1.0)}, "slower", "2 pairs"),
        ({"samples_ms": tuple(x * 2 for x in FAST.samples_ms)}, "slower", "exclude 1"),
        ({"samples_ms": tuple(x / 1.02 for x in FAST.incumbent_ms)}, "slower", "below 3%"),
    ],
)
def test_each_gate_can_fail(change: dict[str, object], state: str, word: str) -> None:
    verdict = decide(replace(FAST, **change), FLOPS, 50.0)  # type: ignore[arg-type]
    assert verdict.state == state
    assert word in verdict.reason


@pytest.mark.parametrize(
    ("change", "word"), [({"error_ratio": 3.1}, "3.1 x"), ({"guard_ok": False}, "outside")]
)
def test_a_wrong_kernel_is_called_wrong_though_the_page_takes_no_samples_of_it(
    change: dict[str, object], word: str
) -> None:
    result = replace(FAST, samples_ms=(), incumbent_ms=(), **change)  # type: ignore[arg-type]
    verdict = decide(result, FLOPS, 50.0)
    assert verdict.state == "wrong"
    assert word in verdict.reason
    outcome = Outcome(CompileResult("matmul:1x1x1:f32#", None), verdict, None, result, FLOPS)
    assert measured_event(outcome, "w", 0.0).error_ratio == result.error_ratio


def test_gates_stand_in_order() -> None:
    broken = replace(FAST, error="trap", error_ratio=9.0, guard_ok=False)
    assert decide(broken, FLOPS, 1.0).state == "failed"
    assert decide(replace(broken, error=""), FLOPS, 1.0).state == "wrong"
    assert decide(replace(broken, error="", error_ratio=0, guard_ok=True), FLOPS, 1.0).state == (
        "impossible"
    )


def test_rate_may_exceed_the_peak_by_a_tenth() -> None:
    assert decide(FAST, FLOPS, 18.5).state == "won"
    assert decide(FAST, FLOPS, 17.5).state == "impossible"
    assert decide(FAST, FLOPS, None).state == "won"
    assert decide(FAST, 0, 0.001).state == "won"  # nothing counted, so no rate


def test_the_first_kernel_is_judged_without_speed() -> None:
    first = replace(FAST, incumbent_ms=())
    assert decide(first, FLOPS, 50.0).state == "won"
    assert decide(first, FLOPS, 5.0).state == "impossible"
    assert decide(replace(first, error_ratio=2.0), FLOPS, 50.0).state == "wrong"


def test_equal_samples_give_equal_intervals() -> None:
    policy = SwapPolicy()
    once = speedup_interval(FAST.samples_ms, FAST.incumbent_ms, policy)
    assert once == speedup_interval(FAST.samples_ms, FAST.incumbent_ms, policy)


def test_rate_of_unknown_work_or_time_is_zero() -> None:
    assert gflops_of(0, 1.0) == 0
    assert gflops_of(5, 0.0) == 0
    assert gflops_of(FLOPS, 1.0) == 20


def measurements(speedup: float, trials: int, pairs: int, seed: int) -> list[RunResult]:
    """2 % lognormal noise, a drift they share, spikes up to 2.5x in 5 % of samples."""
    rng = np.random.default_rng(seed)

    def samples(ms: np.ndarray) -> tuple[float, ...]:
        noisy = ms * np.exp(rng.normal(0, 0.02, ms.size))
        spikes = np.where(rng.random(ms.size) < 0.05, rng.uniform(1.2, 2.5, ms.size), 1.0)
        return tuple(noisy * spikes)

    found = []
    for _ in range(trials):
        drift = 8 * np.exp(np.cumsum(rng.normal(0, 0.01, pairs)))
        found.append(
            replace(FAST, samples_ms=samples(drift / speedup), incumbent_ms=samples(drift))
        )
    return found


def share_of_wins(speedup: float, trials: int, pairs: int = 6) -> float:
    verdicts = [decide(r, 0, None) for r in measurements(speedup, trials, pairs, seed=7)]
    return sum(v.state == "won" for v in verdicts) / trials


@pytest.mark.parametrize("pairs", [6, 12])
def test_a_kernel_against_itself_swaps_at_most_once_in_a_hundred(pairs: int) -> None:
    assert share_of_wins(1.0, 1000, pairs) <= 0.01


def test_a_slower_kernel_never_wins() -> None:
    assert share_of_wins(0.95, 500) == 0


def test_a_faster_kernel_wins_at_the_second_look_at_the_latest() -> None:
    assert share_of_wins(1.1, 200, pairs=6) >= 0.6
    assert share_of_wins(1.1, 200, pairs=12) >= 0.9
