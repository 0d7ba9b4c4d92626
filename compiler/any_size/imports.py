"""Import of a model for several sizes over one weights file: one program for all where it can be.

A model whose steps change with its sizes (a Loop that is laid out) is imported for each
size instead, and the result says so.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from nnjit_studio.compiler.any_size.arrays import made_arrays, open_dims
from nnjit_studio.compiler.any_size.checked import Compiled, checked
from nnjit_studio.compiler.any_size.constants import Prefix, made_constants, outline, whole_tables
from nnjit_studio.compiler.any_size.fit import Fit, Numbers, Vector
from nnjit_studio.compiler.any_size.imported_sizes import IMPORTS, sizes_to_import
from nnjit_studio.compiler.any_size.inputs import Feeds, Sizes, sizes_of
from nnjit_studio.compiler.any_size.narrower import narrower
from nnjit_studio.compiler.any_size.open_form import families, open_form
from nnjit_studio.compiler.any_size.probe import Probe, probe
from nnjit_studio.compiler.any_size.refusal import DIFFERENT_STEPS, reason, refused
from nnjit_studio.compiler.any_size.runs.trial import Trial
from nnjit_studio.compiler.any_size.tables import bounded, ends_of, rows_of
from nnjit_studio.compiler.any_size.unified import Unified, unify
from nnjit_studio.compiler.importer.buffers import Weights
from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.compiler.importer.model import import_with
from nnjit_studio.compiler.importer.onnx.control.bodies import LoopBody
from nnjit_studio.compiler.importer.onnx.walk import Counted
from nnjit_studio.compiler.importer.passes import Import
from nnjit_studio.errors import ModelError, UnsupportedOpError
from nnjit_studio.model import GivenShapes
from nnjit_studio.model.family import Family
from nnjit_studio.model.feeds import values_of
from nnjit_studio.model.open_plan import OpenPlan
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


@dataclass
class _Importer:
    path: Path
    store: Weights
    half_weights: bool
    on_phase: OnPhase
    keeps_loops: bool = False
    """Whether Loop and Scan stay loops: no static program has any."""
    keeps_ranges: bool = False
    """Whether a Range over a size is computed with all that follows, where else it is folded."""
    odd: bool = False
    """Whether it imports at odd sizes alone, as far as these may be: the code of windows that look
    beyond the end of an odd map holds for even ones, whose own leaves its guards out."""
    counted: Counted = field(default_factory=Counted)
    """What the last import found of these."""
    notes: list[str] = field(default_factory=list)

    def static(self, shapes: dict[str, tuple[int, ...]], feeds: Feeds) -> BuiltModel:
        """An import of its own, into the common weights file."""
        built = self.imported(shapes, values_of(feeds), self.store)
        self.store.finish_plan(more=True)
        return built

    def imported(
        self, shapes: dict[str, tuple[int, ...]], values: dict[str, int], to: Path | Weights
    ) -> BuiltModel:
        given = GivenShapes(shapes=shapes, values=values)
        bodies: dict[str, LoopBody] | None = {} if self.keeps_loops else None
        imports = Import(
            winograd=False, any_size=True, bodies=bodies, keep_ranges=self.keeps_ranges
        )
        built = import_with(self.path, to, self.on_phase, given, self.half_weights, imports)
        self.counted = imports.counted
        return built


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
    importer = _Importer(path, Weights(weights_file), half_weights, on_phase)
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

    Raises
    ------
    ModelError, UnsupportedOpError, UserError
        With one sentence and the next step; also where a part of it is for one size alone.
    """
    if not open_dims(path):
        return None
    importer = _Importer(path, Weights(weights_file), half_weights, on_phase, keeps_loops=True)
    feeds = feeds or made_arrays(path)
    trial = Trial(path, feeds)
    if trial.doubtful:
        _check_at_hand(importer, feeds)
    _take_lengths(importer, trial, feeds)
    on_phase("trying other sizes")
    found = probe(trial, feeds)
    example = sizes_of(found.inputs, feeds)

    def compiled(variant: _Variant) -> AnySize:
        assert variant.unified is not None
        fixed, low = variant.found.fixed, {d.name: d.low for d in variant.found.dims}
        if trial.signals & low.keys() and trial.runs(least := {**fixed, **low}):
            variant.unified.check_shapes(low, trial.run(least))  # before all kernels
        form = open_form(
            variant.unified, variant.found, example, importer.store, on_phase, known, webgpu
        )
        importer.store.finish_plan(more=True)
        plan = replace(form.plan, weights_bytes=importer.store.nbytes)
        made = Compiled(plan, form.kernels, weights_file, trial, fixed, half_weights, on_phase)
        longer = ({d: at[d] for d in low} for at in trial.longer({**fixed, **example}))
        plan, notes = checked(made, (*form.ends, *variant.found.far(trial), *longer))
        return AnySize(plan, form.kernels, (*form.notes, *notes))

    made = _opened(importer, trial, found, feeds, compiled)
    if made is None:
        raise refused("none of its open dimensions takes another size")
    return replace(made, notes=(*importer.notes, *made.notes))


