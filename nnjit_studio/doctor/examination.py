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


@dataclass(frozen=True)
class Examination:
    """Facts without a verdict.

    Attributes
    ----------
    engine
        What the embedded engine's page can do, or why there is none.
    sandbox
        Of the engine; None where it is not known.
    free_bytes
        On the disk of the kernel database.
    sqlite
        How safe the kernel database is from a crash.
    browsers
        All that were found; asked for their adapters where the examination is a survey.
    bridge
        wgpu-native's adapters; None where it is no survey.
    """

    engine: DeviceProfile | NnjitError
    sandbox: Sandbox | None
    free_bytes: int
    sqlite: Mapping[str, Any]
    browsers: tuple[BrowserFinding, ...]
    bridge: BridgeFinding | None


@dataclass(frozen=True)
class Survey:
    """How browsers and the GPU bridge are started, some seconds each, for their adapters.

    ``gpu`` is the adapter that browsers are started for, ``hardware`` or ``software``.
    """

    no_sandbox: bool
    gpu: str = "hardware"


def examine(
    probe: Callable[[], DeviceProfile],
    sandbox: Callable[[], Sandbox | None],
    folder: Path,
    survey: Survey | None,
    on_phase: Callable[[str], None] = lambda phase: None,
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
        None only looks which browsers there are.
    """
    on_phase("asking the engine")
    engine: DeviceProfile | NnjitError
    try:
        engine = probe()
    except NnjitError as e:
        engine = e
    there = next(f for f in (folder, *folder.parents) if f.exists())
    found = []
    for browser in browsers.find_all():
        if survey is None:
            found.append(BrowserFinding(browser))
        else:
            on_phase(f"asking {browser.name} for its GPU")
            found.append(survey_browser(browser, survey.no_sandbox, survey.gpu))
    bridge = None
    if survey is not None:
        on_phase("asking for GPUs")
        bridge = survey_bridge()
    return Examination(
        engine,
        sandbox(),
        shutil.disk_usage(there).free,
        sqlite_safety(),
        tuple(found),
        bridge,
    )
