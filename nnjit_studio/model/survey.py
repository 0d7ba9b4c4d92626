"""A model's file as it is, before any import: inputs with their open axes, and the raw graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nnjit_studio.model.graph import Graph, Workload


@dataclass(frozen=True)
class InputPort:
    """One input of a file; a dimension without a number is open."""

    name: str
    dtype: str
    """As NumPy calls it, such as ``float32``; ``object`` for text."""
    dims: tuple[int | str, ...] | None
    """A number or a name for each axis, None where the file does not say the rank. What has no
    name in the file goes by its place: ``x.2``."""
    readers: tuple[str, ...] = ()
    """The first operators that compute with it, beyond those that only move or scale it."""
    channels: int = 0
    """What the weights of the first convolution read, 0 where none reads the input."""
    window: int = 0
    """Spatial dimensions of that convolution: 1 of a sound, 2 of a picture."""

    @property
    def is_number(self) -> bool:
        """Whether it holds one element at every size."""
        return self.dims is not None and all(d == 1 for d in self.dims)


@dataclass(frozen=True)
class Obstacle:
    """An operator that the importer has no rule for."""

    op: str
    nodes: tuple[str, ...]
    """Names of the nodes that use it, in the file's order."""
    why: str


@dataclass(frozen=True)
class Survey:
    """What can be told of a file within a second."""

    path: Path
    sha256: str
    """Of the file's bytes, 64 hex digits; external data is not in it."""
    nbytes: int
    """Of the weights."""
    opset: int
    inputs: tuple[InputPort, ...]
    graph: Graph
    """Nothing is folded or fused; the nodes of a branch have its path in their names."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Notes of the exporter, such as the size of its training pictures."""

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """None: nothing was imported yet."""
        return ()

    @property
    def open_dims(self) -> tuple[str, ...]:
        """The names of all open dimensions, each once."""
        named = (d for p in self.inputs for d in p.dims or () if isinstance(d, str))
        return tuple(dict.fromkeys(named))
