"""What a newcomer needs first: does this machine do, and a model to try it on."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from nnjit_studio.database import sqlite_safety
from nnjit_studio.doctor.gpu_survey import survey_bridge, survey_browser
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.browsers.sandbox import Sandbox
from nnjit_studio.errors import NnjitError, UserError
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.samples.minilm import PACKAGE, write_minilm
from nnjit_studio.samples.zoo import write_model

OnPhase = Callable[[str], None]

GOOD, NOTE, BAD = "good", "note", "bad"
LEAST_FREE_BYTES = 1 << 30
"""Weights files, bundles and the database of some models; below it the disk is named."""
TRAINED, SEEDED = "minilm", "vit-tiny"


@dataclass(frozen=True)
class Check:
    """One line: ``state`` is ``good``, ``note`` or ``bad``; a good one has no ``next_step``."""

    name: str
    state: str
    found: str
    next_step: str = ""


def first_look(
    probe: Callable[[], DeviceProfile],
    sandbox: Callable[[], Sandbox],
    folder: Path,
    survey: bool,
    phase: OnPhase,
) -> Iterator[Check]:
    """Examine the machine, one line after the other.

    Parameters
    ----------
    probe
        Asks the engine's page what it can do; it may block.
    sandbox
        The engine's, asked for after ``probe``.
    folder
        Of the kernel database: its disk is looked at.
    survey
        Start every browser and the GPU bridge, some seconds, to ask for their adapters.
    """
    phase("asking the engine")
    try:
        yield from _engine(probe())
    except NnjitError as e:
        yield Check("Engine", BAD, e.error, e.hint)
    found = sandbox()
    yield _sandbox(found)
    yield _disk(folder)
    safety = sqlite_safety()
    yield Check("Kernel database", GOOD, f"SQLite {safety['version']}, {safety['journal_mode']}")
    yield from _browsers(survey, found.asked_off, phase)
    if survey:
        phase("asking for GPUs")
        yield _bridge()


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


def _sandbox(found: Sandbox) -> Check:
    if found.on:
        return Check("Sandbox", GOOD, str(found))
    step = "Start it as another user." if browsers.is_root() else "Start it without that."
    return Check("Sandbox", NOTE, str(found), step)


def _disk(folder: Path) -> Check:
    there = next(f for f in (folder, *folder.parents) if f.exists())
    free = shutil.disk_usage(there).free
    size = f"{free / (1 << 30):.1f} GiB free"
    if free < LEAST_FREE_BYTES:
        return Check("Disk", BAD, size, "Weights and bundles need space: free some.")
    return Check("Disk", GOOD, size)


def _browsers(survey: bool, no_sandbox: bool, phase: OnPhase) -> Iterator[Check]:
    found = browsers.find_all()
    if not found:
        yield Check(
            "Browsers", NOTE, "none found",
            "The embedded view tunes; install Chromium or Firefox to measure there.",
        )  # fmt: skip
    elif not survey:
        yield Check("Browsers", GOOD, ", ".join(sorted({b.name for b in found})))
    for browser in found if survey else ():
        phase(f"asking {browser.name} for its GPU")
        finding = survey_browser(browser, no_sandbox)
        version = finding.version.partition(" built on")[0] or "version unknown"
        if finding.gpu is None:
            state, gpu = NOTE, f"no WebGPU adapter: {finding.reason.rstrip('.')}"
        elif finding.software:
            state, gpu = NOTE, f"WebGPU in software ({finding.software}), no GPU"
        else:
            state, gpu = GOOD, f"WebGPU on {_gpu(finding.gpu)}"
        yield Check(browser.name.capitalize(), state, f"{version}; {gpu}")


def _bridge() -> Check:
    """WebGPU of the embedded view."""
    name = "GPU"
    finding = survey_bridge()
    if finding.reason:
        return Check(name, NOTE, f"no WebGPU in the embedded view: {finding.reason.rstrip('.')}")
    hardware = [adapter for adapter in finding.adapters if not adapter["software"]]
    if hardware:
        return Check(name, GOOD, str(hardware[0]["description"]))
    if finding.adapters:
        return Check(name, NOTE, "no GPU, software alone")
    return Check(name, NOTE, "no adapter", "Install the GPU's driver.")


def _gpu(gpu: GpuProfile) -> str:
    return gpu.description or f"{gpu.vendor} {gpu.architecture}".strip() or "an unnamed adapter"


def sample_name() -> str:
    """``minilm`` with trained weights where its packages are installed, else ``vit-tiny``."""
    there = all(importlib.util.find_spec(name) for name in (PACKAGE, "safetensors"))
    return TRAINED if there else SEEDED


def sample_model(phase: OnPhase, folder: Path | None = None) -> Path:
    """The model to try the Studio on: written once, then kept in the user's cache.

    Raises
    ------
    UserError
        When it cannot be written.
    """
    folder = folder or Path(platformdirs.user_cache_dir("nnjit-studio", appauthor=False))
    name = sample_name()
    path = folder / f"{name}.onnx"
    if not path.exists():
        phase("writing the sample model")
        # Not `files.replacing`: what can be written again need not wait for the disk.
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_minilm(part) if name == TRAINED else write_model(name, part, None)
            part.replace(path)
        except OSError as e:
            raise UserError(
                f"The sample model {path} cannot be written: {e.strerror or e}.",
                "Free some space, or write it elsewhere with nnjit sample.",
            ) from e
        finally:
            part.unlink(missing_ok=True)
    return path
