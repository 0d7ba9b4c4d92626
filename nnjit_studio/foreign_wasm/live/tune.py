"""One live session from a file and a model, for the command line and the window."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.device.host import host_profile
from nnjit_studio.errors import UserError
from nnjit_studio.foreign_wasm.live.donors import FUSED_TIER
from nnjit_studio.foreign_wasm.live.job import open_runtime, write_job
from nnjit_studio.foreign_wasm.live.page import EXACT_TIER, LivePage, live_page
from nnjit_studio.foreign_wasm.live.session import LiveSession, Setting
from nnjit_studio.foreign_wasm.live.trial import race, swaps
from nnjit_studio.records import DeviceProfile
from nnjit_studio.tuner.events import Event
from nnjit_studio.tuner.protocols import Clock, Records


@dataclass(frozen=True)
class LiveRequest:
    """What is tuned where, and what is looked at after it.

    Attributes
    ----------
    feeds
        Inputs by name; None for seeded ones.
    race
        The most rounds in which kernels are compared in turns.
    swaps
        Inferences with a swap before each.
    """

    runtime: Path
    model: Path
    target: str
    threads: int = 1
    fused: bool = False
    seconds: float = 15.0
    feeds: Mapping[str, NDArray[Any]] | None = None
    race: int = 0
    swaps: int = 0
    no_sandbox: bool = False


def tune(wanted: LiveRequest, records: Records, clock: Clock) -> Iterator[Event]:
    """The events of a session, and of what is looked at after it.

    Closing the generator ends the browser.

    Raises
    ------
    UserError, WasmError, ModelError
        As of :func:`open_runtime`, :func:`write_job` and the session.
    TargetError, PageError
    """
    if wanted.target == "embedded":
        raise UserError("The embedded engine has no page for it.", "Give --target chromium.")
    runtime = open_runtime(wanted.runtime)
    with tempfile.TemporaryDirectory(prefix="nnjit-live-") as name:
        folder = Path(name)
        write_job(runtime, wanted.model, wanted.feeds, wanted.threads, folder)
        with live_page(wanted.target, folder, runtime.folder, wanted.no_sandbox) as page:
            device, tier = _device(page, wanted.target), _tier(page, wanted.fused)
            about = page, runtime, device, tier, wanted.model.name
            session = LiveSession(Setting(*about, records, clock), wanted.seconds)
            yield from session.events()
            if wanted.race:
                yield race(page, session, wanted.race)
            if wanted.swaps:
                yield swaps(page, session, wanted.swaps, session.t_s())
            yield session.answers()


def _tier(page: LivePage, fused: bool) -> str:
    if fused and not page.opened["fused"]:
        raise UserError(
            "This browser has no relaxed multiply-adds.", "Leave out --fma, or use another browser."
        )
    return FUSED_TIER if fused else EXACT_TIER


def _device(page: LivePage, target: str) -> DeviceProfile:
    told: dict[str, Any] = {
        "user_agent": page.opened["user_agent"],
        "threads": page.opened["threads"],
        "flags": page.flags,
        "cross_origin_isolated": True,
    }
    return replace(host_profile(target), **told)
