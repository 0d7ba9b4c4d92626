"""A model's time in ONNX Runtime, by node, and what it computes natively."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class NodeTime:
    """One node of the runtime's optimised graph."""

    name: str
    op: str
    ms: float


@dataclass(frozen=True)
class NativeRun:
    """On one thread, after a first run."""

    ms: float
    """Median of the whole runs."""
    runs: int
    nodes: tuple[NodeTime, ...]
    """The longest first, medians."""
    outputs: Mapping[str, NDArray[Any]]
    """By name; what is no array, such as a sequence, is left out."""
