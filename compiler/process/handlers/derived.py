"""Jobs that make another file of a model, and compare both."""

from __future__ import annotations

from nnjit_studio.compiler.derived.derive import derive
from nnjit_studio.compiler.derived.layers import worst_layer
from nnjit_studio.compiler.process.handlers.registry import State, handles
from nnjit_studio.compiler.process.operations import DeriveRequest, WorstLayerRequest
from nnjit_studio.model.recipe import Derived, LayerError


@handles(DeriveRequest)
def make_file(state: State, request: DeriveRequest) -> Derived:
    return derive(request.path, request.out, request.recipe, request.feeds, state.phase)


@handles(WorstLayerRequest)
def compare_layers(state: State, request: WorstLayerRequest) -> LayerError:
    return worst_layer(request.path, request.other, request.feeds)
