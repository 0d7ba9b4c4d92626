"""Models that were imported, ready for the page: programs, their workloads, their weights."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nnjit_studio.compiler.process.results import ImportedModel
from nnjit_studio.errors import UserError
from nnjit_studio.model import (
    Generation,
    GenerationRequest,
    Graph,
    ImportOptions,
    Plan,
    Workload,
)
from nnjit_studio.model.family import Family
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.model.memory import check_fits, forecast
from nnjit_studio.model.segments import MixedPlan
from nnjit_studio.support.phases import OnPhase, quiet
from nnjit_studio.workbench.page import EnginePage
from nnjit_studio.workbench.phases import DONE, Phases
from nnjit_studio.workbench.stored_plan import stored_ways

log = logging.getLogger(__name__)

MAIN = ""
"""The page's name of the plan that runs when none is named."""
PREFILL = "prefill"
"""The page's name of a decoder's plan that takes the first tokens of a prompt."""
EXTEND = "extend"
"""The page's name of a decoder's plan that takes tokens behind those."""


@dataclass(frozen=True)
class OpenModel:
    """A model that was imported, as one backend runs it."""

    path: Path
    programs: Mapping[str, ImportedModel]
    """By the page's name of their plans; all have the same weights. A static model has one, a
    decoder a second one where it reads a prompt at once."""
    import_ms: Mapping[str, float] = field(default_factory=dict)
    """By phase."""
    generation: Generation | None = None
    """How a text is made of a decoder's programs; None for a static model."""
    importing: ImportOptions | None = None
    """How it was imported; None where that was in another way than :func:`import_model`'s."""
    families: tuple[Family, ...] = ()
    """Of programs that are one at several sizes: the kernels with settings, in their order."""
    mixed: MixedPlan | None = None
    """How a page on WebGPU runs a static model of which some steps run in Wasm."""

    @classmethod
    def static(cls, path: Path, imported: ImportedModel, **facts: Any) -> OpenModel:
        """A model of one program."""
        return cls(path, {MAIN: imported}, **facts)

    def program(self, name: str = MAIN) -> ImportedModel:
        return self.programs[name]

    @property
    def graph(self) -> Graph:
        return self.program().graph

    @property
    def plan(self) -> Plan:
        return self.program().plan

    @property
    def other_plans(self) -> dict[str, Plan]:
        """Plans beyond the main one, by the page's names."""
        return {name: self.program(name).plan for name in self.programs if name != MAIN}

    @property
    def weights(self) -> Path:
        return self.program().weights

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """Of all programs, each once."""
        found = (w for name in self.programs for w in self.program(name).workloads)
        return tuple({w.key: w for w in found}.values())

    @property
    def shares_weights(self) -> bool:
        """Whether kernels of several programs may read one weight, and so choose together."""
        return self.generation is not None or len(self.programs) > 1

    @property
    def packable(self) -> frozenset[str]:
        """Keys of the workloads whose B is a weight that may be packed."""
        return frozenset().union(*(self.program(name).packable for name in self.programs))


def import_model(
    page: EnginePage, path: Path, on_phase: OnPhase = quiet, feeds: Feeds | None = None
) -> OpenModel:
    """Import a model as the page's backend runs it; ends soon once the page is cancelled.

    ``feeds`` are inputs at hand: their shapes settle what the page's options leave open.

    Raises
    ------
    ModelError, UserError
        Also when it was cancelled, or no page can hold the model. No weights are left then.
    """
    weights, phases = page.weights_file(), Phases(on_phase)
    with _importing(page, weights):
        # A GPU's convolutions are direct and its recurrent layers laid out; its kernels run a plan
        # with tiles and loops too.
        wasm = not page.backend.is_gpu
        hinted, tiles = page.importing.with_hints(feeds), page.importing.winograd and wasm
        importing = replace(hinted, winograd=tiles, loops=wasm)
        if not (importing.ways or page.backend.is_gpu):
            here = page.here(page.backend)
            ways = stored_ways(page.database, path, importing, here)
            importing = replace(importing, ways=ways)
        imported = page.process.import_model(path, weights, phases, importing)
        opened = OpenModel.static(path, imported, import_ms=phases.ms, importing=importing)
        _check_fits(opened, page)
    phases(DONE)
    on_phase(DONE)
    return opened


def import_sizes(
    page: EnginePage, path: Path, inputs: Sequence[Feeds], on_phase: OnPhase = quiet
) -> tuple[OpenModel, tuple[str, ...]]:
    """Import a model once for inputs of several sizes: a program for each, over one set of weights.

    Returns
    -------
    tuple
        The model, whose programs have the names of :func:`size_name`, and what a user should know.

    Raises
    ------
    ModelError, UserError
        As of :func:`import_model`.
    """
    shapes = page.importing.shapes
    if shapes.dims or shapes.shapes:
        raise UserError(
            "Several --inputs leave the model's sizes open, but --dim or --shape fixes some.",
            "Leave out --dim and --shape.",
        )
    weights = page.weights_file()
    with _importing(page, weights):
        made = page.process.import_sizes(
            path, weights, inputs, page.importing.half_weights, on_phase
        )
        programs = {size_name(i): model for i, model in enumerate(made.models)}
        opened = OpenModel(path, programs, families=made.families)
        _check_fits(opened, page)
    return opened, made.notes


def size_name(position: int) -> str:
    """The page's name of the program for these inputs."""
    return f"size {position + 1}" if position else MAIN


def import_decoder(
    page: EnginePage, path: Path, request: GenerationRequest, on_phase: OnPhase = quiet
) -> OpenModel:
    """Import a decoder: its decode program, then those that read prompts.

    Raises
    ------
    ModelError, UserError
        As of :func:`import_model`.
    """
    weights = page.weights_file()
    with _importing(page, weights):
        # Wasm would widen each element of a cache in f16 at every token.
        halves, gpu = page.importing.half_weights, page.backend.is_gpu
        request = replace(request, half_weights=halves, half_cache=gpu)
        facts, programs = page.process.import_generation(path, weights, request, on_phase)
        named = dict(zip((MAIN, PREFILL, EXTEND), programs, strict=False))
        opened = OpenModel(path, named, generation=facts)
        _check_fits(opened, page)
    return opened


@contextlib.contextmanager
def _importing(page: EnginePage, weights: Path) -> Iterator[None]:
    try:
        with page.compiler_killed_on_cancel():
            yield
    except UserError:
        weights.unlink(missing_ok=True)
        if page.cancelled:
            raise UserError("Opening the model was cancelled.") from None
        raise


def define_model(page: EnginePage, spec: str) -> OpenModel:
    """A model of one kernel, from a workload's spelling; see ``compiler.spelling``.

    Raises
    ------
    UserError
    """
    made = page.process.define_model(spec, page.weights_file())
    return OpenModel.static(Path(spec), made)


def _check_fits(opened: OpenModel, page: EnginePage) -> None:
    """Refuse what Wasm's memory cannot hold; on a GPU each weight and state has its own buffer."""
    expected = forecast(opened.plan, list(opened.other_plans.values()))
    if not page.backend.is_gpu:
        check_fits(expected)
    log.info(
        "%s will take %.1f MiB in the page, %.1f MiB of them weights",
        opened.graph.name,
        expected.total_bytes / 2**20,
        expected.weights_bytes / 2**20,
    )
