"""The device experiments (NNJIT paper, section 5.1): what a device can do, and what it prefers.

A list of named experiments, each on one property, in the target itself. An
experiment measures whole curves; what limits follow from them is decided where
they are read (:mod:`nnjit_studio.device.measured`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.process.results import DeviceKernels
from nnjit_studio.device.host import cpu_name
from nnjit_studio.device.measured import COPY, LATENCY, READ, SPILL, Curve, MeasuredDevice
from nnjit_studio.device.primitives import Effect
from nnjit_studio.errors import PageError
from nnjit_studio.model import Workload
from nnjit_studio.records import (
    DeviceProfile,
    Fixture,
    Kernel,
    MeasurePolicy,
    RateItem,
    RateRequest,
    RunResult,
)
from nnjit_studio.support.phases import OnPhase, quiet
from nnjit_studio.tuner.swap_policy import SwapPolicy, decide, speedup_interval

ACCUMULATORS = tuple(range(4, 41))
WORKING_SETS = (
    *(size for power in range(12, 24) for size in (1 << power, 3 << (power - 1))),
    *(16 << 20, 32 << 20),
)
"""Bytes of the latency sweep: 4 KiB to 32 MiB, two an octave up to 16 MiB."""
STREAM_BYTES = 64 << 20
"""Read by the streaming experiment, and copied to as much again: more than a core's own caches."""
MOST_THREADS = 64
SPILL_RATES = RateRequest((), rounds=7, sample_ms=1.0, warmup_ms=12.0)
LATENCY_RATES = RateRequest((), max(WORKING_SETS), rounds=4, sample_ms=1.0, warmup_ms=12.0)
STREAM_RATES = RateRequest((), 2 * STREAM_BYTES, rounds=5, sample_ms=5.0, warmup_ms=15.0)
MIN_PAIRS = 4
"""Fewer pairs of samples with the setting in force say nothing."""
VARIANT_POLICY = MeasurePolicy(pairs=8, warmup_ms=45.0, early_stop_ratio=1e6, max_ms=2500.0)


class Target(Protocol):
    """The page, as the experiments see it."""

    def rates(self, kernels: list[bytes], request: RateRequest) -> list[list[float]]: ...

    def set_fixture(self, fixture: Fixture, threads: int | None = None) -> None: ...

    def measure(
        self, challenger: Kernel, incumbent: Kernel | None, policy: MeasurePolicy
    ) -> RunResult: ...


@dataclass
class Findings:
    """What the experiments so far have found."""

    curves: dict[str, Curve] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)


@dataclass(frozen=True)
class Lab:
    """What an experiment works with; ``kernels`` are those of the device's best tier."""

    target: Target
    process: CompileProcess
    device: DeviceProfile
    kernels: DeviceKernels


Experiment = Callable[[Lab, Findings], Iterator[str]]
"""Measures into the findings; yields a word before each request to the page."""


def registers(lab: Lab, findings: Findings) -> Iterator[str]:
    """GFLOP/s of a matmul's step with 4 to 40 accumulators."""
    yield "vector registers"
    items = tuple(RateItem(i) for i in range(len(lab.kernels.spill)))
    modules = [data for data, _ in lab.kernels.spill]
    times = _times(lab, modules, replace(SPILL_RATES, items=items))
    samples = [
        tuple(flops / ms / 1e6 for ms in each)
        for (_, flops), each in zip(lab.kernels.spill, times, strict=True)
    ]
    findings.curves[SPILL] = Curve(ACCUMULATORS, tuple(samples))


def caches(lab: Lab, findings: Findings) -> Iterator[str]:
    """Latency of a dependent load by the size of what it walks through."""
    yield "caches"
    items = tuple(RateItem(0, chain_bytes=size) for size in WORKING_SETS)
    times = _times(lab, [lab.kernels.chase], replace(LATENCY_RATES, items=items))
    samples = tuple(tuple(ms * 1e6 for ms in each) for each in times)
    findings.curves[LATENCY] = Curve(WORKING_SETS, samples)


