"""One kernel from every side: settings, lite-space numbers, texts after each pass, limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from nnjit_studio.analysis.kernel.changes import ADDED, MOST_LINES, REMOVED, ChangedLine, changes
from nnjit_studio.analysis.kernel.line_map import LineMap, maps_of
from nnjit_studio.analysis.profile.rows import at_most
from nnjit_studio.compiler.process.results import KernelTexts
from nnjit_studio.errors import CompileError, UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import GPU_TIERS, DeviceProfile, Kernel
from nnjit_studio.records.candidate import settings_of
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.space import explain
from nnjit_studio.space.lite_space import Verdict, usage_of
from nnjit_studio.space.rules import Usage

LOOPS, CODE = ("loops",), ("wasm", "wgsl")


class TextSource(Protocol):
    """What makes the texts: the compile process."""

    def texts(self, workload: Workload, candidate: AnyCandidate | None, tier: str) -> KernelTexts:
        """The kernel after each named pass; raises ``CompileError``."""


@dataclass(frozen=True)
class PassStep:
    """One pass: its time, the text after it, and what it changed."""

    name: str
    form: str
    """What the text is, as in :class:`~nnjit_studio.compiler.process.results.PassText`."""
    text: str
    ms: float
    lines: tuple[ChangedLine, ...] | None
    """Compared with the text before, where that has the same form; None where it has another
    one, and where a text is longer than :data:`MOST_LINES`."""

    @property
    def added(self) -> int:
        return sum(line.mark == ADDED for line in self.lines or ())

    @property
    def removed(self) -> int:
        return sum(line.mark == REMOVED for line in self.lines or ())


@dataclass(frozen=True)
class Limits:
    """The device's limits for a kernel, and where the workload stands between them."""

    peak_gflops: float | None
    """Of all threads, for this kind and tier; None where nothing was probed."""
    bandwidth_gbs: float | None
    """10^9 bytes a second of all threads; None where it was never measured."""
    intensity: float
    """FLOPs for each byte of inputs and outputs, each moved once; a kernel that reads some of
    them again moves more."""

    @property
    def roof_gflops(self) -> float | None:
        """The lower of both limits at this intensity (S. Williams, A. Waterman, D. Patterson,
        "Roofline", Communications of the ACM 52(4), 2009)."""
        if self.peak_gflops is None or self.bandwidth_gbs is None:
            return self.peak_gflops
        return min(self.peak_gflops, self.intensity * self.bandwidth_gbs)


@dataclass(frozen=True)
class KernelInspection:
    """All that is known of a candidate without running it."""

    workload: Workload
    settings: str
    tier: str
    verdicts: tuple[Verdict, ...] = ()
    """What each rule of the lite space says; empty for the default schedule, and where there is
    no lite space."""
    usage: Usage | None = None
    """Of hardware, by Table 1 of the paper; None where ``verdicts`` is empty."""
    error: str = ""
    """Why it does not compile; then there are no texts and no kernel."""
    kernel: Kernel | None = None
    passes: tuple[PassStep, ...] = ()
    program: str = ""
    """Tensor IR."""
    loops: str = ""
    """Scheduled loops; empty for WGSL."""
    code: str = ""
    """The last text of the code."""
    to_loops: LineMap | None = None
    """Which lines of the loops correspond to those of the tensor IR."""
    to_code: LineMap | None = None
    """Which lines of the code correspond to those of the tensor IR."""
    loops_to_code: LineMap | None = None
    """Which lines of the code correspond to those of the loops."""
    limits: Limits | None = None

    @property
    def on_gpu(self) -> bool:
        return self.tier in GPU_TIERS

    @property
    def compile_ms(self) -> float:
        """From settings to bytes: the sum of the medians of the passes."""
        return sum(step.ms for step in self.passes)

    @property
    def in_space(self) -> bool:
        return bool(self.verdicts) and all(v.ok for v in self.verdicts)


def inspect_kernel(
    compiler: TextSource,
    workload: Workload,
    candidate: AnyCandidate | None,
    device: DeviceProfile,
    packable: bool,
    bandwidth_gbs: Mapping[int, float] | None = None,
) -> KernelInspection:
    """Compile a candidate in the device's best tier and look at it. A failure is a record.

    Parameters
    ----------
    candidate
        None for the default schedule.
    packable
        Whether B is a weight that may be packed into panels.
    bandwidth_gbs
        Measured, 10^9 bytes a second by number of threads.
    """
    tier = device.best_tier
    verdicts: tuple[Verdict, ...] = ()
    usage = None
    if candidate is not None and workload.tunable:
        try:
            verdicts = tuple(explain(candidate, workload, device, packable))
            usage = usage_of(candidate, workload, device, packable)
        except UserError as e:
            return KernelInspection(workload, str(candidate), tier, error=str(e))
    settings = settings_of(candidate)
    try:
        texts = compiler.texts(workload, candidate, tier)
    except CompileError as e:
        return KernelInspection(workload, settings, tier, verdicts, usage, str(e))
    loops = next((p.text for p in texts.passes if p.form in LOOPS), "")
    code = [p for p in texts.passes if p.form in CODE][-1]
    to_loops, loops_to_code, to_code = maps_of(
        texts.program, loops, code.text, code.form, texts.buffers
    )
    return KernelInspection(
        workload,
        settings,
        tier,
        verdicts,
        usage,
        "",
        texts.kernel,
        _steps(texts),
        texts.program,
        loops,
        code.text,
        to_loops,
        to_code,
        loops_to_code,
        _limits(workload, device, tier, texts.moved_bytes, bandwidth_gbs or {}),
    )


def _steps(texts: KernelTexts) -> tuple[PassStep, ...]:
    steps: list[PassStep] = []
    form = text = ""
    for p in texts.passes:
        long = max(text.count("\n"), p.text.count("\n")) > MOST_LINES
        lines = changes(text, p.text) if form == p.form and not long else None
        steps.append(PassStep(p.name, p.form, p.text, p.ms, lines))
        form, text = p.form, p.text
    return tuple(steps)


def _limits(
    workload: Workload,
    device: DeviceProfile,
    tier: str,
    moved_bytes: int,
    bandwidth_gbs: Mapping[int, float],
) -> Limits:
    return Limits(
        device.peak(tier, workload.kind),
        at_most(bandwidth_gbs, device.threads),
        workload.flops / moved_bytes if moved_bytes else 0.0,
    )
