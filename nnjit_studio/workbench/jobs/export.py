"""The open model as a bundle, and its last session as a report."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nnjit_studio.analysis.report import write_report
from nnjit_studio.bundle import (
    SHARD_BYTES,
    BundleParts,
    Candidates,
    engine_files,
    write_bundle,
)
from nnjit_studio.bundle.demo import TEXT
from nnjit_studio.commons.kernels import programs
from nnjit_studio.commons.kernels.lots import lots_of
from nnjit_studio.commons.kernels.programs import Written
from nnjit_studio.errors import CompileError, UserError
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.records import GPU_TIERS, TIERS, Kernel
from nnjit_studio.records.backend import WASM, Backend
from nnjit_studio.records.lab import is_lab
from nnjit_studio.records.size_tuning import KnownSettings
from nnjit_studio.support.phases import OnPhase, quiet
from nnjit_studio.tuner.events import Finished
from nnjit_studio.verdict.result import Verdict
from nnjit_studio.verdict.store import verdict_of
from nnjit_studio.verdict.text import table
from nnjit_studio.workbench.divided import cannot_load, divided, for_gpu
from nnjit_studio.workbench.inputs.sizes import sized
from nnjit_studio.workbench.inputs.texts import tokenizer_beside
from nnjit_studio.workbench.jobs.page import page_parts
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.open_model import EXTEND, PREFILL
from nnjit_studio.workbench.page import EnginePage, SystemClock
from nnjit_studio.workbench.runners import tiers_of_backend
from nnjit_studio.workbench.spare_kernels import spare_kernels
from nnjit_studio.workbench.stored_best import stored_tables, stored_winners

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tuning:
    """What a page may try.

    Attributes
    ----------
    candidates
        How many further kernels of each workload go with the bundle.
    share
        The only address that the page may send times to; empty for none.
    served
        Whether the page may ask a compile service, of whose kernels the bundle has digests.
    """

    candidates: int = 0
    share: str = ""
    served: bool = False


def export(
    model: ModelOnPage,
    out: Path,
    samples: bool = True,
    webgpu: bool | None = None,
    tuning: Tuning | None = None,
    kinds: Mapping[str, str] | None = None,
    shard_bytes: int = SHARD_BYTES,
    on_phase: OnPhase = quiet,
) -> Path:
    """Write the bundle: best known kernels of all Wasm tiers, plans, weights, engine.

    Parameters
    ----------
    samples
        Whether the inputs that a static model runs on go with it.
    webgpu
        Whether kernels for WebGPU go with it. None: where the page runs them, or
        the database has a winner of a GPU, and every workload compiles.
    kinds
        What the page takes inputs and outputs for, by name; see :mod:`nnjit_studio.bundle.demo`.
    tuning
        What a page may try of a static model. None: nothing.
    shard_bytes
        Larger weights are cut into several files; 0 for one file.

    Raises
    ------
    UserError
        When a kind does not fit, or in a lab mode: its kernels were chosen for an engine that no
        visitor has. Also where candidates are asked for of a decoder, or no workload has any; and
        when it was cancelled: nothing is written then.
    CompileError
        When ``webgpu`` is asked for and a workload has no kernel there, in a model that cannot be
        divided.
    BundleError
        When it cannot be written.
    """
    opened, target = model.current, model.page.target
    if is_lab(target):
        raise UserError(
            f"Results of the target {target} do not enter a bundle.",
            "Tune without --lab, then export.",
        )
    with model.page.cancellable("The export", on_phase) as phase:
        parts = _parts(model, samples, webgpu, tuning, kinds, phase)
        parts = replace(parts, shard_bytes=shard_bytes)
        return write_bundle(out, parts, opened.graph.name, _tuned_on(model), on_phase=phase)


def _parts(
    model: ModelOnPage,
    samples: bool,
    webgpu: bool | None,
    tuning: Tuning | None,
    kinds: Mapping[str, str] | None,
    on_phase: OnPhase,
) -> BundleParts:
    opened = model.current
    static = opened.generation is None
    kernels = model.kernels(TIERS, WASM, on_phase=on_phase)
    on_gpu = _gpu_kernels(model, webgpu, on_phase)
    mixed = model.current.mixed if on_gpu else None
    spare = _candidates(model, tuning) if tuning else Candidates()
    plan = opened.plan
    if opened.generation and tokenizer_beside(opened.path):
        kinds = {opened.generation.ids: TEXT, **(kinds or {})}
    page = page_parts(opened.path, plan.input_specs, plan.output_specs, kinds)
    return BundleParts(
        plan,
        opened.weights,
        [*kernels, *on_gpu],
        engine_files(
            not static,
            bool(on_gpu),
            tuning=bool(spare.trials),
            text=bool(page.tokenizer),
            mixed=mixed is not None,
        ),
        samples=model.feeds if samples and static else {},
        generation=opened.generation,
        prefill=opened.other_plans.get(PREFILL),
        extend=opened.other_plans.get(EXTEND),
        mixed=mixed,
        figures=_figures(model),
        page=page,
        candidates=spare,
    )


def export_any_size(
    page: EnginePage,
    path: Path,
    out: Path,
    feeds: Feeds | None,
    on_phase: OnPhase = quiet,
    kinds: Mapping[str, str] | None = None,
    shard_bytes: int = SHARD_BYTES,
    webgpu: bool = False,
) -> tuple[Path, tuple[str, ...]] | None:
    """Write a bundle that takes inputs of any size, where the model leaves sizes open.

    Products and convolutions have the settings that were compared at several sizes, else those
    that won at the sizes at hand or at powers of two.

    Parameters
    ----------
    feeds
        Inputs that the model runs on, which go with the bundle; some are made up without.
    kinds
        As in :func:`export`.
    webgpu
        Whether kernels for WebGPU go with it; where one cannot be made for any size, none does, and
        a note says so.

    Returns
    -------
    tuple or None
        The bundle, and what a user should know of it; None where all sizes are fixed.

    Raises
    ------
    ModelError, UserError
        Also where a part of the model can be compiled for one size alone.
    BundleError
        When it cannot be written.
    """
    weights, half = page.weights_file(), page.importing.half_weights
    with page.working():
        arrays = feeds or _guessed(page, path)
        here = page.here(WASM)
        known = KnownSettings(
            stored_winners(page.database, here), stored_tables(page.database, here)
        )
        made = page.process.import_any_size(
            path, weights, arrays, half, on_phase, feeds is None, known, webgpu
        )
    if made is None:
        return None
    plan = made.plan.at(made.plan.example)
    shown = page_parts(path, plan.input_specs, plan.output_specs, kinds)
    parts = BundleParts(
        plan,
        weights,
        made.kernels,
        engine_files(
            gpu=any(k.tier in GPU_TIERS for k in made.kernels),
            any_size=True,
            text=bool(shown.tokenizer),
        ),
        samples=feeds or {},
        open_plan=made.plan,
        figures="\n".join(("What its export said:", *made.notes)) if made.notes else "",
        page=shown,
        shard_bytes=shard_bytes,
    )
    return write_bundle(out, parts, made.plan.name, {}), made.notes


def _candidates(model: ModelOnPage, tuning: Tuning) -> Candidates:
    """Kernels to try in the page; see :func:`export`."""
    if model.current.generation is not None:
        raise UserError(
            "The kernels of a decoder cannot be tuned in the page: its plans share their weights.",
            "Export it without --candidates.",
        )
    found = spare_kernels(model, tuning.candidates, tuning.share)
    if tuning.served:
        opened, compile_ = model.current, model.page.compiler.compile
        lots = {
            w.key: lots_of(w, w.key in opened.packable, compile_)
            for w in opened.workloads
            if w.tunable
        }
        found = replace(found, lots=lots)
    if not found.trials:
        raise UserError(
            "No workload of the model has another kernel than the one that runs.",
            "Export it without --candidates.",
        )
    return found


def write_programs(model: ModelOnPage, folder: Path) -> int:
    """Write the programs of the tunable workloads for a compile service; returns how many.

    Raises
    ------
    UserError
        When the folder cannot be written.
    """
    opened, process = model.current, model.page.process
    written = [
        Written(w.key, w.key in opened.packable, process.program(w))
        for w in opened.workloads
        if w.tunable
    ]
    return programs.write_programs(folder, written)


def _guessed(page: EnginePage, path: Path) -> Feeds:
    """Inputs of sizes that their names and the file's notes suggest; none where they hold text."""
    try:
        (found,) = sized(page.process.survey(path), {})
    except UserError:
        return {}
    return found.arrays


