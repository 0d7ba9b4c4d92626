"""Jobs on models: their import, and their graph as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.compiler import importer
from nnjit_studio.compiler.any_size import imports
from nnjit_studio.compiler.any_size.arrays import fitting
from nnjit_studio.compiler.importer import BuiltModel, generation
from nnjit_studio.compiler.importer import obstacles as in_the_way
from nnjit_studio.compiler.process.handlers.registry import State
from nnjit_studio.compiler.process.operations import Code, CompiledAnySize
from nnjit_studio.compiler.process.results import ImportedModel, ImportedSizes
from nnjit_studio.model import Generation, GenerationRequest, ImportOptions
from nnjit_studio.model.survey import Obstacle
from nnjit_studio.records.size_tuning import KnownSettings


def import_model(
    state: State, path: Path, weights: Path, importing: ImportOptions
) -> ImportedModel:
    built = importer.import_model(
        path, weights, state.phase, importing.shapes, importing.winograd, importing.half_weights,
        importing.ways, importing.loops,
    )  # fmt: skip
    return kept(state, built, weights)


def obstacles(state: State, path: Path) -> tuple[Obstacle, ...]:
    return in_the_way.obstacles(path)


def import_generation(
    state: State, path: Path, weights: Path, request: GenerationRequest
) -> tuple[Generation, list[ImportedModel]]:
    built = generation.import_generation(path, weights, request, state.phase)
    forms = (built.decode, built.prefill, built.extend)
    return built.facts, [kept(state, form, weights) for form in forms if form is not None]


def import_sizes(
    state: State,
    path: Path,
    weights: Path,
    inputs: Sequence[Mapping[str, NDArray[Any]]],
    half_weights: bool,
) -> ImportedSizes:
    made = imports.import_sizes(path, weights, inputs, half_weights, state.phase)
    models = tuple(kept(state, built, weights) for built in made.models)
    return ImportedSizes(models, made.notes, made.families)


def compile_any_size(
    state: State,
    path: Path,
    weights: Path,
    inputs: Mapping[str, NDArray[Any]],
    half_weights: bool,
    guessed: bool,
    known: KnownSettings,
    webgpu: bool,
) -> CompiledAnySize | None:
    feeds = fitting(path, inputs) if guessed else inputs
    how = (half_weights, state.phase, known, webgpu, guessed)
    made = imports.import_any(path, weights, feeds, *how)
    if made is None:
        return None
    code = tuple((kernel.workload, Code.of(kernel)) for kernel in made.kernels)
    return CompiledAnySize(json.dumps(made.plan.to_json()), code, made.notes)


def graph_text(state: State, path: Path, dump_after: str, importing: ImportOptions) -> str:
    return importer.graph_text(
        path, dump_after, importing.shapes, importing.winograd, importing.half_weights
    )


def kept(state: State, built: BuiltModel, weights: Path) -> ImportedModel:
    """A model without its programs, which are kept."""
    state.keep(built.programs)
    packable = frozenset(built.packable)
    facts = built.graph, built.workloads, built.plan, packable, weights
    return ImportedModel(*facts, built.choices)
