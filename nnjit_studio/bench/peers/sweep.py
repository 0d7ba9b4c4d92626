"""A short tune of one shape: every candidate of its lite space, through the page's measuring."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.errors import CompileError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile, Kernel, MeasurePolicy
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.space import build_lite_space
from nnjit_studio.tuner.protocols import Runner

QUICK = MeasurePolicy(pairs=3, warmup_ms=30.0)
CAREFUL = MeasurePolicy(pairs=8, warmup_ms=60.0)
FINALISTS = 4


@dataclass(frozen=True)
class Swept:
    """The best candidate, its ms in the last comparison, and how many were measured."""

    candidate: AnyCandidate
    ms: float
    measured: int
    candidates: int


def sweep(
    compiler: Compiler,
    runner: Runner,
    device: DeviceProfile,
    workload: Workload,
    packable: bool,
    seconds: float,
) -> Swept:
    """Measure the candidates in the space's order for at most ``seconds``, then the best again.

    Unlike a tuning session it runs no model in between and asks for no proof of
    a gain: a benchmark wants the best candidate soon. Wrong kernels are left out.

    Raises
    ------
    CompileError
        When no candidate compiled and was right.
    """
    runner.set_fixture(compiler.fixture(workload))
    entries = build_lite_space(workload, device, packable).entries
    deadline = time.monotonic() + seconds
    found: list[tuple[float, Kernel]] = []
    seen: set[str] = set()
    measured = 0
    for entry in entries:
        if measured and time.monotonic() > deadline:
            break
        compiled = compiler.compile(workload, entry.candidate, (device.best_tier,))
        if compiled.error or compiled.kernels[0].sha256 in seen:
            continue
        kernel = compiled.kernels[0]
        seen.add(kernel.sha256)
        best = min(found, key=lambda f: f[0])[1] if found else None
        ms = _measure(runner, kernel, best, QUICK)
        measured += 1
        if ms is not None:
            found.append((ms, kernel))
    if not found:
        raise CompileError(
            f"No candidate of {workload.name} was right.", "Give it more seconds with --tune."
        )
    found.sort(key=lambda f: f[0])
    kernel, ms = _final(runner, [(kernel, ms) for ms, kernel in found[:FINALISTS]])
    assert kernel.candidate is not None
    return Swept(kernel.candidate, ms, measured, len(entries))


def _measure(
    runner: Runner, challenger: Kernel, incumbent: Kernel | None, policy: MeasurePolicy
) -> float | None:
    """Median ms; None for a kernel that is wrong or could not run."""
    result = runner.measure(challenger, incumbent, policy)
    right = not result.error and result.error_ratio <= 1 and result.guard_ok
    return statistics.median(result.samples_ms) if right and result.samples_ms else None


def _final(runner: Runner, finalists: Sequence[tuple[Kernel, float]]) -> tuple[Kernel, float]:
    """The winner stays: each finalist meets the best so far, in pairs."""
    best, ms = finalists[0]
    for challenger, _ in finalists[1:]:
        result = runner.measure(challenger, best, CAREFUL)
        if not result.samples_ms or not result.incumbent_ms or result.stopped_early:
            continue
        mine, theirs = map(statistics.median, (result.samples_ms, result.incumbent_ms))
        best, ms = (challenger, mine) if mine < theirs else (best, theirs)
    return best, ms
