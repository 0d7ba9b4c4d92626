"""Jobs on a model's file: native ONNX Runtime, and what the file says of its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.compiler.onnx_file.attributes import attributes_of
from nnjit_studio.compiler.oracle.native_decode import NativeDecoder
from nnjit_studio.compiler.oracle.native_profile import native_profile
from nnjit_studio.compiler.oracle.onnx_reference import OnnxReference
from nnjit_studio.compiler.process.handlers.registry import State
from nnjit_studio.errors import UserError
from nnjit_studio.model.native_run import NativeRun

ENDED = "The process that runs native ONNX Runtime ended."


@dataclass
class _Open:
    """The models that are open in native ONNX Runtime."""

    reference: OnnxReference | None = None
    decoder: NativeDecoder | None = None


_OPEN = _Open()


def open_reference(state: State, path: Path) -> list[tuple[str, tuple[str, ...]]]:
    _OPEN.reference = None  # two models at once may be too many
    _OPEN.reference = reference = OnnxReference(path)
    return [(name, tuple(outputs)) for name, outputs in reference.nodes]


def reference_tensors(
    state: State, feeds: Mapping[str, NDArray[Any]], names: Sequence[str]
) -> dict[str, NDArray[Any]]:
    if _OPEN.reference is None:
        raise UserError(
            ENDED,
            "Compare again; a model that needs more memory than there is cannot be compared.",
        )
    return _OPEN.reference.run(feeds, names)


def native_decoder(state: State, path: Path, prompt: Sequence[int], half_cache: bool) -> None:
    _OPEN.decoder = None  # two models at once may be too many
    _OPEN.decoder = NativeDecoder(path, prompt, half_cache)


def native_tokens(state: State, tokens: Sequence[int]) -> list[tuple[int, float]]:
    if _OPEN.decoder is None:
        raise UserError(ENDED, "Start the check again.")
    return [(c.id, c.deficit) for c in _OPEN.decoder.compare(tokens)]


def native_run(state: State, path: Path, feeds: Mapping[str, NDArray[Any]]) -> NativeRun:
    return native_profile(path, feeds)


def onnx_attributes(state: State, path: Path) -> dict[str, dict[str, str]]:
    return attributes_of(path)
