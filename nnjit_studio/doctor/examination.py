"""An examination of this machine: engine, sandbox, disk, database, browsers and GPUs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.database import sqlite_safety
from nnjit_studio.doctor.gpu_survey import (
    BridgeFinding,
    BrowserFinding,
    survey_bridge,
    survey_browser,
)
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.browsers.sandbox import Sandbox
from nnjit_studio.errors import NnjitError
from nnjit_studio.records import DeviceProfile
from nnjit_studio.support.phases import OnPhase, quiet


@dataclass(frozen=True)
class Examination:
    """Facts without a verdict."""

    engine: DeviceProfile | NnjitError
    """What the embedded engine's page can do, or why there is none."""
    sandbox: Sandbox | None
    """Of the engine; None where it is not known."""
    confinement: tuple[str, ...] | None
    """What the system keeps the compile process from; None where it was not asked."""
    free_bytes: int
    """On the disk of the kernel database."""
    sqlite: Mapping[str, Any]
    """How safe the kernel database is from a crash."""
    browsers: tuple[BrowserFinding, ...]
    """All that were found; asked for their adapters where the examination is a survey."""
    bridge: BridgeFinding | None
    """wgpu-native's adapters; None where it is no survey."""


def examine(
    probe: Callable[[], DeviceProfile],
    sandbox: Callable[[], Sandbox | None],
    folder: Path,
    survey: bool = True,
    no_sandbox: bool = False,
    gpu: str = "hardware",
    on_phase: OnPhase = quiet,
    confinement: Callable[[], tuple[str, ...] | None] = lambda: None,
) -> Examination:
    """Examine the machine.

    Parameters
    ----------
    probe
        Asks the engine's page what it can do; it may block.
    sandbox
        The engine's, asked for after ``probe``.
    folder
        Of the kernel database.
    survey
        Start every browser and the GPU bridge, some seconds, to ask for their adapters.
    no_sandbox, gpu
        How browsers are started: ``gpu`` is ``hardware`` or ``software``.
    confinement
        Asks the compile process what the system keeps it from.
    """
    on_phase("asking the engine")
    engine: DeviceProfile | NnjitError
    try:
        engine = probe()
    except NnjitError as e:
        engine = e
    there = next(f for f in (folder, *folder.parents) if f.exists())
    found, bridge = [BrowserFinding(browser) for browser in browsers.find_all()], None
    if survey:
        for i, finding in enumerate(found):
            on_phase(f"asking {finding.browser.name} for its GPU")
            found[i] = survey_browser(finding.browser, no_sandbox, gpu)
        on_phase("asking for GPUs")
        bridge = survey_bridge()
    on_phase("asking the compile process")
    free_bytes = shutil.disk_usage(there).free
    return Examination(
        engine, sandbox(), confinement(), free_bytes, sqlite_safety(), tuple(found), bridge
    )
