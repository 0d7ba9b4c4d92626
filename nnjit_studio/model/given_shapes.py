"""The user's numbers for the open dimensions of a model's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
    values
        Values of whole-number inputs of one element at hand. A plan is laid out for one where
        control flow depends on it, such as on a sampling rate.
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    hints: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)
