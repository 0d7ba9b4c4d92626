"""Each of several sizes from one import, in turns with a bundle for that size alone."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nnjit_studio.advice.measure import Form, Found, as_fed, measure
from nnjit_studio.advice.options import AdviceOptions
from nnjit_studio.analysis.profile.sizes import SizesProfile
from nnjit_studio.bundle import BundleParts, engine_files, write_folder
from nnjit_studio.errors import ModelError
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.records import TIERS
from nnjit_studio.records.backend import WASM
from nnjit_studio.support.phases import OnPhase
from nnjit_studio.verdict.figures import Interval
from nnjit_studio.verdict.measure import Visits
from nnjit_studio.workbench.advice_forms import Plain, of_file
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.open_model import size_name

BUSY = "Where a ratio is left out, the machine was too busy, or too few pairs were taken."
ABOUT = "The line of dashes is bundles for one size each, in turns with this import's program."


def forms_of_sizes(model: ModelOnPage, inputs: Sequence[Feeds], folder: Path) -> list[Form]:
    """The programs of a model that is open at several sizes, as files that a page loads."""
    kernels, forms = model.kernels(TIERS, WASM), []
    for i, feeds in enumerate(inputs):
        program, name = model.current.program(size_name(i)), f"open-{i}"
        parts = BundleParts(program.plan, program.weights, kernels, engine_files())
        source = write_folder(folder / name, parts, name).relative_to(folder).as_posix()
        plan = program.plan
        fed = as_fed(feeds, plan.input_specs)
        forms.append(Form(name, source, fed, plan.output_specs, model.page.threads))
    return forms


def with_alone(
    model: ModelOnPage,
    found: SizesProfile,
    forms: Sequence[Form],
    inputs: Sequence[Feeds],
    folder: Path,
    visits: Visits,
    on_phase: OnPhase,
) -> SizesProfile:
    """What was found, with the ratio of a bundle for one size at each; ``model`` is open at one.

    Raises
    ------
    CompileError, TargetError, PageError
    UserError
        When it was cancelled.
    """
    page, rows, notes = model.page, [], [ABOUT]
    path, importing = model.current.path, model.current.importing
    assert importing is not None  # it was opened from its file
    with page.working():
        for i, (row, form, feeds) in enumerate(zip(found.rows, forms, inputs, strict=True), 1):
            on_phase(f"comparing with a bundle for one size, {i} of {len(forms)}")
            plain = Plain(path, importing.with_hints(feeds), page.threads, feeds)
            try:
                made = of_file(model, plain, folder, f"alone-{i}").form
            except ModelError as e:
                at = ", ".join(f"{name} {size}" for name, size in row.sizes.items())
                notes.append(f"There is no bundle for {at} alone: {e}")
                rows.append(row)
                continue
            rows.append(replace(row, alone=_ratio(model, folder, form, made, visits)))
            if rows[-1].alone is None and BUSY not in notes:
                notes.append(BUSY)
            for each in (form, made):
                shutil.rmtree(folder / each.name)
    return replace(found, rows=tuple(rows), notes=(*found.notes, *notes))


def _ratio(
    model: ModelOnPage, folder: Path, base: Form, form: Form, visits: Visits
) -> Interval | None:
    stopped = AdviceOptions().seconds, 0.0, lambda: model.page.cancelled
    *_, found = Found(), *measure(folder, base, form, visits, *stopped)
    return found.measured.stated if found.measured else None
