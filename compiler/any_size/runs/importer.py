"""Imports of one model at single sizes, and what the plan at those at hand relies on."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from nnjit_studio.compiler.any_size.inputs import Feeds
from nnjit_studio.compiler.any_size.runs.trial import Trial
from nnjit_studio.compiler.importer.buffers import Weights
from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.compiler.importer.model import import_with
from nnjit_studio.compiler.importer.onnx.control.bodies import LoopBody
from nnjit_studio.compiler.importer.onnx.walk import Counted
from nnjit_studio.compiler.importer.passes import AROUND_BYTES, Import
from nnjit_studio.errors import ModelError, UnsupportedOpError
from nnjit_studio.model import GivenShapes
from nnjit_studio.model.feeds import values_of
from nnjit_studio.support.phases import OnPhase


@dataclass(frozen=True)
class Form:
    """How a model is imported for any size."""

    keeps_ranges: bool = False
    """Whether a Range over a size is computed with all that follows, where else it is folded."""
    odd: bool = False
    """Whether it is imported at odd sizes alone, as far as these may be: the code of windows that
    look beyond the end of an odd map holds for even ones, whose own leaves its guards out."""
    joins_apart: bool = False
    """Whether tensors are joined by kernels of their own."""
    numbers_apart: bool = False
    """Whether numbers and sums around bytes are computed by calls of their own."""


@dataclass
class Importer:
    """Imports one model at several sizes, over one weights file."""

    path: Path
    store: Weights
    half_weights: bool
    on_phase: OnPhase
    keeps_loops: bool = False
    """Whether Loop and Scan stay loops: no static program has any."""
    form: Form = field(default_factory=Form)
    counted: Counted = field(default_factory=Counted)
    """What the last import found of these."""
    merges: bool = False
    """Whether the last import has numbers around bytes that are part of other calls."""
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
            winograd=False,
            any_size=True,
            bodies=bodies,
            keep_ranges=self.form.keeps_ranges,
            joins_apart=self.form.joins_apart,
            numbers_apart=self.form.numbers_apart,
        )
        built = import_with(self.path, to, self.on_phase, given, self.half_weights, imports)
        self.counted = imports.counted
        self.merges = any(p.name in AROUND_BYTES and p.after < p.before for p in imports.done)
        return built


def check_at_hand(importer: Importer, feeds: Feeds) -> None:
    """Refuse an operator that is refused at the sizes at hand too, or that runs at these alone."""
    try:
        _relied_at_hand(importer, feeds)
    except ModelError as error:
        if isinstance(error, UnsupportedOpError):
            raise


def take_lengths(importer: Importer, trial: Trial, feeds: Feeds) -> None:
    """Lengths stay as they are at hand where the program is laid out for them."""
    if trial.lengths:
        with contextlib.suppress(ModelError):  # what no import takes is told later
            trial.keep(_relied_at_hand(importer, feeds))


def _relied_at_hand(importer: Importer, feeds: Feeds) -> frozenset[str]:
    shapes = {name: array.shape for name, array in feeds.items()}
    with tempfile.TemporaryDirectory() as folder:
        return relied_on(importer.imported(shapes, values_of(feeds), Path(folder) / "weights.bin"))


def relied_on(built: BuiltModel) -> frozenset[str]:
    """Inputs whose values its plan is laid out for."""
    return frozenset(p.spec.name for p in built.plan.inputs if p.value is not None)
