"""The open model in other forms: imported by other choices, and run in the same page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.process.results import ImportedModel
from nnjit_studio.engine.runner.rival import RivalModel
from nnjit_studio.errors import BugError, UserError
from nnjit_studio.model import ImportOptions
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.model.memory import forecast
from nnjit_studio.model.plan_choice import PlanChoice
from nnjit_studio.records import Kernel, KernelKey, MeasurePolicy, Trial
from nnjit_studio.tuner.events import Event
from nnjit_studio.tuner.plan.rounds import KIND, PlanOptions, PlanRounds
from nnjit_studio.tuner.protocols import Records
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.page import SystemClock
from nnjit_studio.workbench.stored_plan import digest_of, plan_key

MOST_BYTES = 2 << 30
"""Of both forms together, in one page."""


class PlanForms:
    """Forms of the open model, one at a time; see :class:`nnjit_studio.tuner.plan.rounds.Forms`.

    Raises
    ------
    UserError
        When the model's plan cannot be tuned here.
    """

    def __init__(self, model: ModelOnPage) -> None:
        opened = model.current
        if opened.importing is None or len(opened.programs) > 1 or model.page.backend.is_gpu:
            raise UserError(
                "The plan of this model cannot be tuned.",
                "That takes an ONNX model of one size, on Wasm.",
            )
        self._model, self._importing = model, opened.importing
        self._digest = digest_of(opened.path, opened.importing)
        self._made: tuple[ImportedModel, ImportOptions, RivalModel, list[Kernel]] | None = None
        self.name = f"{KIND}:{opened.graph.name}#{self._digest}"
        self.flops = sum(w.uses * w.flops for w in opened.workloads)

    @property
    def key(self) -> KernelKey:
        page = self._model.page
        return plan_key(self._digest, page.connect(), page.compiler.version)

    @property
    def ways(self) -> dict[str, str]:
        return dict(self._importing.ways)

    @property
    def choices(self) -> Sequence[PlanChoice]:
        return self._model.current.program().choices

    def make(self, ways: dict[str, str]) -> None:
        """Import the model by these choices, load it next to the one that runs, with kernels."""
        page, opened = self._model.page, self._model.current
        importing, weights = replace(self._importing, ways=ways), page.weights_file()
        try:
            with page.compiler_killed_on_cancel():
                made = page.process.import_model(opened.path, weights, importing=importing)
            both = sum(forecast(plan).wasm_bytes for plan in (made.plan, opened.plan))
            if both > MOST_BYTES:
                raise UserError(f"Two forms of the model take {both / 2**20:.0f} MiB together.")
            kernels = self._model.kernels((page.connect().best_tier,), None, made.workloads)
            rival = RivalModel(page.runner, made.plan, weights)
            rival.register(kernels)
        except BaseException:
            weights.unlink(missing_ok=True)
            raise
        self._made = made, importing, rival, kernels

    def difference(self) -> float:
        """On the model's inputs, and on others where they are real numbers."""
        model, (_, _, rival, _) = self._model, self._made_now()
        return max(
            _worst(model.page.runner.infer(feeds).outputs, rival.infer(feeds).outputs)
            for feeds in _two_of(model.feeds)
        )

    def trial(self, policy: MeasurePolicy) -> Trial:
        return self._made_now()[2].trial(self._model.feeds, policy)

    def adopt(self) -> None:
        """Load the form that was made in place of the one that runs."""
        model = self._model
        made, importing, _, kernels = self._made_now()
        runner, opened, chosen = model.page.runner, model.current, model.chosen
        runner.load(made.plan, made.weights)  # in a worker of its own: the other form goes with it
        runner.register(kernels)
        programs = {name: made for name in opened.programs}
        model.adopt(replace(opened, programs=programs, importing=importing), model.feeds)
        model.chosen, model.registered = chosen, True
        self._importing, self._made = importing, None

    def drop(self) -> None:
        made, _, rival, _ = self._made_now()
        self._made = None
        rival.drop()
        made.weights.unlink(missing_ok=True)

    def _made_now(self) -> tuple[ImportedModel, ImportOptions, RivalModel, list[Kernel]]:
        if self._made is None:
            raise BugError("No other form of the model was made.")
        return self._made


def tune_plan(
    model: ModelOnPage, seconds: float | None = None, records: Records | None = None
) -> Iterator[Event]:
    """Tune the plan of the open model, which afterwards runs in the best form that was found.

    Raises
    ------
    UserError
        When the model's plan cannot be tuned here.
    """
    clock = SystemClock()
    began_s = clock.monotonic_s()
    model.stop_serving()
    model.register_best()
    forms, page = PlanForms(model), model.page
    page.begin()
    if seconds is not None:
        seconds = max(0.0, seconds - (clock.monotonic_s() - began_s))
    rounds = PlanRounds(
        forms,
        records or page.database,
        page.connect(),
        clock,
        PlanOptions(seconds, model.opening_s),
        lambda: page.cancelled,
    )
    yield from rounds.run()


def _two_of(feeds: Feeds) -> Iterator[Feeds]:
    """The inputs, and where there are floats among them others of the same size."""
    yield feeds
    rng = np.random.default_rng(1)
    drawn = {
        name: (a * rng.uniform(0.5, 1.5, a.shape)).astype(a.dtype) if a.dtype.kind == "f" else a
        for name, a in feeds.items()
    }
    if any(a.dtype.kind == "f" for a in feeds.values()):
        yield drawn


def _worst(some: Mapping[str, NDArray[Any]], others: Mapping[str, NDArray[Any]]) -> float:
    """Largest difference, relative to each tensor's largest finite magnitude."""
    worst = 0.0
    for name, left in some.items():
        a, b = left.astype(np.float64), others[name].astype(np.float64)
        if a.shape != b.shape:
            return float("inf")  # another number of things was found
        odd = ~np.isfinite(a)
        if not np.array_equal(a[odd], b[odd], equal_nan=True) or not np.isfinite(b[~odd]).all():
            return float("inf")
        scale = float(np.max(np.abs(a[~odd]), initial=0.0)) or 1.0
        worst = max(worst, float(np.max(np.abs(a[~odd] - b[~odd]), initial=0.0)) / scale)
    return worst
