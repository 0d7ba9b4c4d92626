"""``nnjit bench passes``: the gain by each pass, after Table 5 of the paper."""

from __future__ import annotations

import statistics
from typing import Any

from nnjit_studio.bench.conditions import load_average, measured_on
from nnjit_studio.bench.options import Note
from nnjit_studio.bench.statistics import spread
from nnjit_studio.compiler.pipeline.wasm import OPTIONAL_PASSES
from nnjit_studio.compiler.spelling import WorkloadSpec
from nnjit_studio.errors import CompileError
from nnjit_studio.records import Kernel, MeasurePolicy, RunResult
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.tuner.swap_policy import SwapPolicy, speedup_interval
from nnjit_studio.workbench import Workbench

PAPER_PASSES = ("offset_load_store", "combined_instruction", "load_store_to_variable")
COMPILATIONS = 25
NOISE = 0.03
"""Differences below this share are not told from noise, whatever the interval says."""
MAX_INTERVAL = 0.1
"""With a wider interval of the slowdown there is no verdict, not even that both are equal."""
POLICY = MeasurePolicy(pairs=16, min_sample_ms=10.0, warmup_ms=150.0, max_ms=20_000.0)


def variants() -> list[tuple[str, tuple[str, ...]]]:
    """Name and passes of each variant: none, cumulative as in the paper, each off alone."""
    kept = tuple(p for p in OPTIONAL_PASSES if p not in PAPER_PASSES)
    found = [("none", kept)]
    for i, name in enumerate(PAPER_PASSES):
        found.append((f"+{name}", (*kept, *PAPER_PASSES[: i + 1])))
    for name in PAPER_PASSES:
        found.append((f"all but {name}", tuple(p for p in OPTIONAL_PASSES if p != name)))
    return found


def bench_passes(
    bench: Workbench, spec: WorkloadSpec, candidate: Candidate, note: Note
) -> dict[str, Any]:
    """Compile ms, bytes and kernel ms of each variant.

    A variant is compared with the kernel with all passes, in pairs (A B B A);
    ``slowdown`` is its time over that kernel's, with a 95 % interval.

    Raises
    ------
    CompileError, PageError
        When a variant does not compile or gives wrong results.
    """
    before = load_average()
    device, runner = bench.page.connect(), bench.page.runner
    tier = device.best_tier
    workload, _ = bench.process.define(str(spec))
    runner.set_fixture(bench.compiler.fixture(workload))

    def build(passes: tuple[str, ...]) -> tuple[Kernel, float]:
        times = []
        for _ in range(COMPILATIONS):
            result = bench.compiler.compile(workload, candidate, (tier,), passes)
            if result.error:
                raise CompileError(result.error)
            times.append(result.ms)
        return result.kernel(tier), statistics.median(times)

    full, _ = build(OPTIONAL_PASSES)
    rows: list[dict[str, Any]] = []
    for name, passes in variants():
        kernel, compile_ms = build(passes)
        row = _row(runner.measure(kernel, full, POLICY), name)
        same = kernel.sha256 == full.sha256
        row |= {"compile_ms": compile_ms, "nbytes": len(kernel.data), "same_bytes": same}
        rows.append(row)
        note(f"{name:<28} {row['ms']['median']:.3f} ms: {row['verdict']}")
    return {
        "ok": True,
        **measured_on(device, before, bench.compiler.version),
        "workload": str(spec),
        "candidate": str(candidate),
        "tier": tier,
        "rows": rows,
    }


def _row(result: RunResult, name: str) -> dict[str, Any]:
    if result.error or not result.error_ratio <= 1 or not result.guard_ok:
        raise CompileError(
            f"The variant {name} is wrong: {result.error or 'its result is off'}.",
            "Run it again; if it stays, report it with the workload and the candidate.",
        )
    slowdown, low, high = speedup_interval(result.incumbent_ms, result.samples_ms, SwapPolicy())
    return {
        "variant": name,
        "ms": spread(result.samples_ms),
        "all_passes_ms": spread(result.incumbent_ms),
        "slowdown": {"median": slowdown, "low": low, "high": high},
        "verdict": verdict(slowdown, low, high),
        "samples_ms": list(result.samples_ms),
    }


def verdict(slowdown: float, low: float, high: float) -> str:
    """A variant's time compared with that of the kernel with all passes, in words."""
    if high - low > MAX_INTERVAL:
        return f"{slowdown:.2f}x, not settled: the machine was too busy, repeat it"
    if low > 1 and slowdown > 1 + NOISE:
        return f"{slowdown:.2f}x the time of all passes: they earn their keep"
    if high < 1 and slowdown < 1 - NOISE:
        return f"{slowdown:.2f}x the time of all passes: faster without"
    return f"{slowdown:.2f}x, within noise: the engine does this work itself"
