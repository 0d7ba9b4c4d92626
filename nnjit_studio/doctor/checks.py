"""An examination as one line for each part of the machine, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnjit_studio.doctor.examination import Examination
from nnjit_studio.doctor.gpu_survey import BridgeFinding, BrowserFinding
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.errors import NnjitError
from nnjit_studio.records import DeviceProfile

GOOD, NOTE, BAD = "good", "note", "bad"
LEAST_FREE_BYTES = 1 << 30
"""Weights files, bundles and the database of some models; below it the disk is named."""


@dataclass(frozen=True)
class Check:
    """One line: ``state`` is ``good``, ``note`` or ``bad``; a good one has no ``next_step``."""

    name: str
    state: str
    found: str
    next_step: str = ""


def checks(found: Examination) -> Iterator[Check]:
    """Lines of an examination, the engine first."""
    if isinstance(found.engine, NnjitError):
        yield Check("Engine", BAD, found.engine.error, found.engine.hint)
    else:
        yield from _engine(found.engine)
    if found.sandbox is not None:
        step = "Start it as another user." if browsers.is_root() else "Start it without that."
        off = (NOTE, str(found.sandbox), step)
        yield Check("Sandbox", *((GOOD, str(found.sandbox)) if found.sandbox.on else off))
    if found.confinement is not None:
        yield _confinement(found.confinement)
    free = f"{found.free_bytes / (1 << 30):.1f} GiB free"
    if found.free_bytes < LEAST_FREE_BYTES:
        yield Check("Disk", BAD, free, "Weights and bundles need space: free some.")
    else:
        yield Check("Disk", GOOD, free)
    version = found.sqlite["version"]
    yield Check("Kernel database", GOOD, f"a crash loses no kernel (SQLite {version})")
    if not found.browsers:
        yield Check(
            "Browsers", NOTE, "none found",
            "The embedded view tunes; install Chromium or Firefox to measure there.",
        )  # fmt: skip
    elif found.bridge is None:
        yield Check("Browsers", GOOD, ", ".join(sorted({b.browser.name for b in found.browsers})))
    if found.bridge is not None:
        yield from map(_browser, found.browsers)
        yield _bridge(found.bridge)


def _confinement(held: tuple[str, ...]) -> Check:
    """Of the process that reads a stranger's model."""
    kept = {"files": "writes outside the temporary folder", "network": "the network"}
    from_what = " and ".join(kept[name] for name in held)
    if len(held) == len(kept):
        return Check("Compile process", GOOD, f"kept from {from_what} by the system")
    missing = " and ".join(text for name, text in kept.items() if name not in held)
    found = f"kept from {from_what}, not from {missing}" if held else f"not kept from {missing}"
    return Check(
        "Compile process", NOTE, found,
        "A Linux kernel with Landlock (5.13 or newer) and libseccomp 2 keep it from both.",
    )  # fmt: skip


def _engine(device: DeviceProfile) -> Iterator[Check]:
    quantum = f"timer {device.timer_quantum_ms * 1e3:.0f} µs"
    if device.cross_origin_isolated:
        yield Check("Engine", GOOD, f"{device.tiers[-1]}, cross-origin isolated, {quantum}")
    else:
        yield Check(
            "Engine", BAD, f"{device.tiers[-1]}, not cross-origin isolated, {quantum}",
            "Threads need isolation: start the Studio again.",
        )  # fmt: skip
    peaks = [f"{rate:.0f} GFLOP/s ({tier})" for tier, rate in device.peak_gflops.items()]
    if peaks:
        yield Check("One thread", GOOD, f"{', '.join(peaks)}, measured; {device.cores} cores")


def _browser(finding: BrowserFinding) -> Check:
    version = finding.version.partition(" built on")[0] or "version unknown"
    if finding.gpu is None:
        state, gpu = NOTE, f"no WebGPU adapter: {finding.reason.rstrip('.')}"
    elif finding.software:
        state, gpu = NOTE, f"WebGPU in software ({finding.software}), no GPU"
    else:
        state, gpu = GOOD, f"WebGPU on {finding.gpu.name}"
    return Check(finding.browser.name.capitalize(), state, f"{version}; {gpu}")


def _bridge(finding: BridgeFinding) -> Check:
    """WebGPU of the embedded view."""
    name = "GPU"
    if finding.reason:
        return Check(name, NOTE, f"no WebGPU in the embedded view: {finding.reason.rstrip('.')}")
    if finding.hardware:
        return Check(name, GOOD, str(finding.hardware[0]["description"]))
    if finding.adapters:
        return Check(name, NOTE, "no GPU, software alone")
    return Check(name, NOTE, "no adapter", "Install the GPU's driver.")
