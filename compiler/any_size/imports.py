"""Import of a model for several sizes over one weights file: one program for all where it can be.

A model whose steps change with its sizes (a Loop that is laid out) is imported for each
size instead, and the result says so.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from nnjit_studio.compiler.any_size.arrays import lighter, made_arrays, open_dims
from nnjit_studio.compiler.any_size.checked import Compiled, checked
from nnjit_studio.compiler.any_size.constants import Prefix, made_constants, outline, whole_tables
from nnjit_studio.compiler.any_size.formulas.fit import Fit, Numbers, Vector
from nnjit_studio.compiler.any_size.imported_sizes import IMPORTS, sizes_to_import
from nnjit_studio.compiler.any_size.inputs import Feeds, Sizes, sizes_of
from nnjit_studio.compiler.any_size.narrower import Tried, narrowed, ways
from nnjit_studio.compiler.any_size.open_form import families, open_form
from nnjit_studio.compiler.any_size.probe import Probe, probe
from nnjit_studio.compiler.any_size.refusal import DIFFERENT_STEPS, reason, refused
from nnjit_studio.compiler.any_size.runs.importer import (
    Importer,
    check_at_hand,
    relied_on,
    take_lengths,
)
from nnjit_studio.compiler.any_size.runs.trial import Trial
from nnjit_studio.compiler.any_size.tables import bounded, ends_of, rows_of
from nnjit_studio.compiler.any_size.unified import Unified, unify
from nnjit_studio.compiler.importer.buffers import Weights
from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.errors import ModelError, UnsupportedOpError
from nnjit_studio.model.family import Family
from nnjit_studio.model.feeds import values_of
from nnjit_studio.model.open_plan import OpenPlan, OpenPort
from nnjit_studio.model.size import LARGEST, Size
from nnjit_studio.records import Kernel
from nnjit_studio.records.size_tuning import KnownSettings
from nnjit_studio.support.phases import OnPhase, quiet

PATIENCE_S = 150.0
"""No other way to keep dimensions is begun after so much processor time."""
_MORE = 2
"""Sizes that are added where formulas fail at them."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class ManySizes:
    """One static form for each of the given inputs, over one weights file."""

    models: tuple[BuiltModel, ...]
    notes: tuple[str, ...]
    """What a user should know: dimensions that turned out fixed, sizes imported for themselves."""
    families: tuple[Family, ...] = ()
    """Kernels with settings, where one program is for all sizes."""


@dataclass(frozen=True)
class AnySize:
    """A model compiled for any size, over its weights file."""

    plan: OpenPlan
    kernels: tuple[Kernel, ...]
    notes: tuple[str, ...]
    """What a user should know: dimensions that turned out fixed."""


@dataclass(frozen=True)
class _Variant:
    """The program for sizes in which some dimensions and values are fixed."""

    trial: Trial
    found: Probe
    unified: Unified | None
    values: dict[str, int]

    def takes(self, feeds: Feeds) -> bool:
        sizes = sizes_of(self.found.inputs, feeds)
        same = all(sizes[name] == n for name, n in self.found.fixed.items())
        ranges = all(d.takes(sizes[d.name]) for d in self.found.dims)
        given = values_of(feeds)
        return same and ranges and all(given.get(n) == v for n, v in self.values.items())