def _verdict(model: ModelOnPage) -> Verdict | None:
    return verdict_of(model.page.database.path.parent, model.current.path)


def _figures(model: ModelOnPage) -> str:
    """The last verdict of the model for a README; empty where it was not compared."""
    found = _verdict(model)
    if found is None or not found.versions:
        return ""
    peer = " ".join(found.versions.values())
    where = f"Measured {found.created[:10]} on {found.threads} thread in {found.browser}"
    return f"Compared with ONNX Runtime Web {peer}\n\n{table(found)}\n\n{where}\n"


def _tuned_on(model: ModelOnPage) -> dict[str, str]:
    device = model.page.device
    if device is None:
        return {}
    facts = ("device_id", "target", "user_agent", "flags")
    found = {name: str(getattr(device, name)) for name in facts}
    return found | ({"adapter": device.gpu.name} if device.gpu else {})


def _gpu_kernels(model: ModelOnPage, wanted: bool | None, on_phase: OnPhase) -> list[Kernel]:
    """Kernels for WebGPU that go into a bundle; see :func:`export`. Where some steps have none, the
    model is divided.

    Raises
    ------
    CompileError
        When they are asked for, and the GPU can run no step, or the steps cannot be divided.
    """
    mine = model.page.backend
    backend = mine if mine.is_gpu else Backend("webgpu", "navigator")
    if wanted is None and not (mine.is_gpu or any(model.choose_known(backend).values())):
        return []
    if wanted is False:
        return []
    tiers = tiers_of_backend(backend)
    try:
        opened = model.opened = for_gpu(model.current, model.page)
        if cannot_load(opened):
            raise CompileError("An output is as large as its data says, which only Wasm can tell.")
        return model.kernels(tiers, backend, on_phase=on_phase)
    except CompileError as e:
        opened = divided(model.current, model.page.compiler)
        if opened.mixed is not None:
            model.opened = opened
            return model.kernels(tiers, backend, on_phase=on_phase)
        if wanted:
            raise
        log.warning("The bundle has no kernels for WebGPU: %s", e.error)
        return []


def report(model: ModelOnPage, out: Path) -> Path:
    """Write the self-contained report of the last session: Markdown, or HTML with plots.

    Raises
    ------
    UserError
        When there is no finished session, or the file cannot be written.
    """
    if not any(isinstance(e, Finished) for e in model.events):
        raise UserError("There is no finished session to report.", "Tune the model first.")
    return write_report(
        out,
        [e.to_json() for e in model.events],
        created=SystemClock().now_iso(),
        versions=model.page.versions(),
        verdict=_verdict(model),
    )
