"""The model after import: tensors, nodes, graph and workloads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

NUMPY_DTYPES: dict[str, np.dtype[Any]] = {
    "f32": np.dtype("<f4"),
    "f16": np.dtype("<f2"),
    "i64": np.dtype("<i8"),
    "i32": np.dtype("<i4"),
    "i8": np.dtype("i1"),
    "u8": np.dtype("u1"),
    "bool": np.dtype("?"),
}
"""How a tensor's elements lie in memory and in frames: little endian."""

DTYPE_BYTES = {name: dtype.itemsize for name, dtype in NUMPY_DTYPES.items()}


@dataclass(frozen=True)
class TensorSpec:
    """Name, shape and dtype of one tensor; every dimension is static."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True)
class Workload:
    """One tensor computation with fixed shapes and dtype."""

    kind: str
    """``matmul``, ``batch_matmul`` (with ``_dot`` where B lies along the reduction) or the name
    of another fused operator."""
    dims: tuple[int, ...]
    """``matmul``: M, K, N. ``batch_matmul``: batch, M, K, N. Others: the shape of the output."""
    dtype: str
    """Of the output."""
    epilogue: tuple[str, ...] = ()
    """What is fused behind the kernel, in order, such as ``("bias", "gelu")``."""
    fingerprint: str = ""
    """First 12 hex digits of the sha256 of the tensor IR: tells apart workloads of equal name
    and unequal code."""
    uses: int = 1
    """How many nodes of the model run it."""
    flops: int = 0
    """Floating-point operations of one run."""
    tunable: bool = False
    """Whether a schedule template, and so a lite space, exists for it."""

    @property
    def name(self) -> str:
        """``kind:dims:dtype``, with ``+epilogue`` where something is fused."""
        dims = "x".join(map(str, self.dims))
        return "+".join((f"{self.kind}:{dims}:{self.dtype}", *self.epilogue))

    @property
    def key(self) -> str:
        """Unique within any set of models: the name and the fingerprint."""
        return f"{self.name}#{self.fingerprint}"


@dataclass(frozen=True)
class Node:
    """One step of the model after fusion; it runs one kernel."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    workload: str
    source: tuple[str, ...] = ()
    """Names of the ONNX nodes that were fused into it."""
    flops: int = 0


@dataclass(frozen=True)
class GraphPass:
    """A pass of the import; the model was of so many ``unit``, such as ``nodes``, around it."""

    name: str
    unit: str
    before: int
    after: int


@dataclass(frozen=True)
class Graph:
    """The fused model: nodes in order of execution and all tensors they name.

    ``passes`` are those of the import, in order; none of a graph that was not imported.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    tensors: Mapping[str, TensorSpec]
    passes: tuple[GraphPass, ...] = ()