def import_sizes(
    path: Path,
    weights_file: Path,
    inputs: Sequence[Feeds],
    half_weights: bool = False,
    on_phase: OnPhase = quiet,
) -> ManySizes:
    """Import a model once, for inputs of several sizes.

    Parameters
    ----------
    inputs
        Arrays by name, one set for each size.

    Raises
    ------
    ModelError, UnsupportedOpError, UserError
        With one sentence and the next step.
    """
    importer = Importer(path, Weights(weights_file), half_weights, on_phase)
    variants: list[_Variant] = []
    models = []
    for number, feeds in enumerate(inputs):
        trial = Trial(path, feeds)
        sizes = sizes_of(trial.inputs, feeds)
        variant = next((v for v in variants if v.takes(feeds)), None)
        # A further program costs more imports than so few sizes do.
        if variant is None and (not variants or len(inputs) - number > IMPORTS):
            variant = _variant(importer, trial, feeds)
            variants.append(variant)
        models.append(_model(importer, variant, trial, sizes, feeds))
    nbytes = importer.store.nbytes
    whole = (replace(m, plan=replace(m.plan, weights_bytes=nbytes)) for m in models)
    first, *others = variants
    kernels: tuple[Family, ...] = ()
    if first.unified is not None and not others and all(map(first.takes, inputs)):
        at = [sizes_of(first.found.inputs, feeds) for feeds in inputs]
        kernels = families(first.unified, first.found.dims, at, models)
    return ManySizes(tuple(whole), tuple(dict.fromkeys(importer.notes)), kernels)


def import_any(
    path: Path,
    weights_file: Path,
    feeds: Feeds | None = None,
    half_weights: bool = False,
    on_phase: OnPhase = quiet,
    known: KnownSettings = KnownSettings(),  # noqa: B008
    webgpu: bool = False,
    guessed: bool = False,
) -> AnySize | None:
    """Import a model and compile it for any size; None where all its sizes are fixed.

    Parameters
    ----------
    feeds
        Arrays by name that the model runs on; some are made up where there are none.
    known
        What tuning found for products and convolutions.
    webgpu
        Whether kernels for WebGPU are made too.
    guessed
        Whether nobody gave these arrays, so that smaller ones tell as much.

    Raises
    ------
    ModelError, UnsupportedOpError, UserError
        With one sentence and the next step; also where a part of it is for one size alone.
    """
    if not open_dims(path):
        return None
    importer = Importer(path, Weights(weights_file), half_weights, on_phase, keeps_loops=True)
    feeds = feeds or made_arrays(path)
    light = lighter(path, feeds) if guessed else feeds
    if light is not feeds:
        with contextlib.suppress(ModelError):
            made = _for_any(importer, light, feeds, known, webgpu)
            if made is not None:
                return made
    return _for_any(importer, feeds, feeds, known, webgpu)


def _for_any(
    importer: Importer, feeds: Feeds, shown: Feeds, known: KnownSettings, webgpu: bool
) -> AnySize | None:
    """The model for any size, with ``shown`` ones for an example; None where it holds for all
    sizes in no way and that at hand is not the example's."""
    path, on_phase = importer.path, importer.on_phase
    trial, light = Trial(path, feeds), feeds is not shown
    if trial.doubtful:
        check_at_hand(importer, feeds)
    take_lengths(importer, trial, feeds)
    on_phase("trying other sizes")
    found = probe(trial, feeds)
    example, full = sizes_of(found.inputs, feeds), sizes_of(found.inputs, shown)
    if any(full[name] != n for name, n in found.fixed.items()):
        return None

    def compiled(variant: _Variant) -> AnySize:
        assert variant.unified is not None
        fixed, low = variant.found.fixed, {d.name: d.low for d in variant.found.dims}
        if trial.signals & low.keys() and trial.runs(least := {**fixed, **low}):
            variant.unified.check_shapes(low, trial.run(least))  # before all kernels
        form = open_form(
            variant.unified, variant.found, example, importer.store, on_phase, known, webgpu
        )
        importer.store.finish_plan(more=True)
        nbytes, ends = importer.store.nbytes, trial.ends({**fixed, **example})
        plan = replace(form.plan, weights_bytes=nbytes, inputs=guarded(form.plan.inputs, ends))
        held = (trial, fixed, importer.half_weights, on_phase)
        made = Compiled(plan, form.kernels, importer.store.path, *held)
        longer = ({d: at[d] for d in low} for at in trial.longer({**fixed, **example}))
        plan, notes = checked(made, (*form.ends, *variant.found.far(trial), *longer))
        larger = {d.name: full[d.name] for d in plan.dims if d.takes(full[d.name])}
        plan = replace(plan, example={**plan.example, **larger})
        return AnySize(plan, form.kernels, (*form.notes, *notes))

    made = _opened(importer, trial, found, feeds, compiled, fewer=not light)
    if made is None:
        if light:
            return None
        raise refused("none of its open dimensions takes another size")
    return replace(made, notes=(*importer.notes, *made.notes))


