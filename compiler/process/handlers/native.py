"""Jobs on a model's file: native ONNX Runtime, and what the file says of its nodes."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.compiler.onnx_file.attributes import attributes_of
from nnjit_studio.compiler.oracle.native_decode import NativeDecoder
from nnjit_studio.compiler.oracle.native_profile import native_profile
from nnjit_studio.compiler.oracle.onnx_reference import OnnxReference
from nnjit_studio.compiler.process.handlers.registry import State, handles
from nnjit_studio.compiler.process.operations import (
    AttributesRequest,
    NativeDecoderRequest,
    NativeRunRequest,
    NativeTokensRequest,
    Nodes,
    ReferenceRequest,
    ReferenceTensorsRequest,
    Tensors,
)
from nnjit_studio.errors import UserError
from nnjit_studio.model.native_run import NativeRun

ENDED = "The process that runs native ONNX Runtime ended."


@dataclass
class _Open:
    """The models that are open in native ONNX Runtime."""

    reference: OnnxReference | None = None
    decoder: NativeDecoder | None = None


_OPEN = _Open()


@handles(ReferenceRequest)
def open_reference(state: State, request: ReferenceRequest) -> Nodes:
    _OPEN.reference = None  # two models at once may be too many
    _OPEN.reference = reference = OnnxReference(request.path)
    return [(name, tuple(outputs)) for name, outputs in reference.nodes]


@handles(ReferenceTensorsRequest)
def reference_tensors(state: State, request: ReferenceTensorsRequest) -> Tensors:
    if _OPEN.reference is None:
        raise UserError(
            ENDED,
            "Compare again; a model that needs more memory than there is cannot be compared.",
        )
    return _OPEN.reference.run(request.feeds, request.names)


@handles(NativeDecoderRequest)
def open_decoder(state: State, request: NativeDecoderRequest) -> None:
    _OPEN.decoder = None  # two models at once may be too many
    _OPEN.decoder = NativeDecoder(request.path, request.prompt)


@handles(NativeTokensRequest)
def compare_tokens(state: State, request: NativeTokensRequest) -> list[tuple[int, float]]:
    if _OPEN.decoder is None:
        raise UserError(ENDED, "Start the check again.")
    return [(c.id, c.deficit) for c in _OPEN.decoder.compare(request.tokens)]


@handles(NativeRunRequest)
def run_natively(state: State, request: NativeRunRequest) -> NativeRun:
    return native_profile(request.path, request.feeds)


@handles(AttributesRequest)
def attributes(state: State, request: AttributesRequest) -> dict[str, dict[str, str]]:
    return attributes_of(request.path)
