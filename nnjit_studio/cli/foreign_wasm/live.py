"""The verb ``live``: the kernels of somebody else's runtime, tuned while it serves a model."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from nnjit_studio.cli.common import INPUTS, JSON, MODEL, answer, database_path, load_inputs, note
from nnjit_studio.cli.target_options import OPTIONS
from nnjit_studio.cli.tune import tell
from nnjit_studio.cli.verbs import AT_LEAST_0, FILE, argument, group, option, same, verb
from nnjit_studio.database import KernelDatabase
from nnjit_studio.device.host import host_profile
from nnjit_studio.errors import UserError
from nnjit_studio.foreign_wasm.live.donors import FUSED_TIER
from nnjit_studio.foreign_wasm.live.job import open_runtime, write_job
from nnjit_studio.foreign_wasm.live.page import EXACT_TIER, LivePage, live_page
from nnjit_studio.foreign_wasm.live.session import LiveSession, Setting
from nnjit_studio.foreign_wasm.live.trial import race, swaps
from nnjit_studio.records import DeviceProfile
from nnjit_studio.workbench.page import SystemClock


@dataclass(frozen=True)
class LiveOptions:
    """How a session tunes, and what is looked at after it."""

    target: str = option("chromium", "chromium, chrome, edge, firefox, or a browser's path.")
    threads: int = same(OPTIONS["threads"])
    fma: bool = option(
        False, "Fuse multiply-adds: answers then differ from the runtime's own by rounding."
    )
    seconds: float = option(15.0, "Time limit of the tuning.", type=AT_LEAST_0)
    inputs: Path | None = same(INPUTS)
    race: int = option(
        0, "Then compare all kernels in turns, so many rounds.", type=click.IntRange(0)
    )
    swaps: int = option(0, "Then swap kernels before so many inferences.", type=click.IntRange(0))
    no_sandbox: bool = same(OPTIONS["no_sandbox"])
    database: Path | None = same(OPTIONS["database"])


@verb()
def live(
    runtime: Path = argument(type=FILE),
    model: Path = MODEL,
    options: LiveOptions = group(LiveOptions),
    as_json: bool = JSON,
) -> None:
    """Tune RUNTIME's kernels between ordinary inferences of MODEL, in its own session.

    RUNTIME is ort-wasm-simd-threaded.wasm in the folder dist of onnxruntime-web. It is rewritten
    once, in a copy; kernels are then exchanged while a browser's page serves MODEL with it. Every
    answer is compared with the runtime's own, and the winner is remembered for this engine.
    """
    if options.target == "embedded":
        raise UserError("The embedded engine has no page for it.", "Give --target chromium.")
    opened = open_runtime(runtime)
    feeds = load_inputs(options.inputs)
    with (
        tempfile.TemporaryDirectory(prefix="nnjit-live-") as name,
        KernelDatabase.open(database_path(options.database)) as database,
    ):
        folder = Path(name)
        write_job(opened, model, feeds, options.threads, folder)
        with live_page(options.target, folder, opened.folder, options.no_sandbox) as page:
            tier = _tier(page, options.fma)
            device = _device(page, options.target)
            setting = Setting(page, opened, device, tier, model.name, database, SystemClock())
            session = LiveSession(setting, options.seconds)
            for event in session.events():
                tell(event, as_json)
            if options.race:
                raced = race(page, session, options.race, session.t_s())
                answer(as_json, raced.to_json(), raced.text())
            if options.swaps:
                swapped = swaps(page, session, options.swaps, session.t_s())
                answer(as_json, swapped.to_json(), swapped.text())
            checked = page.checked
            note(f"{checked.runs} answers, {checked.wrong} wrong, largest gap {checked.worst:.1e}")


def _tier(page: LivePage, fma: bool) -> str:
    if fma and not page.opened["fused"]:
        raise UserError(
            "This browser has no relaxed multiply-adds.", "Leave out --fma, or use another browser."
        )
    return FUSED_TIER if fma else EXACT_TIER


def _device(page: LivePage, target: str) -> DeviceProfile:
    told: dict[str, Any] = {
        "user_agent": page.opened["user_agent"],
        "threads": page.opened["threads"],
        "flags": page.flags,
        "cross_origin_isolated": True,
    }
    return replace(host_profile(target), **told)