def guarded(
    ports: Sequence[OpenPort], ends: Mapping[str, tuple[str, int, int]]
) -> tuple[OpenPort, ...]:
    """The inputs, of which lengths are no larger than what they count."""
    shapes = {port.name: port.shape for port in ports}
    most = {name: shapes[other][axis] + off for name, (other, axis, off) in ends.items()}
    return tuple(replace(port, most=most.get(port.name)) for port in ports)


def _model(
    importer: Importer, variant: _Variant | None, trial: Trial, sizes: Sizes, feeds: Feeds
) -> BuiltModel:
    """At one size, checked against the shapes that ONNX Runtime gives there."""
    shapes = trial.run(sizes)
    if variant is not None and variant.unified is not None:
        here = {d.name: sizes[d.name] for d in variant.found.dims}
        made = variant.unified.at(here, importer.store)
        importer.store.finish_plan(more=True)
        if all(port.gives(shapes[port.spec.name]) for port in made.plan.outputs):
            return made
        text = ", ".join(f"{name}={n}" for name, n in sizes.items())
        importer.notes.append(f"No formula holds at {text}: imported for itself.")
    return importer.static({name: shapes[name] for name in trial.inputs}, feeds)


def _variant(importer: Importer, trial: Trial, feeds: Feeds) -> _Variant:
    take_lengths(importer, trial, feeds)
    importer.on_phase("trying other sizes")
    found = probe(trial, feeds)
    try:
        if trial.doubtful:
            check_at_hand(importer, feeds)
        variant = _opened(importer, trial, found, feeds, lambda variant: variant)
    except ModelError as error:
        importer.notes.append(f"{error.error} Each size was imported for itself.")
        variant = None
    return variant or _Variant(trial, found, None, {})


def _opened(
    importer: Importer,
    trial: Trial,
    found: Probe,
    feeds: Feeds,
    made: Callable[[_Variant], _T],
    fewer: bool = True,
) -> _T | None:
    """What is made of the program for any size, or for those in which a few dimensions stay as
    they are at hand, where ``fewer`` may be open; None where no dimension is.

    Raises
    ------
    ModelError
        What stands in the way of all sizes, where each way is refused.
    """
    values, first, tried = values_of(feeds), None, Tried(found)
    last = time.thread_time() + PATIENCE_S
    for narrow, form in ways(trial, found, sizes_of(found.inputs, feeds), fewer):
        if tried.rules_out(narrow, form):
            continue
        way = replace(importer, form=form)
        try:
            bounds, unified, relied = _unified_or_apart(way, trial, narrow, feeds)
            result = made(_Variant(trial, bounds, unified, {n: values[n] for n in relied}))
        except ModelError as error:
            if isinstance(error, UnsupportedOpError) and not (first or trial.doubtful):
                check_at_hand(importer, feeds)
            # What no kernel can count is no reason where there was another one.
            told = first if isinstance(error, UnsupportedOpError) else None
            whole = narrow is found and not form.joins_apart
            first = told or error if whole else first or error
            importer.store.finish_plan(more=True)
            tried.note(narrow, form, error.error, bool(way.counted.ends))
            if time.thread_time() > last:
                break
            continue
        importer.notes += narrowed(found, narrow, reason(first) if first else "")
        return result
    if first:
        raise first
    return None