def bandwidth(lab: Lab, findings: Findings) -> Iterator[str]:
    """Streaming reads and copies, on one thread and on as many as there are cores."""
    cores = min(lab.device.cores, MOST_THREADS) if lab.device.cross_origin_isolated else 1
    found: dict[str, list[tuple[int, tuple[float, ...]]]] = {READ: [], COPY: []}
    block = lab.kernels.block_bytes
    for threads in sorted({1, cores}):
        yield f"memory bandwidth, {threads} thread{'s' * (threads > 1)}"
        extent = STREAM_BYTES // block
        items = tuple(RateItem(i, extent, threads) for i in range(2))
        modules = [lab.kernels.read, lab.kernels.copy]
        times = _times(lab, modules, replace(STREAM_RATES, items=items))
        for name, moved, each in zip((READ, COPY), (block, 2 * block), times, strict=True):
            found[name].append((threads, tuple(moved / ms / 1e6 for ms in each)))
    for name, points in found.items():
        findings.curves[name] = Curve(
            tuple(threads for threads, _ in points), tuple(samples for _, samples in points)
        )


def primitives(lab: Lab, findings: Findings) -> Iterator[str]:
    """One primitive of the common matmul changed at a time, in pairs with the one in force."""
    yield "reference of the common matmul"
    workload, ((_, _, base), *others) = lab.process.variants(lab.device.tiers)
    lab.target.set_fixture(lab.process.fixture(workload), threads=1)
    for number, (primitive, setting, kernel) in enumerate(others, 1):
        yield f"{primitive} {setting} ({number} of {len(others)})"
        if kernel.sha256 == base.sha256:
            findings.effects.append(Effect(primitive, setting, 1.0, 1.0, 1.0, same_bytes=True))
        else:
            findings.effects.append(_effect(lab, workload, primitive, setting, kernel, base))


def _times(lab: Lab, modules: list[bytes], request: RateRequest) -> list[list[float]]:
    times = lab.target.rates(modules, request)
    if not all(ms > 0 for samples in times for ms in samples):
        raise PageError("A device experiment took no time by the page's clock.", "Measure again.")
    return times


def _effect(
    lab: Lab, workload: Workload, primitive: str, setting: str, kernel: Kernel, base: Kernel
) -> Effect:
    result = lab.target.measure(kernel, base, VARIANT_POLICY)
    peak = lab.device.peak_gflops.get(kernel.tier)
    verdict = decide(result, workload.flops, peak)
    pairs = min(len(result.samples_ms), len(result.incumbent_ms))
    if verdict.state in ("failed", "wrong", "impossible"):
        return Effect(primitive, setting, error=verdict.reason)
    if pairs < MIN_PAIRS:
        return Effect(primitive, setting, error=f"only {pairs} pairs of samples")
    interval = speedup_interval(result.samples_ms, result.incumbent_ms, SwapPolicy())
    return Effect(
        primitive, setting, *interval, samples_ms=result.samples_ms, base_ms=result.incumbent_ms
    )


EXPERIMENTS: dict[str, Experiment] = {
    "registers": registers,
    "caches": caches,
    "bandwidth": bandwidth,
    "primitives": primitives,
}
"""In order; the first takes a second, all of them some seconds."""


def measure_device(
    target: Target,
    process: CompileProcess,
    device: DeviceProfile,
    *,
    created: str,
    versions: dict[str, str],
    on_phase: OnPhase = quiet,
) -> MeasuredDevice:
    """Run every experiment; ``on_phase`` hears of each part, and may raise to end it.

    Raises
    ------
    PageError, CompileError
        When the page or the compile process fails; nothing is kept then.
    """
    tier = device.best_tier
    kernels = process.device_kernels(tier, ACCUMULATORS, STREAM_BYTES)
    lab, findings = Lab(target, process, device, kernels), Findings()
    seconds: dict[str, float] = {}
    for number, (name, experiment) in enumerate(EXPERIMENTS.items(), 1):
        start = time.perf_counter()
        for part in experiment(lab, findings):
            on_phase(f"measuring the device, {number} of {len(EXPERIMENTS)}: {part}")
        seconds[name] = round(time.perf_counter() - start, 3)
    return MeasuredDevice(
        device.device_id,
        device.target,
        tier,
        created,
        cpu_name(),
        device.user_agent,
        device.flags,
        device.cores,
        device.timer_quantum_ms,
        dict(device.peak_gflops),
        versions,
        kernels.operands,
        findings.curves,
        tuple(findings.effects),
        seconds,
    )
