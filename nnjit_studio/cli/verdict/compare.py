"""The verb ``compare``: the open model in our engine and in what people ship today."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from nnjit_studio.cli.common import INPUTS, JSON, MODEL, answer, note
from nnjit_studio.cli.import_options import IMPORTING
from nnjit_studio.cli.running import workbench
from nnjit_studio.cli.target_options import target_options
from nnjit_studio.cli.verbs import COUNT, FILE, PATH, POSITIVE, argument, group, option, same, verb
from nnjit_studio.cli.verdict.bundles import BUNDLE_LIMITS, compare_bundles
from nnjit_studio.cli.verdict.refused import Obstacles, document, refused_model, run_refused, text
from nnjit_studio.database import KernelDatabase
from nnjit_studio.doctor.deployment.versions import Limits
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.pages.opening import open_page
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.errors import BugError, ModelError, UserError
from nnjit_studio.model import ImportOptions
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.verdict.measure import Effort, Visits
from nnjit_studio.verdict.peers import HOW_TO_GET, VARIABLE, Peer, find_peer
from nnjit_studio.verdict.result import Verdict
from nnjit_studio.verdict.store import last_verdicts, remember
from nnjit_studio.verdict.text import table
from nnjit_studio.workbench import jobs
from nnjit_studio.workbench.jobs.refused import RefusedRun


@dataclass(frozen=True)
class CompareOptions:
    """What the model is compared with, and for how long."""

    peers: str = option("ort", "ort: ONNX Runtime Web.")
    peer_folder: Path | None = option(
        None, f"Folder that has onnxruntime-web; else {VARIABLE}, node_modules, or the user's."
    )
    seconds: float = option(10.0, "Seconds of rounds, at most.", type=POSITIVE)
    runtime: Path | None = option(
        None,
        "Another build of ONNX Runtime Web's module, such as that of `nnjit turbo`: it runs too.",
        type=FILE,
    )
    cold: int = option(3, "Cold starts of each engine.", type=COUNT)
    inputs: Feeds | None = same(INPUTS)


@dataclass(frozen=True)
class BrowserVisits:
    """Each page in a new browser."""

    target: TargetOptions
    gpu: str = ""
    """The adapter that it is started with, none without it."""

    def visit(self, server: PageServer, page: str) -> AbstractContextManager[object]:
        browser = browsers.find(self.target.target)
        return open_page(server, browser, page, self.target.no_sandbox, gpu=self.gpu)


@verb()
def compare(
    importing: ImportOptions = IMPORTING,
    model: Path = MODEL,
    other: Path | None = argument(required=False, type=PATH),
    limits: Limits = BUNDLE_LIMITS,
    options: CompareOptions = group(CompareOptions),
    target: TargetOptions = target_options("target", "threads", "no_sandbox", "database"),
    as_json: bool = JSON,
) -> None:
    """Compare MODEL with ONNX Runtime Web: speed, memory, cold start, size, outputs.

    With OTHER, both are bundles of one model, which run in turns in one page: time, size by part
    and the difference of their outputs. Ends with 1 where OTHER exceeds a limit.

    Both run in turns in one page, called as a page would call them: ours with its first kernels,
    and with the best that tuning has found if `nnjit tune` has run. The ratio comes with the
    99.9 % interval of its pairs, and is left out where the machine is too busy to tell.

    A MODEL that the importer refuses runs in ONNX Runtime Web alone: its rows, what stands in the
    way, and the time of each node. The exit code is 1 then.
    """
    if other is not None:
        compare_bundles(model, other, limits, options.seconds, target, as_json)
        return
    peer = find(options.peers, options.peer_folder)
    with workbench(target, importing, opens=KernelDatabase.open_for_reading) as opened:
        bench, folder = opened.bench, opened.bench.database.path.parent
        before = last_verdicts(folder)

        def work() -> Verdict | tuple[RefusedRun, Obstacles]:
            how = page_visits(target), peer, Effort(options.seconds, options.cold), before
            try:
                bench.open_model(model, note, options.inputs)
            except ModelError as refusal:
                refused = refused_model(bench, model, options.inputs, refusal)
                obstacles = bench.process.obstacles(model)
                return run_refused(bench, refused, *how, options.runtime), obstacles
            last, phase = None, ""
            for last in bench.run(jobs.verdict, *how, options.runtime):
                if last.phase != phase:
                    phase = last.phase
                    note(phase or "done")
            if last is None:
                raise BugError("Nothing was measured.")
            return last

        found = opened.run(work)
        if isinstance(found, Verdict):
            remember(folder, found)
    if isinstance(found, Verdict):
        answer(as_json, found.to_json(), table(found))
        return
    answer(as_json, document(*found), text(*found))
    sys.exit(1)


def find(peers: str, folder: Path | None) -> Peer:
    """The peer that is asked for.

    Raises
    ------
    UserError
        When it cannot run an ONNX file, or is not installed.
    """
    for word in peers.split(","):
        if word == "litert":
            raise UserError(
                "LiteRT runs .tflite files, and is not compared on an .onnx file.",
                "Leave it out: --peers ort.",
            )
        if word != "ort":
            raise UserError(f"There is no peer {word!r} for whole models.", "Use --peers ort.")
    found = find_peer(folder)
    if found is None:
        where = f" in {folder}" if folder else ""
        raise UserError(f"ONNX Runtime Web is not installed{where}.", HOW_TO_GET)
    return found


def page_visits(target: TargetOptions, gpu: str = "") -> Visits:
    if not target.embedded:
        return BrowserVisits(target, gpu)
    from nnjit_studio.ui.page.visits import EmbeddedVisits

    return EmbeddedVisits()