def _atoms(fit: Fit, at: Sequence[Sizes]) -> dict[Vector, Size]:
    """The formulas of the model's sizes by what they are at these."""
    atoms: dict[Vector, Size] = {}
    for formula in (*fit.formulas, *fit.seen):
        atoms.setdefault(tuple(formula.at(sizes) for sizes in at), formula)
    return atoms


def _unified_or_apart(
    importer: Importer, trial: Trial, found: Probe, feeds: Feeds
) -> tuple[Probe, Unified, frozenset[str]]:
    """As :func:`_unified`; where that is refused and numbers around bytes are part of other calls,
    without these, since how large such a part may be depends on sizes."""
    try:
        return _unified(importer, trial, found, feeds)
    except UnsupportedOpError:
        raise
    except ModelError:
        if not importer.merges:
            raise
    importer.form = replace(importer.form, numbers_apart=True)
    return _unified(importer, trial, found, feeds)


def _unified(
    importer: Importer,
    trial: Trial,
    found: Probe,
    feeds: Feeds,
    but: Set[int] = frozenset(),
    more: tuple[Sizes, ...] = (),
) -> tuple[Probe, Unified, frozenset[str]]:
    """The program for any size, the ranges in which it holds, and inputs that it relies on.

    It is imported at sizes ``but`` these, at which a resized table stays as it is, and at ``more``
    ones, at which formulas for fewer failed."""
    fit = found.fit()
    example = sizes_of(found.inputs, feeds)
    odd, apart = importer.form.odd, importer.form.joins_apart
    drawn = sizes_to_import(found.dims, fit.formulas, example, odd, but, 1, apart)
    at, certain = [*drawn[:IMPORTS], *more, *drawn[IMPORTS:]], IMPORTS + len(more)
    builts: list[BuiltModel] = []
    tables: list[list[tuple[int, ...]]] = []
    levels = []

    def imported(sizes: Sizes, file: Path) -> BuiltModel:
        return importer.imported(found.input_shapes(sizes), values_of(feeds), file)

    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{i}.bin" for i in range(len(at))]
        for sizes, file in zip(at, files, strict=True):
            builts.append(imported(sizes, file))
            tables.append(importer.counted.tables)
            levels.append(importer.counted.level)
            same = levels[0].keys() & levels[-1].keys()
            if not (alike := {n for s in same for n in levels[0][s] ^ levels[-1][s]}) <= but:
                return _unified(importer, trial, found, feeds, but | alike, more)
            if outline(builts[-1]) != outline(builts[0]):
                if len(builts) <= certain:
                    raise refused(DIFFERENT_STEPS)
                del at[len(builts) - 1 :], builts[-1], tables[-1]
                break
        atoms = {n: _atoms(fit, at[:n]) for n in (certain, len(at))}
        constants = made_constants(builts, files[: len(at)])
        lengths = [*rows_of(builts, constants), *ends_of(tables)]
        counted = bool(importer.counted.ends) and not importer.form.keeps_ranges
        found = bounded(trial, found, example, lengths, atoms[len(at)], counted)
        if any(isinstance(made, Prefix) for made in constants.values()):
            high = {d.name: at[0][d.name] if d.high == LARGEST else d.high for d in found.dims}
            file = Path(folder) / "largest.bin"
            largest = imported(high, file)
            constants = whole_tables(constants, builts[0], largest, file)
        numbers = {n: Numbers(each, places=fit.places) for n, each in atoms.items()}
        unified = unify(builts, numbers, constants)
        if fit.places or any(each.guessed for each in numbers.values()):
            formulas, seed = list(atoms[len(at)].values()), 2 + len(more)
            further = sizes_to_import(found.dims, formulas, example, odd, but, seed, apart)
            if not unified.gives(further[0], imported(further[0], Path(folder) / "further.bin")):
                if len(more) == _MORE:
                    raise refused("formulas for its numbers fail at a further size")
                return _unified(importer, trial, found, feeds, but, (*more, further[0]))
        content = np.fromfile(files[0], np.uint8)
    return found, unified.in_common(importer.store, content), relied_on(builts[0])
