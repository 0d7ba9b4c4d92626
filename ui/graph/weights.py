"""The weights of one node, read from the file that its page got. Knows no Qt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnjit_studio.model import NUMPY_DTYPES, Graph, Node, Plan
from nnjit_studio.model.plan import HALF_SCALE

BINS = 48
MOST = 1 << 22
"""Numbers of a weight that are looked at: of a larger one every second, third, and so on."""


@dataclass(frozen=True)
class Histogram:
    """How a weight's stored numbers are spread."""

    tensor: str
    shape: tuple[int, ...]
    dtype: str
    counts: tuple[int, ...]
    """By bins of equal width from ``low`` to ``high``, over what is finite."""
    low: float
    high: float
    mean: float
    std: float
    zeros: int
    """How many are zero."""
    strange: int
    """How many are NaN or infinite."""
    every: int
    """1, or that one number in so many was looked at."""


def weights_of(graph: Graph, plan: Plan, node: Node) -> list[tuple[str, int]]:
    """Name and plan buffer of each weight that a node reads."""
    calls = [step for step in plan.steps if step.op == "call"]
    args = next((step.args for step in calls if step.node == node.name), ())
    return [
        (name, buffer)
        for name, buffer in zip(node.inputs, args, strict=False)
        if plan.buffers[buffer].region == "weight"
    ]


def histograms(file: Path, graph: Graph, plan: Plan, node: Node) -> list[Histogram]:
    """One for each weight of a node; constants of a single number are left out.

    Raises
    ------
    OSError
        When the file cannot be read.
    """
    found = []
    for name, buffer in weights_of(graph, plan, node):
        spec = graph.tensors[name]
        place = plan.buffers[buffer]
        if spec.size < 2 or spec.nbytes > place.nbytes:
            continue
        every = -(-spec.size // MOST)
        stored = np.memmap(file, NUMPY_DTYPES[spec.dtype], "r", place.offset, (spec.size,))
        values = stored[::every].astype(np.float64) / (HALF_SCALE if spec.dtype == "f16" else 1)
        finite = values[np.isfinite(values)]
        counts, ends = np.histogram(finite, BINS)
        found.append(
            Histogram(
                name,
                spec.shape,
                spec.dtype,
                tuple(counts.tolist()),
                float(ends[0]),
                float(ends[-1]),
                float(finite.mean()) if finite.size else 0.0,
                float(finite.std()) if finite.size else 0.0,
                int((finite == 0).sum()),
                int(values.size - finite.size),
                every,
            )
        )
    return found
