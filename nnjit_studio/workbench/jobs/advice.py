"""Advice on the open model: its other forms, each in turns with the untouched one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from nnjit_studio.advice.errors import Arrays, judge, output_errors
from nnjit_studio.advice.measure import Form, Found, measure
from nnjit_studio.advice.options import AdviceOptions
from nnjit_studio.advice.records import (
    BROKEN,
    IMPOSSIBLE,
    MEASURED,
    MEASURING,
    Advice,
    Row,
    with_row,
)
from nnjit_studio.advice.rows import Facts, rows_of
from nnjit_studio.advice.together import together
from nnjit_studio.errors import BugError, NnjitError, PageError, UserError
from nnjit_studio.model import TensorSpec
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.model.recipe import CONSTANTS, HALVED, OUTPUTS, Recipe
from nnjit_studio.support.files import replacing
from nnjit_studio.support.phases import OnPhase, quiet
from nnjit_studio.support.processes import usable_cores
from nnjit_studio.verdict.measure import Visits
from nnjit_studio.workbench.advice_forms import (
    BASE,
    Made,
    derived,
    file_of,
    form_of,
    untouched,
)
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.page import SystemClock

NATIVE, OWN = "ONNX Runtime in float32", "the untouched model in our engine"


@dataclass
class _Place:
    """What all rows are measured with.

    What is known of the untouched model comes from the first page that runs both, or from a page
    of its own where the row's page did not.
    """

    model: ModelOnPage
    visits: Visits
    options: AdviceOptions
    folder: Path
    base: Made
    on_phase: OnPhase = quiet
    reference: Arrays = field(default_factory=dict)
    """What errors are against, once the untouched model was measured."""
    sentinel_ms: float = 0.0
    known: bool = False
    """Whether the untouched model was measured."""

    @cached_property
    def native(self) -> Arrays:
        """The outputs in float32, computed when an error is first asked for; see
        :func:`native_outputs`."""
        opened = self.model.current
        specs = opened.plan.output_specs
        return native_outputs(self.model, opened.path, self.model.feeds, specs)

    def told_of(self, row: Row) -> OnPhase:
        """Tells phases of a row with its title."""
        return lambda phase: self.on_phase(f"{row.title}: {phase}")

    def measure(self, form: Form) -> Iterator[Found]:
        """A form in turns with the untouched one."""
        page, seconds = self.model.page, self.options.seconds
        return measure(
            self.folder, self.base.form, form, self.visits, seconds, self.sentinel_ms,
            lambda: page.cancelled,
        )  # fmt: skip


def advise(
    model: ModelOnPage,
    visits: Visits,
    options: AdviceOptions | None = None,
    on_phase: OnPhase = quiet,
) -> Iterator[Advice]:
    """Measure every row of the open model; what is known so far, after each step.

    ``on_phase`` is told what goes on within a step that takes long.

    A row that fails has its reason and ends nothing; cancelling the page ends all.

    Raises
    ------
    UserError
        For a decoder, or a model that was not imported from a file; when it was cancelled.
    CompileError, TargetError, PageError
        When the untouched model itself does not run.
    """
    options, opened, page = options or AdviceOptions(), model.current, model.page
    if opened.generation is not None or opened.importing is None or len(opened.programs) > 1:
        raise UserError(
            f"{opened.path.name} has several programs, and advice measures one.",
            "Open an ONNX model of one size.",
        )
    with page.working(), tempfile.TemporaryDirectory(prefix="nnjit-advice-") as name:
        advice = Advice(
            opened.path.name,
            str(opened.path.absolute()),
            _wanted(rows_of(_facts(model, options)), options.only),
            phase="making the untouched model",
            threshold=options.max_error,
            threads=page.threads,
            created=SystemClock().now_iso(),
        )
        yield advice
        base = untouched(model, Path(name))
        place = _Place(model, visits, options, Path(name), base, on_phase)
        waiting = [row for row in advice.rows if row.state != IMPOSSIBLE]
        refused: list[Row] = []
        for i, row in enumerate(waiting):
            count = f"{i + 1} of {len(waiting)}, "
            if _rounds_weights(row) and place.native:
                advice = replace(advice, phase=f"{count}computing the error of: {row.title}")
                yield advice
                row = _foreseen(row, place)
            if row.guard.state == BROKEN:
                refused.append(row)
                advice = with_row(advice, row)
                yield advice
            else:
                advice = yield from _one(advice, row, place, count)
                advice = yield from _alone(advice, place)
        advice = yield from _alone(advice, place)
        if whole := together(advice.rows):
            advice = replace(advice, rows=(*advice.rows, whole))
            advice = yield from _one(advice, whole, place)
        for row in refused:  # their times come last: nothing that may be applied waits for them
            advice = yield from _one(advice, row, place, "over the error limit, ")
    yield replace(advice, phase="")


def apply_row(
    model: ModelOnPage,
    row: Row,
    out: Path | None,
    force: bool = False,
    on_phase: OnPhase = quiet,
) -> Path | None:
    """Write the file of a row that is applied by one; None where options apply it.

    Raises
    ------
    UserError
        When the guard refuses it and it is not forced, no place for its file was named, one was
        named for none, or it cannot be written.
    """
    if row.refusal and (row.state == IMPOSSIBLE or not force):
        hint = "" if row.state == IMPOSSIBLE else "Force it, or accept a larger error."
        raise UserError(f"{row.name} is not applied: {row.refusal}", hint)
    recipe = row.apply.recipe
    if recipe is None:
        if out is not None:
            raise UserError(
                f"{row.name} is applied by options, and makes no file.", "Leave out the file."
            )
        return None
    if out is None:
        raise UserError(f"{row.name} is another file.", "Name it: -o OUT.onnx.")
    with model.page.working(), tempfile.TemporaryDirectory(prefix="nnjit-advice-") as folder:
        made = Path(folder) / "made.onnx"
        derived(model, recipe, made, on_phase)
        with replacing(out) as place:
            shutil.copyfile(made, place)
    return out


def _facts(model: ModelOnPage, options: AdviceOptions) -> Facts:
    opened, page = model.current, model.page
    assert opened.importing is not None
    return Facts(
        page.process.survey(opened.path),
        opened.importing,
        opened.program().choices,
        opened.plan.input_specs,
        opened.plan.output_specs,
        model.feeds,
        page.threads,
        options.threads or usable_cores(),
        options.max_error,
    )


def _wanted(rows: tuple[Row, ...], only: tuple[str, ...]) -> tuple[Row, ...]:
    unknown = set(only) - {row.name for row in rows} - {BASE}
    if unknown:
        raise UserError(
            f"This model has no advice {min(unknown)!r}.",
            f"It has {', '.join(row.name for row in rows)}.",
        )
    return tuple(row for row in rows if not only or row.name in only)


def native_outputs(
    model: ModelOnPage, path: Path, feeds: Feeds, outputs: Sequence[TensorSpec]
) -> Arrays:
    """The outputs of a file in native ONNX Runtime; empty where it cannot run it.

    Raises
    ------
    UserError
        When the job was cancelled.
    """
    process = model.page.process
    try:
        with model.page.compiler_killed_on_cancel():
            process.open_reference(path)
            return process.reference_tensors(feeds, [spec.name for spec in outputs])
    except UserError:
        if model.page.cancelled:
            raise
        return {}


def _alone(advice: Advice, place: _Place) -> Generator[Advice, None, Advice]:
    """The untouched model by itself, unless a row has told of it; the advice with it.

    Raises
    ------
    PageError
        When it does not run.
    """
    found = Found()
    if place.known:
        return advice
    for found in place.measure(place.base.form):
        if found.base:
            advice = replace(advice, phase="measuring the untouched model", base=found.base)
            yield advice
    advice = _based(advice, found, place)
    if not place.known:
        raise PageError(f"The untouched model does not run: {found.refused or 'no samples'}.")
    return advice


def _based(advice: Advice, found: Found, place: _Place) -> Advice:
    """The advice with what a page has told of the untouched model, the first time."""
    if place.known or found.base is None or not found.base_outputs:
        return advice
    place.reference = place.native or found.base_outputs
    place.sentinel_ms, place.known = found.sentinel_ms, True
    return replace(
        advice,
        base=replace(found.base, outputs=output_errors(found.base_outputs, place.reference)),
        reference=NATIVE if place.native else OWN,
        rate=found.base.rate,
        browser=found.browser,
    )


def _one(
    advice: Advice, row: Row, place: _Place, count: str = ""
) -> Generator[Advice, None, Advice]:
    """Make and measure one row; the advice with it."""
    row = replace(row, state=MEASURING)
    advice = replace(with_row(advice, row), phase=f"{count}making: {row.title}")
    yield advice
    found, layer = Found(), ""
    try:
        model = place.model
        made = form_of(model, row, place.folder, place.base, place.told_of(row))
        for found in place.measure(made.form):
            if found.measured:
                row = replace(row, measured=found.measured)
                if not place.known:
                    advice = replace(advice, base=found.base)
                advice = replace(with_row(advice, row), phase=f"{count}measuring: {row.title}")
                yield advice
        if found.measured and not found.refused:
            layer = _worst_layer(row, made, place)
    except BugError:
        raise
    except NnjitError as e:
        if place.model.page.cancelled:
            raise UserError("The advice was cancelled.") from None
        found = Found(refused=str(e))
    advice = _based(advice, found, place)
    row = judged(row, found, place.reference, place.options.max_error, layer)
    rate = min(advice.rate, row.measured.rate) if row.measured else advice.rate
    advice = replace(with_row(advice, row), rate=rate)
    yield advice
    return advice


def _rounds_weights(row: Row) -> bool:
    """Whether it is another file, whose outputs are others by its rounding."""
    recipe = row.apply.recipe
    return recipe is not None and recipe.kind not in (OUTPUTS, CONSTANTS)


def _foreseen(row: Row, place: _Place) -> Row:
    """The row with what the guard says of its file in ONNX Runtime, before it is imported.

    Not judged where the file cannot be made or run there: then measuring tells why.
    """
    model = place.model
    try:
        file, note = file_of(model, row, place.folder, place.told_of(row))
    except NnjitError:
        if model.page.cancelled:
            raise UserError("The advice was cancelled.") from None
        return row
    specs = model.current.plan.output_specs
    outputs = native_outputs(model, file, model.feeds, specs)
    errors = output_errors(outputs, place.native)
    guard = judge(errors, len(specs), place.options.max_error, "in ONNX Runtime")
    return replace(row, guard=guard, note=note or row.note)


def _worst_layer(row: Row, made: Made, place: _Place) -> str:
    """The layer that errs most by itself, with its error; empty where rounding is not the row's
    doing, or ONNX Runtime cannot tell."""
    model, file = place.model, made.source
    if not row.apply.half_weights and not _rounds_weights(row):
        return ""
    try:
        if row.apply.half_weights:
            file = place.folder / "halved.onnx"
            derived(model, Recipe(HALVED), file)
        with model.page.compiler_killed_on_cancel():
            worst = model.page.process.worst_layer(model.current.path, file, model.feeds)
    except UserError:
        if model.page.cancelled:
            raise
        return ""
    return f"{worst.name} ({worst.max_rel:.1e} by itself)"


def judged(row: Row, found: Found, reference: Arrays, max_error: float, layer: str = "") -> Row:
    """The row with what a page found, its errors and what the guard says.

    ``layer`` is the one that errs most by itself, in words.
    """
    if found.refused or found.measured is None:
        problem = found.refused or "Nothing was measured."
        return replace(row, state=IMPOSSIBLE, problem=problem, measured=None)
    outputs = output_errors(found.outputs, reference)
    measured = replace(found.measured, outputs=outputs, worst_layer=layer)
    guard = judge(outputs, len(found.outputs), max_error, measured.where)
    return replace(row, state=MEASURED, measured=measured, guard=guard)
