"""Jobs on models: their import, and their graph as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from nnjit_studio.compiler.any_size.arrays import fitting
from nnjit_studio.compiler.any_size.imports import import_any, import_sizes
from nnjit_studio.compiler.importer import BuiltModel, graph_text, import_model
from nnjit_studio.compiler.importer.generation import import_generation
from nnjit_studio.compiler.importer.obstacles import obstacles
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.process.handlers.registry import State, handles
from nnjit_studio.compiler.process.operations import (
    Code,
    GraphTextRequest,
    ImportAnySizeRequest,
    Imported,
    ImportedAnySize,
    ImportedGeneration,
    ImportedSizes,
    ImportGenerationRequest,
    ImportRequest,
    ImportSizesRequest,
    ObstaclesRequest,
)
from nnjit_studio.compiler.process.results import ImportedModel
from nnjit_studio.model.survey import Obstacle


@handles(ImportRequest)
def import_onnx(state: State, request: ImportRequest) -> Imported:
    weights, given = request.weights, request.importing
    built = import_model(
        request.path, weights, state.phase, given.shapes, given.winograd, given.half_weights,
        given.ways, given.loops,
    )  # fmt: skip
    model, programs = described(built, weights)
    return Imported(state.keep(programs), model)


@handles(ObstaclesRequest)
def obstacles_of_file(state: State, request: ObstaclesRequest) -> tuple[Obstacle, ...]:
    return obstacles(request.path)


@handles(ImportGenerationRequest)
def import_decoder(state: State, request: ImportGenerationRequest) -> ImportedGeneration:
    built = import_generation(request.path, request.weights, request.wanted, state.phase)
    forms = (built.decode, built.prefill, built.extend)
    plans = [described(b, request.weights) for b in forms if b is not None]
    programs = {key: program for _, found in plans for key, program in found.items()}
    models = tuple(model for model, _ in plans)
    return ImportedGeneration(state.keep(programs), built.facts, models)


@handles(ImportSizesRequest)
def import_for_sizes(state: State, request: ImportSizesRequest) -> ImportedSizes:
    path, weights = request.path, request.weights
    made = import_sizes(path, weights, request.inputs, request.half_weights, state.phase)
    plans = [described(built, weights) for built in made.models]
    programs = {key: program for _, found in plans for key, program in found.items()}
    return ImportedSizes(state.keep(programs), tuple(model for model, _ in plans), made.notes)


@handles(ImportAnySizeRequest)
def import_for_any_size(state: State, request: ImportAnySizeRequest) -> ImportedAnySize:
    path, weights, feeds = request.path, request.weights, request.inputs
    if request.guessed:
        feeds = fitting(path, feeds)
    half, winners = request.half_weights, request.winners
    made = import_any(path, weights, feeds, half, state.phase, winners, request.webgpu)
    if made is None:
        return ImportedAnySize("")
    code = tuple(
        (k.workload, Code(k.tier, k.data, k.sha256, k.panels, k.parallel_extent))
        for k in made.kernels
    )
    return ImportedAnySize(json.dumps(made.plan.to_json()), code, made.notes)


@handles(GraphTextRequest)
def text_after_pass(state: State, request: GraphTextRequest) -> str:
    given = request.importing
    return graph_text(
        request.path, request.dump_after, given.shapes, given.winograd, given.half_weights
    )


def described(built: BuiltModel, weights: Path) -> tuple[ImportedModel, Mapping[str, Program]]:
    """A model without its programs, and they."""
    packable = frozenset(built.packable)
    facts = built.graph, built.workloads, built.plan, packable, weights
    return ImportedModel(*facts, built.choices), built.programs
