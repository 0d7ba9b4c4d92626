"""Forms of the open model as pages would ship them: the files of bundles in one folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from nnjit_studio.advice.apply import Apply
from nnjit_studio.advice.measure import Form, as_fed
from nnjit_studio.advice.records import Row
from nnjit_studio.advice.sizes import resized
from nnjit_studio.bundle import BundleParts, engine_files, write_folder
from nnjit_studio.errors import UserError
from nnjit_studio.model import ImportOptions
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.model.recipe import OUTPUTS, Derived, Recipe
from nnjit_studio.records import TIERS
from nnjit_studio.records.backend import WASM, Backend
from nnjit_studio.support.phases import OnPhase, quiet
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.runners import tiers_of_backend

BASE = "untouched"


@dataclass(frozen=True)
class Made:
    """A form, and the file that it is of."""

    form: Form
    source: Path


@dataclass(frozen=True)
class Plain:
    """A file and how it is imported and run."""

    path: Path
    importing: ImportOptions
    threads: int
    feeds: Feeds


def untouched(model: ModelOnPage, folder: Path, name: str = BASE, threads: int = 0) -> Made:
    """The open model as it is, in Wasm; without ``threads`` on as many as now."""
    opened, page = model.current, model.page
    parts = BundleParts(opened.plan, opened.weights, model.kernels(TIERS, WASM), engine_files())
    source = _written(parts, folder, name)
    plan = opened.plan
    feeds = as_fed(model.feeds, plan.input_specs)
    form = Form(name, source, feeds, plan.output_specs, threads or page.threads)
    return Made(form, opened.path)


def as_open(model: ModelOnPage, folder: Path, name: str) -> Made:
    """The open model with the backend that it runs on."""
    if model.page.backend.is_gpu:
        return _on_gpu(model, name, folder)
    return untouched(model, folder, name)


def form_of(
    model: ModelOnPage, row: Row, folder: Path, base: Made, on_phase: OnPhase = quiet
) -> Made:
    """The model as a row changes it; ``base`` is the untouched one.

    Raises
    ------
    ModelError, UserError
        When the file cannot be made or imported.
    CompileError
    """
    page, apply, file = model.page, row.apply, model.current.path
    if apply.backend:
        return _on_gpu(model, row.name, folder)
    feeds = resized(model.feeds, apply.shapes)
    if apply.recipe:
        file, _ = file_of(model, row, folder, on_phase)
        feeds = {n: a for n, a in feeds.items() if n not in apply.recipe.constants}
    importing = _importing(model, apply, feeds)
    if not apply.recipe and importing == model.current.importing:  # threads: the same files
        return replace(base, form=replace(base.form, name=row.name, threads=apply.threads))
    plain = Plain(file, importing, apply.threads or page.threads, feeds)
    return of_file(model, plain, folder, row.name)


def of_file(model: ModelOnPage, plain: Plain, folder: Path, name: str = BASE) -> Made:
    """A file in Wasm, imported for this form alone.

    Raises
    ------
    ModelError, UserError
        When it cannot be imported.
    CompileError
    """
    page, weights = model.page, model.page.weights_file()
    try:
        with page.compiler_killed_on_cancel():
            made = page.process.import_model(plain.path, weights, importing=plain.importing)
        plan = made.plan
        kernels = model.kernels(TIERS, WASM, made.workloads)
        parts = BundleParts(plan, weights, kernels, engine_files())
        source = _written(parts, folder, name)
    finally:
        weights.unlink(missing_ok=True)
    taken = as_fed(plain.feeds, plan.input_specs)
    return Made(Form(name, source, taken, plan.output_specs, plain.threads), plain.path)


def file_of(
    model: ModelOnPage, row: Row, folder: Path, on_phase: OnPhase = quiet
) -> tuple[Path, str]:
    """The file that a row's recipe makes, once for this folder, and then what is to tell of it.

    Raises
    ------
    ModelError, UserError
        See :func:`derived`.
    """
    assert row.apply.recipe is not None
    file = folder / f"{row.name}.onnx"
    return file, "" if file.exists() else derived(model, row.apply.recipe, file, on_phase).note


def derived(model: ModelOnPage, recipe: Recipe, out: Path, on_phase: OnPhase = quiet) -> Derived:
    """Write the file that a recipe makes of the open model's.

    Raises
    ------
    ModelError, UserError
        Also when the recipe finds nothing to do.
    """
    page, opened = model.page, model.current
    with page.compiler_killed_on_cancel():
        made = page.process.derive(opened.path, out, recipe, model.feeds, on_phase)
    if not made.nodes and recipe.kind != OUTPUTS:
        out.unlink()
        raise UserError("No part of this model has weights that this tool quantises.")
    return made


def _importing(model: ModelOnPage, apply: Apply, feeds: Feeds) -> ImportOptions:
    """As the open model was imported, with the changes; of its plan only what fits the file."""
    given = model.current.importing or ImportOptions()
    if apply.recipe:
        shapes = given.shapes
        left = {name: shape for name, shape in shapes.hints.items() if name in feeds}
        values = {name: value for name, value in shapes.values.items() if name in feeds}
        given = replace(given, shapes=replace(shapes, hints=left, values=values), ways={})
    importing = apply.importing(given)
    return importing.with_hints(feeds) if apply.shapes else importing


def _on_gpu(model: ModelOnPage, name: str, folder: Path) -> Made:
    """The open model with kernels for WebGPU."""
    page, backend = model.page, Backend("webgpu", "navigator")
    opened, plan = model.current, model.current.plan
    kernels = model.kernels(tiers_of_backend(backend), backend)
    both = [*model.kernels(TIERS, WASM), *kernels]
    files = engine_files(gpu=True, mixed=opened.mixed is not None)
    parts = BundleParts(plan, opened.weights, both, files, mixed=opened.mixed)
    source = _written(parts, folder, name)
    feeds = as_fed(model.feeds, plan.input_specs)
    form = Form(name, source, feeds, plan.output_specs, page.threads, "webgpu")
    return Made(form, opened.path)


def _written(parts: BundleParts, folder: Path, name: str) -> str:
    return write_folder(folder / name, parts, name).relative_to(folder).as_posix()
