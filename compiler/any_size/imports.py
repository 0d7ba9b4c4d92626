"""Import of a model for several sizes over one weights file: one program for all where it can be.

A model whose steps change with its sizes (a recurrent layer that is laid out) is imported for each
size instead, and the result says so.
"""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from nnjit_studio.compiler.any_size.constants import made_constants
from nnjit_studio.compiler.any_size.fit import Fit, Numbers, Vector
from nnjit_studio.compiler.any_size.probe import Feeds, Probe, Sizes, Trial, probe, sizes_of
from nnjit_studio.compiler.any_size.unified import Unified, refused, unify
from nnjit_studio.compiler.importer.buffers import Weights
from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.compiler.importer.model import import_with
from nnjit_studio.compiler.importer.passes import Import
from nnjit_studio.errors import ModelError
from nnjit_studio.model import GivenShapes
from nnjit_studio.model.feeds import values_of
from nnjit_studio.model.size import Size

IMPORTS = 4
"""Sizes at which a model is imported: three decide a formula, the fourth may refuse it."""
_DRAWS = 40
_SCALES = (1, 2, 4, 8, 16)
_FAR = 64


@dataclass(frozen=True)
class ManySizes:
    """One static form for each of the given inputs, over one weights file."""

    models: tuple[BuiltModel, ...]
    notes: tuple[str, ...]
    """What a user should know: dimensions that turned out fixed, sizes imported for themselves."""


@dataclass
class _Importer:
    path: Path
    store: Weights
    half_weights: bool
    on_phase: Callable[[str], None]
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
        imports = Import(winograd=False, any_size=True)
        built = import_with(self.path, to, self.on_phase, given, self.half_weights, imports)
        return replace(built, gpu=None)


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
        ranges = all(
            sizes[d.name] >= d.low and sizes[d.name] % d.step == 0 for d in self.found.dims
        )
        given = values_of(feeds)
        return same and ranges and all(given.get(n) == v for n, v in self.values.items())


def import_sizes(
    path: Path,
    weights_file: Path,
    inputs: Sequence[Feeds],
    half_weights: bool = False,
    on_phase: Callable[[str], None] = lambda phase: None,
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
    for feeds in inputs:
        trial = Trial(path, feeds)
        sizes = sizes_of(trial.inputs, feeds)
        variant = next((v for v in variants if v.takes(feeds)), None)
        if variant is None:
            variant = _variant(importer, trial, feeds)
            variants.append(variant)
        models.append(_model(importer, variant, trial, sizes, feeds))
    nbytes = importer.store.nbytes
    whole = (replace(m, plan=replace(m.plan, weights_bytes=nbytes)) for m in models)
    return ManySizes(tuple(whole), tuple(dict.fromkeys(importer.notes)))


def _model(
    importer: _Importer, variant: _Variant, trial: Trial, sizes: Sizes, feeds: Feeds
) -> BuiltModel:
    """At one size, checked against the shapes that ONNX Runtime gives there."""
    shapes = trial.run(sizes)
    if variant.unified is not None:
        made = variant.unified.at(
            {d.name: sizes[d.name] for d in variant.found.dims}, importer.store
        )
        importer.store.finish_plan(more=True)
        if all(port.spec.shape == shapes[port.spec.name] for port in made.plan.outputs):
            return made
        importer.notes.append(f"No formula holds at {_text(sizes)}: imported for itself.")
    given = {name: shapes[name] for name in trial.inputs}
    return importer.static(given, feeds)


def _variant(importer: _Importer, trial: Trial, feeds: Feeds) -> _Variant:
    importer.on_phase("trying other sizes")
    found = probe(trial, feeds)
    values = values_of(feeds)
    while found.dims:
        try:
            unified, relied = _unified(importer, found, values)
            for name, n in found.fixed.items():
                importer.notes.append(f"{name} is declared open, but only {n} was found to run.")
            return _Variant(trial, found, unified, {n: values[n] for n in relied})
        except ModelError as error:
            far = [d for d in found.dims if d.low >= _FAR]
            if not far:
                importer.notes.append(f"{error.error} Each size was imported for itself.")
                break
            # Larger sizes run, but in other steps: a network for windows of one length.
            last = max(far, key=lambda d: d.low)
            found = found.without(last, sizes_of(found.inputs, feeds)[last.name])
    return _Variant(trial, found, None, {})


def _unified(
    importer: _Importer, found: Probe, values: dict[str, int]
) -> tuple[Unified, frozenset[str]]:
    fit = Fit(found.dims, found.samples)
    fit.learn(found.vectors())
    at = _import_sizes(found, list(fit.found.values()))
    atoms: dict[Vector, Size] = {}
    for formula in fit.found.values():
        atoms.setdefault(tuple(formula.at(sizes) for sizes in at), formula)
    builts = []
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{i}.bin" for i in range(len(at))]
        for sizes, file in zip(at, files, strict=True):
            builts.append(importer.imported(found.input_shapes(sizes), values, file))
            if len(builts[-1].plan.steps) != len(builts[0].plan.steps):
                raise refused("its steps differ from size to size")
        constants = made_constants(builts, files)
        unified = unify(builts, Numbers(atoms), constants)
        content = np.fromfile(files[0], np.uint8)
    relied = frozenset(p.spec.name for p in builts[0].plan.inputs if p.value is not None)
    return unified.over(importer.store, content), relied


def _import_sizes(found: Probe, atoms: Sequence[Size]) -> list[dict[str, int]]:
    """Sizes at which no atom is 1, and at which formulas that differ are told apart."""
    rng = random.Random(1)
    best: tuple[int, list[dict[str, int]]] | None = None
    for scale, _ in itertools.product(_SCALES, range(_DRAWS)):
        drawn = [
            {d.name: max(d.low, d.step * rng.randint(2 * scale, 8 * scale + 4)) for d in found.dims}
            for _ in range(IMPORTS)
        ]
        rows = [tuple(a.at(sizes) for sizes in drawn) for a in atoms]
        apart = all(len(set(sizes.values())) == len(sizes) for sizes in drawn)
        if not apart or any(min(row) < 2 for row in rows):
            continue
        alike = sum(_alike(a, b) for a, b in itertools.combinations(rows, 2))
        if best is None or alike < best[0]:
            best = alike, drawn
        if not alike:
            break
    if best is None:
        raise ModelError("No sizes were found to import the model at.", "Fix its sizes with --dim.")
    return best[1]


def _alike(a: Vector, b: Vector) -> bool:
    """Whether one is a multiple of the other plus a constant."""
    x, y = [n - a[0] for n in a[1:]], [n - b[0] for n in b[1:]]
    return all(p * y[0] == q * x[0] for p, q in zip(x, y, strict=True))


def _text(sizes: Sizes) -> str:
    return ", ".join(f"{name}={n}" for name, n in sizes.items())
