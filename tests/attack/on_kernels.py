"""Attacks of kernels on their measurement: work that is skipped, rates that no machine has."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from outcomes import Campaign, Outcome
from tuner_fakes import BIG, DEVICE

from nnjit_studio.records import MeasurePolicy, Pulse, RunResult
from nnjit_studio.support.programs import find_program
from nnjit_studio.tuner.peak.ceiling import Ceiling
from nnjit_studio.tuner.swap_policy import SwapPolicy, decide

_SKIPPING = Path(__file__).resolve().parents[1] / "page" / "studio" / "skipping.js"
TIER = "relaxed-simd"
GFLOPS = DEVICE.peak(TIER, BIG.kind) or 0.0


def too_fast(run: Campaign) -> Outcome:
    """By turns: work skipped from a run on (in V8), and a rate of many times the peak.

    Each time an honest kernel runs too, on a machine whose peak was probed in a slow moment.
    """
    skips, accepted, refused = [], 0, 0
    for number in run.rounds():
        if number % 2:
            skips.append(run.rng.randrange(1, 60))
            continue
        accepted += judged(run.rng.uniform(1.2, 50.0), probed=1.0) != "impossible"
        honest = judged(run.rng.uniform(0.3, 1.0), probed=run.rng.uniform(0.05, 0.25))
        refused += honest == "impossible"
    accepted += skipped(skips)
    counts = {"accepted": accepted, "honest ones refused": refused}
    return run.outcome(not accepted and not refused, counts)


def skipped(runs: list[int], planted: bool = False) -> int:
    """How many kernels got a time that skip their work from these runs on.

    ``planted``: the engine does not clear the outputs before it looks at them again.
    """
    node = find_program("node")
    assert node, "`make setup` installs Node"
    command = [str(node), str(_SKIPPING), *(["--planted"] if planted else []), *map(str, runs)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def judged(rate: float, probed: float, pulse: Callable[[], float] = lambda: 1.0) -> str:
    """State of a kernel of ``rate`` times the machine's peak.

    Parameters
    ----------
    probed
        What the first probe found, as a share of the peak.
    pulse
        What later ones find.
    """
    ms = BIG.flops / (rate * GFLOPS) / 1e6
    noise = random.Random(rate)

    def measure(*_: Any) -> RunResult:
        samples = tuple(ms * noise.uniform(0.99, 1.01) for _ in range(4))
        slower = tuple(1.5 * sample for sample in samples)
        return RunResult(BIG.key, "x", TIER, samples, slower, 1000, 0.0, True)

    known = DEVICE.peak_gflops[TIER]
    device = replace(DEVICE, peak_gflops={**DEVICE.peak_gflops, TIER: known * probed})
    runner: Any = SimpleNamespace(measure=measure, pulse=lambda _: Pulse(known * pulse()))
    ceiling = Ceiling(device, TIER, runner, SwapPolicy())
    first = measure()
    verdict = decide(first, BIG.flops, ceiling.peak(BIG.kind), SwapPolicy())
    kernels: Any = (None, None)
    return ceiling.judged(first, verdict, BIG, kernels, MeasurePolicy())[1].state
