"""Forms of the open model as pages would ship them: bundles, unpacked into one folder."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nnjit_studio.advice.apply import Apply
from nnjit_studio.advice.measure import Form, as_fed
from nnjit_studio.bundle import BundleParts, engine_files, write_bundle
from nnjit_studio.bundle.manifest import MANIFEST_FILE
from nnjit_studio.compiler.process.results import ImportedModel
from nnjit_studio.errors import CompileError
from nnjit_studio.model import ImportOptions
from nnjit_studio.records import TIERS, Kernel
from nnjit_studio.records.backend import WASM
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.open_model import Feeds
from nnjit_studio.workbench.page import EnginePage
from nnjit_studio.workbench.stored_best import stored_best

BASE = "untouched"


@dataclass(frozen=True)
class Made:
    """A form, and the file that it is of."""

    form: Form
    source: Path


def untouched(model: ModelOnPage, folder: Path) -> Made:
    """The open model as it is."""
    opened, page = model.current.on(WASM), model.page
    parts = BundleParts(opened.plan, opened.weights, model.kernels(TIERS, WASM), engine_files())
    source = _unpacked(parts, folder, BASE)
    plan = opened.plan
    feeds = as_fed(model.feeds, plan.input_specs)
    form = Form(BASE, source, feeds, plan.output_specs, page.threads)
    return Made(form, opened.path)


def form_of(
    model: ModelOnPage, name: str, apply: Apply, file: Path, feeds: Feeds, folder: Path
) -> Made:
    """The model with these changes, imported anew from this file.

    Raises
    ------
    ModelError, UserError
        When it cannot be imported.
    CompileError
    """
    page = model.page
    given = model.current.importing or ImportOptions()
    importing = apply.importing(replace(given, shapes=_shapes_for(given, apply, feeds)))
    weights = page.weights_file()
    try:
        with page.compiler_killed_on_cancel():
            made = page.process.import_model(file, weights, importing=importing)
        plan = made.plan
        parts = BundleParts(plan, weights, _kernels(model, made), engine_files())
        source = _unpacked(parts, folder, name)
    finally:
        weights.unlink(missing_ok=True)
    threads = apply.threads or page.threads
    return Made(
        Form(name, source, as_fed(feeds, plan.input_specs), plan.output_specs, threads), file
    )


def _shapes_for(given: ImportOptions, apply: Apply, feeds: Feeds) -> Any:
    """What the user gave, without the hints of inputs that are smaller now."""
    return given.with_hints(feeds).shapes if apply.shapes else given.shapes


def _kernels(model: ModelOnPage, made: ImportedModel) -> list[Kernel]:
    """The best that is known for each of its workloads."""
    return kernels_of(model.page, model, made, TIERS)


def kernels_of(
    page: EnginePage, model: ModelOnPage, made: ImportedModel, tiers: Sequence[str]
) -> list[Kernel]:
    """The best known kernel of every workload of a form: the session's, else the database's.

    Raises
    ------
    CompileError
        When a workload has none.
    """
    here = page.here(WASM)
    kernels: list[Kernel] = []
    for workload in made.workloads:
        known = stored_best(page.database, workload, here) if workload.tunable else None
        chosen = model.chosen.get(workload.key, known)
        result = page.compiler.compile(workload, chosen, tiers)
        if result.error:
            raise CompileError(f"{workload.name} does not compile: {result.error}")
        kernels += result.kernels
    return kernels


def _unpacked(parts: BundleParts, folder: Path, name: str) -> str:
    archive = write_bundle(folder / f"{name}.zip", parts, name, {})
    with zipfile.ZipFile(archive) as bundle:
        bundle.extractall(folder / name)
    archive.unlink()
    return f"{name}/{MANIFEST_FILE}"
