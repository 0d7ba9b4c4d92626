"""The other tiers of a kernel: shipped in a bundle, so they must be right too."""

from __future__ import annotations

from dataclasses import replace

from nnjit_studio.records import TIERS, CompileResult, DeviceProfile
from nnjit_studio.tuner.baseline import TWIN_POLICY
from nnjit_studio.tuner.evaluator import Outcome
from nnjit_studio.tuner.protocols import Runner
from nnjit_studio.tuner.swap_policy import SwapPolicy, Verdict, decide


def tiers_of(device: DeviceProfile) -> tuple[str, ...]:
    """Tiers that every kernel is compiled in: of Wasm all, of a GPU those that it runs.

    A GPU's other tiers may need features that its compiler of WGSL does not know.
    """
    return TIERS if device.gpu is None else device.tiers


def other_tiers(tier: str, device: DeviceProfile) -> tuple[str, ...]:
    """Tiers beside the tuned one that this device can compare with the reference."""
    return tuple(t for t in tiers_of(device) if t != tier and t in device.tiers)


def with_twins(
    outcome: Outcome,
    twins: CompileResult,
    tiers: tuple[str, ...],
    runner: Runner,
    thresholds: SwapPolicy,
) -> Outcome:
    """The outcome, or why it does not win: a bundle ships the other tiers too."""
    if twins.error:
        return replace(outcome, verdict=Verdict("failed", f"its other tiers: {twins.error}"))
    flops = outcome.flops
    tuned = outcome.kernel.sha256 if outcome.kernel else ""
    for tier in tiers:
        if twins.kernel(tier).sha256 == tuned:
            continue  # the very kernel that was measured
        verdict = decide(
            runner.measure(twins.kernel(tier), None, TWIN_POLICY), flops, None, thresholds
        )
        if verdict.state != "won":
            reason = f"as {tier}: {verdict.reason}"
            return replace(outcome, verdict=Verdict(verdict.state, reason))
    return outcome