def _model(
    importer: _Importer, variant: _Variant | None, trial: Trial, sizes: Sizes, feeds: Feeds
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


def _variant(importer: _Importer, trial: Trial, feeds: Feeds) -> _Variant:
    _take_lengths(importer, trial, feeds)
    importer.on_phase("trying other sizes")
    found = probe(trial, feeds)
    try:
        if trial.doubtful:
            _check_at_hand(importer, feeds)
        variant = _opened(importer, trial, found, feeds, lambda variant: variant)
    except ModelError as error:
        importer.notes.append(f"{error.error} Each size was imported for itself.")
        variant = None
    return variant or _Variant(trial, found, None, {})


def _opened(
    importer: _Importer,
    trial: Trial,
    found: Probe,
    feeds: Feeds,
    made: Callable[[_Variant], _T],
) -> _T | None:
    """What is made of the program for any size, or for those in which a few dimensions stay as
    they are at hand; None where no dimension is open.

    Raises
    ------
    ModelError
        What stands in the way of all sizes, where each way is refused.
    """
    values, first = values_of(feeds), None
    last = time.thread_time() + PATIENCE_S
    both = (importer, replace(importer, keeps_ranges=True))
    ways = itertools.product(narrower(found, sizes_of(found.inputs, feeds), trial), both)
    odd = ((found, replace(way, odd=True)) for way in both)
    for narrow, way in itertools.chain(itertools.islice(ways, len(both)), odd, ways):
        if way.keeps_ranges and not importer.counted.ends:
            continue
        if way.odd and first and DIFFERENT_STEPS not in first.error:
            continue
        try:
            whole, unified, relied = _unified(way, trial, narrow, feeds)
            result = made(_Variant(trial, whole, unified, {n: values[n] for n in relied}))
        except ModelError as error:
            if isinstance(error, UnsupportedOpError) and not (first or trial.doubtful):
                _check_at_hand(importer, feeds)
            # What no kernel can count is no reason where there was another one.
            told = first if isinstance(error, UnsupportedOpError) else None
            first = told or error if narrow is found else first or error
            importer.store.finish_plan(more=True)
            if time.thread_time() > last:
                break
            continue
        for name, n in found.fixed.items():
            importer.notes.append(f"{name} is declared open, but only {n} was found to run.")
        for name in narrow.fixed.keys() - found.fixed.keys():
            why = reason(first) if first else ""
            importer.notes.append(f"{name} stays {narrow.fixed[name]}: else {why}")
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


def _check_at_hand(importer: _Importer, feeds: Feeds) -> None:
    """Refuse an operator that is refused at the sizes at hand too, or that runs at these alone."""
    try:
        _relied_at_hand(importer, feeds)
    except ModelError as error:
        if isinstance(error, UnsupportedOpError):
            raise


def _take_lengths(importer: _Importer, trial: Trial, feeds: Feeds) -> None:
    """Lengths stay as they are at hand where the program is laid out for them."""
    if trial.lengths:
        with contextlib.suppress(ModelError):  # what no import takes is told later
            trial.keep(_relied_at_hand(importer, feeds))


def _relied_at_hand(importer: _Importer, feeds: Feeds) -> frozenset[str]:
    shapes = {name: array.shape for name, array in feeds.items()}
    with tempfile.TemporaryDirectory() as folder:
        return _relied(importer.imported(shapes, values_of(feeds), Path(folder) / "weights.bin"))


def _relied(built: BuiltModel) -> frozenset[str]:
    """Inputs whose values its plan is laid out for."""
    return frozenset(p.spec.name for p in built.plan.inputs if p.value is not None)


def _unified(
    importer: _Importer,
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
    drawn = sizes_to_import(found.dims, fit.formulas, example, importer.odd, but)
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
        counted = bool(importer.counted.ends) and not importer.keeps_ranges
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
            further = sizes_to_import(found.dims, formulas, example, importer.odd, but, seed)
            if not unified.gives(further[0], imported(further[0], Path(folder) / "further.bin")):
                if len(more) == _MORE:
                    raise refused("formulas for its numbers fail at a further size")
                return _unified(importer, trial, found, feeds, but, (*more, further[0]))
        content = np.fromfile(files[0], np.uint8)
    return found, unified.in_common(importer.store, content), _relied(builts[0])
