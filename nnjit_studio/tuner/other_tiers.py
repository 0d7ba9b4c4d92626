"""The other tiers of a kernel: shipped in a bundle, so they must be right too."""

from __future__ import annotations

from nnjit_studio.records import (
    TIERS,
    CompileResult,
    DeviceProfile,
    Kernel,
    MeasurePolicy,
)
from nnjit_studio.tuner.protocols import Runner
from nnjit_studio.tuner.swap_policy import SwapPolicy, Verdict, decide

CHECK = MeasurePolicy(pairs=1, min_sample_ms=0.1, min_quanta=1, warmup_ms=0, max_ms=1)
"""For a kernel of another tier than the tuned one: it is compared with the reference, not timed."""


def tiers_of(device: DeviceProfile) -> tuple[str, ...]:
    """Tiers that every kernel is compiled in: of Wasm all, of a GPU those that it runs.

    A GPU's other tiers may need features that its compiler of WGSL does not know.
    """
    return TIERS if device.gpu is None else device.tiers


def other_tiers(tier: str, device: DeviceProfile) -> tuple[str, ...]:
    """All but the tuned tier that this device can compare with the reference."""
    return tuple(t for t in tiers_of(device) if t != tier and t in device.tiers)


def check_other_tiers(
    compiled: CompileResult,
    tuned: Kernel,
    tiers: tuple[str, ...],
    runner: Runner,
    thresholds: SwapPolicy,
) -> Verdict | None:
    """Why a kernel is wrong in one of its other tiers; None when it is right in all of them."""
    if compiled.error:
        return Verdict("failed", f"its other tiers: {compiled.error}")
    for tier in tiers:
        kernel = compiled.kernel(tier)
        if kernel.sha256 == tuned.sha256:
            continue  # the very kernel that was measured
        verdict = decide(runner.measure(kernel, None, CHECK), 0, None, thresholds)
        if verdict.state != "won":
            return Verdict(verdict.state, f"as {tier}: {verdict.reason}")
    return None
