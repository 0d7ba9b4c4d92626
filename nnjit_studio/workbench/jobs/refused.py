"""A model that our importer refuses, in ONNX Runtime Web: as it is, and with a turbo module."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.browsers.flags import Browser
from nnjit_studio.errors import NnjitError, TargetError, UserError
from nnjit_studio.foreign_wasm.inspection.hotspots.records import Hotspots
from nnjit_studio.model import NUMPY_DTYPES, TensorSpec
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.model.native_run import NativeRun, NodeTime
from nnjit_studio.model.survey import Survey
from nnjit_studio.support.phases import OnPhase
from nnjit_studio.verdict.case import ORT, TURBO, Case, link, ort_entries, write_inputs
from nnjit_studio.verdict.measure import Effort, Visits, measure
from nnjit_studio.verdict.nodes import node_times
from nnjit_studio.verdict.peers import PACKAGE, Peer
from nnjit_studio.verdict.result import LABELS, Row, Verdict
from nnjit_studio.verdict.store import usual_ms
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.page import SystemClock

SAMPLED_S = 4.0
"""Inference of the page whose Wasm functions are sampled."""
NO_SAMPLER = "Functions are sampled in Chromium, Chrome or Edge, and none is installed."
_NAMES = {dtype: name for name, dtype in NUMPY_DTYPES.items()}


@dataclass(frozen=True)
class Refused:
    """A file that was not imported, with inputs for it."""

    survey: Survey
    feeds: Feeds
    why: str
    """The importer's own words."""


@dataclass(frozen=True)
class RefusedRun:
    """What is known so far of a refused model; its verdict says why ours is absent."""

    verdict: Verdict
    phase: str = ""
    """What is done after the verdict; empty at the end."""
    native: NativeRun | None = None
    native_problem: str = ""
    """Why native ONNX Runtime does not run it."""
    nodes: Mapping[str, tuple[NodeTime, ...]] = field(default_factory=dict)
    """By the verdict's row, the longest first: medians of one inference in ONNX Runtime Web."""
    functions: Hotspots | None = None
    """Of the last row, in a Chromium of its own."""
    functions_problem: str = ""


def run_refused(
    model: ModelOnPage,
    refused: Refused,
    visits: Visits,
    peer: Peer | None,
    effort: Effort,
    before: Sequence[Verdict] = (),
    module: Path | None = None,
) -> Iterator[RefusedRun]:
    """Measure and profile a refused model; what is known so far, after each step.

    Parameters
    ----------
    peer
        None where none is installed: then native ONNX Runtime alone runs it.
    before
        As of :func:`~nnjit_studio.workbench.jobs.verdict.verdict`.
    module
        A faster form of ONNX Runtime Web's module, in turns with its own.

    Raises
    ------
    UserError
        When an input has a type that no page takes; when it was cancelled.
    TargetError, PageError
    """
    page, path = model.page, refused.survey.path
    with page.working(), tempfile.TemporaryDirectory(prefix="nnjit-refused-") as name:
        module = _held(module, Path(name))
        begun = Verdict(
            path.name,
            str(path.absolute()),
            (Row(ORT), *([Row(TURBO)] if module and peer else [])),
            phase="running it in native ONNX Runtime",
            versions={PACKAGE: peer.version} if peer else {},
            absent=refused.why,
            threads=page.threads,
            created=SystemClock().now_iso(),
        )
        yield RefusedRun(begun)
        run = _natively(model, refused, RefusedRun(begun))
        if peer is None:
            yield replace(run, verdict=replace(begun, phase=""))
            return
        case = _case(Path(name), refused, run.native, page.threads, module)
        begun = replace(begun, sentinel_ms=usual_ms(before, page.connect().user_agent))
        for verdict in measure(
            case, begun, peer.node_modules, visits, effort, lambda: page.cancelled
        ):
            run = replace(run, verdict=verdict)
            yield run
        yield from _profiled(model, run, case, peer, visits)


