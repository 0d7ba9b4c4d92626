"""A model that was imported, ready for the page."""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.process.client import CompileProcess, ImportedModel
from nnjit_studio.errors import UserError
from nnjit_studio.model import NUMPY_DTYPES, Graph, Plan, TensorSpec, Workload
from nnjit_studio.model.memory import check_fits, forecast
from nnjit_studio.records.backend import Backend

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OpenedModel:
    """A model that was imported, as one backend runs it; ``import_ms`` by phase.

    ``forms`` has it by the backend's name, where backends run other steps.
    """

    path: Path
    graph: Graph
    workloads: tuple[Workload, ...]
    plan: Plan
    weights: Path
    packable: frozenset[str]
    import_ms: dict[str, float] = field(default_factory=dict)
    forms: Mapping[str, ImportedModel] = field(default_factory=dict)

    def on(self, backend: Backend) -> OpenedModel:
        """The model as this backend runs it: the same weights, buffers, inputs and outputs."""
        form = self.forms.get(backend.name)
        if form is None:
            return self
        return replace(
            self,
            graph=form.graph,
            workloads=form.workloads,
            plan=form.plan,
            packable=form.packable,
        )


@contextlib.contextmanager
def killed_on_cancel(compiler: CompileProcess, cancelled: Callable[[], bool]) -> Iterator[None]:
    """Within the block, the compile process is killed soon after ``cancelled`` says so."""

    def watch() -> None:
        while not stop.wait(0.1):
            if cancelled():
                compiler.kill()
                return

    stop = threading.Event()
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


def import_model(
    compiler: CompileProcess,
    path: Path,
    weights: Path,
    cancelled: Callable[[], bool],
    on_phase: Callable[[str], None],
    winograd: bool = True,
) -> OpenedModel:
    """Import a file, its weights to ``weights``; ends soon once it is cancelled.

    ``winograd`` allows convolutions in tiles.

    Raises
    ------
    ModelError, UserError
        Also when it was cancelled, or no page can hold the model. No weights are left then.
    """
    phases: list[tuple[str, float]] = []

    def note(phase: str) -> None:
        phases.append((phase, time.perf_counter()))
        on_phase(phase)

    try:
        with killed_on_cancel(compiler, cancelled):
            imported = compiler.import_model(path, weights, note, winograd)
        expected = forecast(imported.plan)
        check_fits(expected)
        log.info(
            "%s will take %.1f MiB in the page, %.1f MiB of them weights",
            imported.graph.name,
            expected.total_bytes / 2**20,
            expected.weights_bytes / 2**20,
        )
    except UserError:
        weights.unlink(missing_ok=True)
        if cancelled():
            raise UserError("Opening the model was cancelled.") from None
        raise
    note("done")
    return OpenedModel(
        path,
        imported.graph,
        imported.workloads,
        imported.plan,
        weights,
        imported.packable,
        {a[0]: (b[1] - a[1]) * 1e3 for a, b in itertools.pairwise(phases)},
        {"wasm": imported, "webgpu": imported.gpu} if imported.gpu else {},
    )


def example_feeds(inputs: Sequence[TensorSpec]) -> dict[str, NDArray[Any]]:
    """Inputs to run a model on when none are given.

    Integers are ones (a valid index almost everywhere, and an open mask);
    floats are seeded uniform numbers in [-1, 1).
    """
    rng = np.random.default_rng(0)
    feeds: dict[str, NDArray[Any]] = {}
    for spec in inputs:
        dtype = NUMPY_DTYPES[spec.dtype]
        drawn = rng.uniform(-1, 1, spec.shape) if dtype.kind == "f" else np.ones(spec.shape)
        feeds[spec.name] = drawn.astype(dtype)
    return feeds
