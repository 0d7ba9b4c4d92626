"""Gates of a swap, one by one, and its error rates under realistic noise."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from nnjit_studio.records import CompileResult, Kernel, MeasurePolicy, RunResult
from nnjit_studio.tuner.evaluator import duel, measured_event
from nnjit_studio.tuner.swap_policy import (
    SwapPolicy,
    _student_quantile,
    convincing,
    decide,
    gflops_of,
    speedup_interval,
)

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
        ({"samples_ms": (1.0, 0.0)}, "failed", "no time"),
        ({"incumbent_ms": (0.0,)}, "failed", "no time"),
        ({"error_ratio": 1.5}, "wrong", "1.5"),
        ({"error_ratio": float("nan")}, "wrong", "nan"),
        ({"guard_ok": False}, "wrong", "outside"),
        ({"stopped_early": True}, "slower", "stopped early"),
        ({"samples_ms": (1.0,)}, "not told apart", "1 pairs"),
        ({"samples_ms": tuple(x * 2 for x in FAST.samples_ms)}, "not told apart", "exclude 1"),
        ({"samples_ms": tuple(x * 1.2 for x in FAST.incumbent_ms)}, "slower", "interval 0.8"),
        ({"samples_ms": tuple(x / 1.02 for x in FAST.incumbent_ms)}, "faster", "below 3%"),
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
    compiled = CompileResult("matmul:1x1x1:f32#", None)
    measured = measured_event(compiled, result, verdict, FLOPS, 0.0)
    assert measured.error_ratio == result.error_ratio


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


def measurements(
    speedup: float,
    trials: int,
    pairs: int,
    rng: np.random.Generator,
    noise: float = 0.02,
    spikes: float = 0.05,
) -> list[RunResult]:
    """Lognormal noise, a drift that both share, spikes up to 2.5x in a share of samples."""

    def samples(ms: np.ndarray) -> tuple[float, ...]:
        noisy = ms * np.exp(rng.normal(0, noise, ms.size))
        spiked = rng.random(ms.size) < spikes
        return tuple(noisy * np.where(spiked, rng.uniform(1.2, 2.5, ms.size), 1.0))

    found = []
    for _ in range(trials):
        drift = 8 * np.exp(np.cumsum(rng.normal(0, 0.01, pairs)))
        found.append(
            replace(FAST, samples_ms=samples(drift / speedup), incumbent_ms=samples(drift))
        )
    return found


class NoisyRunner:
    """Pairs of samples as :func:`measurements` makes them; ``asked`` are the pairs of each call."""

    def __init__(self, speedup: float, seed: int = 7, **noise: float) -> None:
        self.speedup, self.noise = speedup, noise
        self.rng = np.random.default_rng(seed)
        self.asked: list[int] = []

    def measure(
        self, challenger: Kernel, incumbent: Kernel | None, policy: MeasurePolicy
    ) -> RunResult:
        self.asked.append(policy.pairs)
        (result,) = measurements(self.speedup, 1, policy.pairs, self.rng, **self.noise)
        return result


KERNEL = Kernel("matmul:1x1x1:f32#", None, "simd128", b"", "")


def duels(trials: int, runner: NoisyRunner, policy: MeasurePolicy | None = None) -> list[RunResult]:
    """The results that won."""
    found = [
        duel(runner, KERNEL, KERNEL, 0, None, policy or MeasurePolicy(), SwapPolicy())  # type: ignore[arg-type]
        for _ in range(trials)
    ]
    return [result for result, verdict in found if verdict.state == "won"]


@pytest.mark.parametrize(
    ("noise", "spikes", "most"), [(0.005, 0.0, 4), (0.02, 0.05, 12), (0.1, 0.2, 22)]
)
def test_a_kernel_against_itself_swaps_at_most_once_in_a_hundred(
    noise: float, spikes: float, most: float
) -> None:
    runner = NoisyRunner(1.0, noise=noise, spikes=spikes)
    assert len(duels(120, runner)) <= 1
    assert sum(runner.asked) / 120 <= most


def test_looking_again_and_again_without_correction_errs_more_often() -> None:
    """The interval of one look, at five looks: what the equal shares of the error prevent."""
    policy = SwapPolicy(resamples=300)
    rng = np.random.default_rng(5)
    once = corrected = 0
    for _ in range(200):
        (result,) = measurements(1.0, 1, 32, rng, noise=0.1, spikes=0.0)
        pairs = [(result.samples_ms[:n], result.incumbent_ms[:n]) for n in policy.looks]
        once += any(speedup_interval(c, i, policy)[1] > 1 for c, i in pairs)
        corrected += any(
            speedup_interval(c, i, policy, policy.look_confidence)[1] > 1 for c, i in pairs
        )
    assert corrected / 200 <= 0.025 < once / 200


def test_a_slower_kernel_never_wins_and_is_soon_given_up() -> None:
    for speedup, most in ((0.95, 8), (0.8, 4)):
        runner = NoisyRunner(speedup)
        assert duels(200, runner) == []
        assert sum(runner.asked) / 200 <= most


def test_a_faster_kernel_wins_and_a_much_faster_one_soon() -> None:
    assert len(duels(100, NoisyRunner(1.05, noise=0.01))) >= 95
    assert len(duels(100, NoisyRunner(1.1))) >= 95
    runner = NoisyRunner(5.0)
    assert len(duels(100, runner)) == 100
    assert sum(runner.asked) / 100 <= 4


def test_a_duel_ends_after_the_last_look_or_when_its_time_is_over() -> None:
    open_runner = NoisyRunner(1.0, seed=3, noise=0.3, spikes=0.0)
    policy = SwapPolicy(min_gain=9.0)  # out of reach, but the noise hides that for long
    results = [
        duel(open_runner, KERNEL, KERNEL, 0, None, MeasurePolicy(), policy)[0]  # type: ignore[arg-type]
        for _ in range(20)
    ]
    assert set(open_runner.asked) <= {2, 4, 8, 16}
    assert sum(open_runner.asked) == sum(len(r.samples_ms) for r in results)
    assert all(len(r.samples_ms) == len(r.incumbent_ms) <= 32 for r in results)
    short = NoisyRunner(1.0, noise=0.3, spikes=0.0)
    duels(20, short, MeasurePolicy(max_ms=50.0))
    assert set(short.asked) == {2}


def test_a_win_within_one_burst_of_a_busy_machine_is_looked_at_again() -> None:
    busy = [1.11, 1.34, 1.2, 1.11, 1.18, 1.79, 1.43, 1.11]  # seen: a kernel against itself
    verdict = decide(with_ratios(*busy), FLOPS, 50.0)
    assert verdict.state == "won"
    assert not convincing(with_ratios(*busy), verdict)
    for sure in (busy * 2, [r * 3 for r in busy], [1.11, 1.12] * 4):
        result = with_ratios(*sure)
        verdict = decide(result, FLOPS, 50.0)
        assert verdict.state == "won"
        assert convincing(result, verdict)


class ReplayRunner:
    """Pairs of these ratios, in order."""

    def __init__(self, *ratios: float) -> None:
        self.ratios = list(ratios)

    def measure(
        self, challenger: Kernel, incumbent: Kernel | None, policy: MeasurePolicy
    ) -> RunResult:
        taken, self.ratios = self.ratios[: policy.pairs], self.ratios[policy.pairs :]
        return with_ratios(*taken)


def test_a_win_that_a_busy_machine_may_have_made_is_none_when_the_time_is_over() -> None:
    ratios = (1.11, 1.34, 1.2, 1.11, 1.18, 1.79, 1.43, 1.11)
    busy = with_ratios(*ratios)
    short = MeasurePolicy(max_ms=2 * busy.batch * len(ratios))
    runner = ReplayRunner(*ratios)
    result, verdict = duel(runner, KERNEL, KERNEL, FLOPS, 50.0, short, SwapPolicy())  # type: ignore[arg-type]
    assert len(result.samples_ms) == 8
    assert verdict.state == "not told apart"
    assert "busy" in verdict.reason


def test_quantiles_of_students_t_are_those_of_the_tables() -> None:
    known = {(0.995, 1): 63.657, (0.975, 2): 4.303, (0.995, 3): 5.841, (0.95, 10): 1.812}
    for (p, df), value in known.items():
        assert _student_quantile(p, df) == pytest.approx(value, abs=6e-4)


def test_gate_one_at_its_border() -> None:
    assert decide(replace(FAST, error_ratio=1.0), FLOPS, 50.0).state == "won"
    assert decide(replace(FAST, error_ratio=math.nextafter(1, 2)), FLOPS, 50.0).state == "wrong"
    assert decide(replace(FAST, guard_ok=False), FLOPS, 50.0).state == "wrong"


def with_ratios(*ratios: float) -> RunResult:
    return replace(FAST, samples_ms=(1.0,) * len(ratios), incumbent_ms=ratios)


def test_gate_two_at_its_borders() -> None:
    exact = with_ratios(*(1.03,) * 16)  # no spread: the bootstrap's interval is a point
    assert decide(exact, FLOPS, 50.0).state == "won"
    below = with_ratios(*(math.nextafter(1.03, 1),) * 16)
    assert "below 3%" in decide(below, FLOPS, 50.0).reason
    # A median of 1.5 whose interval reaches down to 1 exactly, and one above it.
    touching = with_ratios(*(1.0, 2.0) * 8)
    assert decide(touching, FLOPS, 50.0).low == 1.0
    assert "does not exclude 1" in decide(touching, FLOPS, 50.0).reason
    above = with_ratios(*(1.001, 2.0) * 8)
    assert decide(above, FLOPS, 50.0).state == "won"


def test_gate_three_at_its_border() -> None:
    rate = gflops_of(FLOPS, float(np.median(FAST.samples_ms)))
    policy = SwapPolicy(peak_margin=1.0)
    assert decide(FAST, FLOPS, rate, policy).state == "won"
    assert decide(FAST, FLOPS, math.nextafter(rate, 0), policy).state == "impossible"
    assert SwapPolicy().peak_margin == 1.1


def test_a_single_look_is_judged_like_one_of_several() -> None:
    assert SwapPolicy().look_confidence == pytest.approx(0.99)
    assert SwapPolicy(looks=(8,)).look_confidence == pytest.approx(0.95)


def test_the_workbench_loads_scipy_only_for_an_interval() -> None:
    program = (
        "import sys, nnjit_studio.workbench; print('scipy' in sys.modules);"
        "from nnjit_studio.tuner.swap_policy import SwapPolicy, speedup_interval;"
        "speedup_interval((1.0,) * 8, (2.0,) * 8, SwapPolicy()); print('scipy' in sys.modules);"
        "print('scipy.stats' in sys.modules)"  # a second of each session's start
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert said.stdout.split() == ["False", "True", "False"], said.stderr


@pytest.mark.parametrize("pairs", [8, 9, 32, 64])
def test_the_bootstrap_has_the_ends_of_scipy_s(pairs: int) -> None:
    from scipy import stats  # a second, which each worker of a run would take to collect

    draw, policy = np.random.default_rng(pairs), SwapPolicy()
    challenger = draw.lognormal(0.0, 0.1, pairs)
    incumbent = challenger * draw.lognormal(0.02, 0.05, pairs)
    wide = math.sqrt(pairs / (pairs - 1)) * stats.t.ppf(0.975, pairs - 1)
    ends = stats.bootstrap(
        (challenger, incumbent), lambda c, i, axis: np.median(i, axis) / np.median(c, axis),
        paired=True, n_resamples=policy.resamples, method="percentile",
        confidence_level=1 - 2 * stats.norm.cdf(-wide), rng=np.random.default_rng(policy.seed),
    ).confidence_interval  # fmt: skip
    _, *found = speedup_interval(challenger, incumbent, policy)
    assert found == pytest.approx([ends.low, ends.high], rel=1e-12)


def test_a_loss_that_95_percent_prove_is_called_slower_with_that_interval() -> None:
    """The case of two pairs, after which most challengers are given up."""
    verdict = decide(with_ratios(0.70, 0.72), FLOPS, 50.0)
    assert verdict.state == "slower"
    assert verdict.high < 1 and "95% interval" in verdict.reason
    noisy = decide(with_ratios(0.30, 1.9), FLOPS, 50.0)
    assert (noisy.state, noisy.low < 1 < noisy.high) == ("not told apart", True)