def make_refused_faster(model: ModelOnPage, peer: Peer, on_phase: OnPhase) -> Path:
    """The faster form of ONNX Runtime Web's module: from the cache, or made and measured here.

    Raises
    ------
    UserError, TargetError, PageError
        When nothing in it gains, or it cannot be measured; when it was cancelled.
    """
    from nnjit_studio.foreign_wasm.turbo.kept import make_turbo

    options = _turbo_options(model)
    with model.page.cancellable("Making the faster module", on_phase) as note:
        return make_turbo(peer.module, options, note)


def faster_module(model: ModelOnPage, peer: Peer) -> Path | None:
    """The faster form of ONNX Runtime Web's module if it was made before."""
    from nnjit_studio.foreign_wasm.turbo.kept import made_before

    try:
        return made_before(peer.module, _turbo_options(model))
    except TargetError:  # without an engine none was made
        return None


def _turbo_options(model: ModelOnPage) -> Any:
    """``TurboOptions``: measured in Chromium, whose engine the embedded view shares, or in Node."""
    from nnjit_studio.foreign_wasm.turbo.job import TurboOptions

    browser = _sampler(model.page.target)
    target = browser.name if browser else "node"
    return TurboOptions(target=target, no_sandbox=model.page.sandbox.asked_off)


def _held(module: Path | None, folder: Path) -> Path | None:
    """The module by a name of our own: another window may drop its first one from the cache."""
    if module is None:
        return None
    link(module, folder / "held.wasm")
    return folder / "held.wasm"


def _natively(model: ModelOnPage, refused: Refused, run: RefusedRun) -> RefusedRun:
    page = model.page
    try:
        with page.compiler_killed_on_cancel():
            native = page.process.native_run(refused.survey.path, refused.feeds)
    except UserError as e:
        if page.cancelled:
            raise UserError("The run was cancelled.") from e
        return replace(run, native_problem=str(e))
    return replace(run, native=native)


def _case(
    folder: Path, refused: Refused, native: NativeRun | None, threads: int, module: Path | None
) -> Case:
    entries = ort_entries(folder, refused.survey.path, module)
    write_inputs(folder, refused.feeds)
    for name, array in refused.feeds.items():
        if array.dtype not in _NAMES:
            raise UserError(f"The input {name!r} is {array.dtype}, which no page is given.")
    outputs = native.outputs if native else {}
    known = {name: array for name, array in outputs.items() if array.dtype in _NAMES}
    return Case(folder, _specs(refused.feeds), _specs(known), threads, entries, known)


def _specs(arrays: Feeds) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(name, a.shape, _NAMES[a.dtype]) for name, a in arrays.items())


def _profiled(
    model: ModelOnPage, run: RefusedRun, case: Case, peer: Peer, visits: Visits
) -> Iterator[RefusedRun]:
    """The run with its times by node, then by function."""
    from nnjit_studio.foreign_wasm.inspection.hotspots.pages import Sampling
    from nnjit_studio.foreign_wasm.inspection.hotspots.runtimes import sample_case

    page = model.page
    running = [e for e in case.entries if (row := run.verdict.row(e.name)) and row.ms]
    for entry in running:
        yield replace(run, phase=f"timing the nodes in {LABELS[entry.name]}")
        nodes = node_times(case, entry.name, peer.node_modules, visits, lambda: page.cancelled)
        run = replace(run, nodes={**run.nodes, entry.name: nodes})
    browser = _sampler(page.target)
    if running and browser is None:
        run = replace(run, functions_problem=NO_SAMPLER)
    elif running and browser is not None:
        yield replace(run, phase=f"sampling the functions in {browser.name}")
        how = Sampling(browser, page.sandbox.asked_off, seconds=SAMPLED_S)
        try:
            run = replace(run, functions=sample_case(case, running[-1], peer.node_modules, how))
        except NnjitError as e:  # the rest is worth showing
            run = replace(run, functions_problem=str(e))
    yield run


def _sampler(target: str) -> Browser | None:
    """The page's own browser if it can be sampled, else the first that can."""
    able = [browser for browser in browsers.find_all() if browser.kind == "chromium"]
    return next((b for b in able if b.name == target), able[0] if able else None)
