"""How a file is derived from another ONNX file: a model made smaller or cheaper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

INT8_DYNAMIC, INT8_STATIC, FOUR_BIT = "int8-dynamic", "int8-static", "4-bit"
OUTPUTS, CONSTANTS = "outputs", "constants"
HALVED = "halved"
INT8_ROWS = "int8-rows"


@dataclass(frozen=True)
class Recipe:
    """What is done to a file."""

    kind: str
    """``int8-dynamic``, ``int8-static``, ``4-bit``: weights quantised by ONNX Runtime's tools;
    ``int8-rows``: products in 8 bits with a scale for each row, as many as keep ``max_error``;
    ``outputs``: only some outputs kept; ``constants``: inputs made constants; ``halved``: weights
    rounded to f16, to tell which layer minds."""
    outputs: tuple[str, ...] = ()
    """Names of those that are kept."""
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Values of inputs, by name."""
    max_error: float = 0.0
    """Of the outputs on the inputs at hand, the largest difference over the largest value."""


@dataclass(frozen=True)
class Derived:
    """A file that was made by a recipe."""

    nodes: int
    """So many were changed, added or cut: 0 means that the recipe found nothing to do."""
    nbytes: int
    """Of the file."""
    note: str = ""
    """What a user should know of it, as a sentence."""


@dataclass(frozen=True)
class LayerError:
    """The layer of a derived file that errs most on what the original feeds it."""

    name: str
    max_rel: float
    """Largest difference over the largest value of its output."""
    compared: int
    """So many layers have a tensor of that name in both files."""
