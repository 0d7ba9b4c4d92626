"""The verdict of the open model: ours, untuned and tuned, and ONNX Runtime Web."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from nnjit_studio.bundle import BundleParts, engine_files, write_folder
from nnjit_studio.errors import UserError
from nnjit_studio.records import TIERS, Kernel
from nnjit_studio.records.backend import WASM
from nnjit_studio.verdict.case import ORT, OURS, TURBO, Case, Entry, ort_entries, write_inputs
from nnjit_studio.verdict.measure import Effort, Visits, measure
from nnjit_studio.verdict.peers import PACKAGE, Peer
from nnjit_studio.verdict.result import Row, Verdict
from nnjit_studio.verdict.store import usual_ms
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.page import SystemClock

FIRST_GUESS, TUNED = "untuned", "tuned"


def verdict(
    model: ModelOnPage,
    visits: Visits,
    peer: Peer | None,
    effort: Effort,
    before: Sequence[Verdict] = (),
    module: Path | None = None,
) -> Iterator[Verdict]:
    """Compare the open model, as a page would ship it, with the peer; what is known so far.

    Parameters
    ----------
    peer
        None where none is installed: then ours alone are measured.
    before
        Earlier verdicts: they tell how fast the sentinel usually is on this machine.
    module
        Another build of the peer's module, which is measured too.

    Raises
    ------
    UserError
        For a decoder, whose speed is that of its text; when it was cancelled.
    CompileError, BundleError, TargetError, PageError
    """
    opened, page = model.current, model.page
    if opened.generation is not None:
        raise UserError(
            f"{opened.path.name} makes text, and is compared by tokens in a second.",
            "`nnjit generate` tells the rate of its text.",
        )
    with page.working(), tempfile.TemporaryDirectory(prefix="nnjit-verdict-") as name:
        folder = Path(name)
        tuned = any(model.choose_known(WASM).values())
        theirs = [Row(ORT), *([Row(TURBO)] if module and peer else [])]
        rows = [*theirs, Row(FIRST_GUESS), *([Row(TUNED)] if tuned else [])]
        begun = Verdict(
            opened.path.name,
            str(opened.path.absolute()),
            tuple(rows),
            sentinel_ms=usual_ms(before, page.connect().user_agent),
            phase="writing what a page would ship",
            versions={PACKAGE: peer.version} if peer else {},
            threads=page.threads,
            created=SystemClock().now_iso(),
        )
        yield begun
        entries = ort_entries(folder, opened.path, module) if peer else []
        untuned = dict.fromkeys(w.key for w in opened.workloads)
        first = page.compiler.kernels_of_all(opened.workloads, untuned, TIERS)
        entries.append(_shipped(model, FIRST_GUESS, first, folder))
        if tuned:
            entries.append(_shipped(model, TUNED, model.kernels(TIERS, WASM), folder))
        write_inputs(folder, model.feeds)
        plan = opened.plan
        case = Case(folder, plan.input_specs, plan.output_specs, page.threads, entries)
        node_modules = peer.node_modules if peer else None
        yield from measure(case, begun, node_modules, visits, effort, lambda: page.cancelled)


def _shipped(model: ModelOnPage, name: str, kernels: Sequence[Kernel], folder: Path) -> Entry:
    """The model with these kernels as a page would ship it."""
    opened = model.current
    parts = BundleParts(opened.plan, opened.weights, kernels, engine_files())
    manifest = write_folder(folder / name, parts, opened.graph.name)
    return Entry(name, OURS, manifest.relative_to(folder).as_posix())
