"""A model's time in native ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class NativeNode:
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
    nodes: tuple[NativeNode, ...]
    """The longest first, medians."""
    outputs: Mapping[str, tuple[int, ...]]
    """Shapes by name."""
