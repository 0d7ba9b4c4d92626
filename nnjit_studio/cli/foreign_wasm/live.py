"""The verb ``live``: the kernels of somebody else's runtime, tuned while it serves a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from nnjit_studio.cli.common import INPUTS, JSON, MODEL, answer, database_path, note
from nnjit_studio.cli.target_options import OPTIONS
from nnjit_studio.cli.tune import tell
from nnjit_studio.cli.verbs import AT_LEAST_0, FILE, argument, group, option, same, verb
from nnjit_studio.database import KernelDatabase
from nnjit_studio.foreign_wasm.live.events import Answers
from nnjit_studio.foreign_wasm.live.trial import Raced, Swaps
from nnjit_studio.foreign_wasm.live.tune import LiveRequest, tune
from nnjit_studio.model.feeds import Feeds
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
    inputs: Feeds | None = same(INPUTS)
    race: int = option(
        0,
        "Then compare all kernels in turns, for so many rounds unless the best is told sooner.",
        type=click.IntRange(0),
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
    same_names = ("target", "threads", "seconds", "race", "swaps", "no_sandbox")
    given = {name: getattr(options, name) for name in same_names}
    wanted = LiveRequest(runtime, model, fused=options.fma, feeds=options.inputs, **given)
    with KernelDatabase.open(database_path(options.database)) as database:
        for event in tune(wanted, database, SystemClock()):
            if isinstance(event, Raced | Swaps):
                answer(as_json, event.to_json(), event.text())
            else:
                tell(event, as_json)
    if isinstance(event, Answers):
        note(f"{event.runs} answers, {event.wrong} wrong, largest gap {event.worst:.1e}")
