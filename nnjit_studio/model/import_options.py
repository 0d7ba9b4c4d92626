"""The choices of a user that shape the import of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.model.feeds import values_of
from nnjit_studio.model.given_shapes import GivenShapes


@dataclass(frozen=True)
class ImportOptions:
    """How a model is imported."""

    shapes: GivenShapes = field(default_factory=GivenShapes)
    """Numbers for the open dimensions of its inputs."""
    winograd: bool = True
    """Whether 3x3 convolutions may run in tiles."""
    half_weights: bool = False
    """Whether weights are rounded to f16 where that is cheap to read."""
    ways: Mapping[str, str] = field(default_factory=dict)
    """Choices made otherwise than by their rules: see :mod:`.plan_choice`."""
    loops: bool = True
    """Whether recurrent layers are loops over their steps wherever that suits Wasm."""

    def with_hints(self, arrays: Mapping[str, NDArray[Any]] | None) -> ImportOptions:
        """The same, where the inputs at hand settle what no option gave."""
        if arrays is None:
            return self
        hints = {name: array.shape for name, array in arrays.items()}
        return replace(self, shapes=replace(self.shapes, hints=hints, values=values_of(arrays)))
