"""The verb ``studio``: the window around a workbench."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import click
from click.core import ParameterSource

from nnjit_studio.analysis.report import summary_table
from nnjit_studio.cli.common import JSON, answer, note
from nnjit_studio.cli.import_options import IMPORTING
from nnjit_studio.cli.running import workbench
from nnjit_studio.cli.target_options import target_options
from nnjit_studio.cli.tune import REPORT
from nnjit_studio.cli.verbs import AT_LEAST_0, PATH, argument, group, option, same, verb
from nnjit_studio.database import KernelDatabase
from nnjit_studio.errors import UserError
from nnjit_studio.model import ImportOptions
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.tuner.events import Finished
from nnjit_studio.workbench import jobs


@dataclass(frozen=True)
class ScriptOptions:
    """What the window does by itself, and leaves behind."""

    seconds: float | None = option(
        None, "Tune the model right away, for so many seconds.", flag="--tune", type=AT_LEAST_0
    )
    screenshot: Path | None = option(None, "Write a screenshot of the window, PNG.")
    bundle: Path | None = option(None, "Write the bundle at the end.")
    report: Path | None = same(REPORT)
    quit_at_end: bool = option(False, "Quit when tuning ends.", flag="--quit")


@verb()
def studio(
    importing: ImportOptions = IMPORTING,
    model: Path | None = argument(type=PATH, required=False),
    script: ScriptOptions = group(ScriptOptions),
    target: TargetOptions = target_options(
        "backend", "gpu", "threads", "lab", "no_sandbox", "database"
    ),
    as_json: bool = JSON,
) -> None:
    """Open the window, on MODEL if one is given.

    Without options that do something with a model, it may be any file that the window takes when it
    is dropped, such as a .wasm.
    """
    if model is not None and model.suffix.lower() == ".wasm" and script != ScriptOptions():
        raise UserError(
            f"{model.name} is a Wasm file, no model, so there is nothing to tune or to export.",
            "Leave these options out to look at it, or take nnjit inspect, turbo or offload.",
        )
    if not script.quit_at_end:  # a script does not follow what its user arranged by hand
        target = preferred(target)
    with workbench(target, importing, KernelDatabase.open_or_copy) as opened:
        if opened.bench.database.why_not_kept:
            note(opened.bench.database.why_not_kept)
        from nnjit_studio.ui.page.host import EngineView
        from nnjit_studio.ui.page.visits import EmbeddedVisits
        from nnjit_studio.ui.startup.app import Script, run_studio

        steps = Script(model, script.seconds, script.screenshot, script.quit_at_end)
        events = run_studio(opened.bench, steps, EngineView, EmbeddedVisits)
        finished = next((e for e in reversed(events) if isinstance(e, Finished)), None)
        if finished is not None:
            answer(as_json, finished.to_json(), summary_table(finished.to_json()))
        for path, write in ((script.bundle, jobs.export), (script.report, jobs.report)):
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                note(f"wrote {write(opened.bench.model, path)}")
        if script.screenshot is not None:
            note(f"wrote {script.screenshot}")


def preferred(target: TargetOptions) -> TargetOptions:
    """The target, with the user's settings where no option was given."""
    from nnjit_studio.ui.window.preferences import stored

    mine = stored()
    if click.get_current_context().get_parameter_source("threads") is ParameterSource.DEFAULT:
        target = replace(target, threads=int(mine["threads"]))
    if target.database is None and mine["database"]:
        target = replace(target, database=Path(str(mine["database"])))
    return target
