"""What the user said about the open dimensions of a model's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class GivenShapes:
    """Numbers for open dimensions; what the model fixes itself must agree.

    Parameters
    ----------
    dims
        By the dimension's name in the model (``--dim batch=1``).
    shapes
        Whole shapes by input (``--shape input_ids=1,128``).
    hints
        Shapes of the arrays at hand (``--inputs``): they fill in what nobody gave.
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    hints: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "dims": dict(self.dims),
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
            "hints": {name: list(shape) for name, shape in self.hints.items()},
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> GivenShapes:
        return GivenShapes(
            document["dims"],
            {name: tuple(shape) for name, shape in document["shapes"].items()},
            {name: tuple(shape) for name, shape in document["hints"].items()},
        )
