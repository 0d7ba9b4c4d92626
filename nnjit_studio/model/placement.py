"""Which device runs each step of a plan, so that steps and copies together take the least time.

After section 3.4 of the Nimble paper: what has no kernel for the GPU runs in Wasm, everything else
on the GPU. Where times of both were measured, a step may run in Wasm too if that saves more than
its copies cost: the cheapest division is a minimum cut between both devices.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nnjit_studio.model.graph import Node
from nnjit_studio.model.plan import Plan, PlanStep

Device = Literal["webgpu", "wasm"]
GPU: Device = "webgpu"
CPU: Device = "wasm"
NEVER = math.inf
"""Ms of a step that a device cannot run."""
_TICKS_PER_MS = 10_000
"""A cut counts in whole ticks of 0.1 us."""
_MOST_TICKS = 1 << 30
"""SciPy's cuts have 32 bits: longer than any plan, and the edge that is never cut."""


@dataclass(frozen=True)
class Work:
    """A step: what it reads and writes, buffers of the plan that are no weights, and its ms."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    gpu_ms: float = 0.0
    """:data:`NEVER` where it has no kernel."""
    wasm_ms: float = NEVER
    """:data:`NEVER` where it was not measured and has a kernel for the GPU."""


@dataclass(frozen=True)
class CopyCost:
    """What it takes to have a tensor on the other device, as measured where the model runs."""

    down_ms: float = 0.3
    """To wait for the GPU and read back, for each tensor."""
    up_ms: float = 0.05
    bytes_per_ms: float = 1e6
    """An NVIDIA H200 gave Chromium 4 MB in 4 ms."""

    def ms(self, nbytes: int, to: Device) -> float:
        return (self.up_ms if to == GPU else self.down_ms) + nbytes / self.bytes_per_ms


def works(
    plan: Plan,
    nodes: Sequence[Node],
    on_gpu: Collection[str],
    measured: Mapping[str, tuple[float, float]] | None = None,
) -> list[Work] | None:
    """The steps of a plan; None where it has others than calls, or state.

    Parameters
    ----------
    nodes
        Of the graph, one for each step.
    on_gpu
        Keys of the workloads that have a kernel for the GPU.
    measured
        Ms on the GPU and in Wasm, by the key of a workload.
    """
    calls = calls_of(plan)
    if plan.state_bytes or len(calls) != len(nodes):
        return None
    # What says how large an output is must be in Wasm's memory with it.
    found = {b for p in plan.outputs if p.found for b in (p.buffer, p.found.count)}
    written: set[int] = set()
    result = []
    for step, node in zip(calls, nodes, strict=True):
        count, last = len(node.inputs), len(node.inputs) + len(node.outputs)
        writes = dict.fromkeys(step.args[count:last])
        # A buffer that was written before keeps what this step does not write.
        read = dict.fromkeys((*step.args[:count], *(b for b in writes if b in written)))
        reads = tuple(b for b in read if plan.buffers[b].region != "weight")
        written.update(writes)
        gpu_ms, wasm_ms = (measured or {}).get(step.workload, (0.0, NEVER))
        if step.workload not in on_gpu or found.intersection(writes):
            gpu_ms, wasm_ms = NEVER, (0.0 if wasm_ms == NEVER else wasm_ms)
        result.append(Work(reads, tuple(writes), gpu_ms, wasm_ms))
    return result


def calls_of(plan: Plan) -> list[PlanStep]:
    """The steps that call a kernel, all there are but ``return``; none of a plan with others."""
    calls = [step for step in plan.steps if step.op == "call"]
    return calls if len(calls) + 1 == len(plan.steps) else []


def place(
    steps: Sequence[Work],
    nbytes: Mapping[int, int],
    inputs: Sequence[int] = (),
    outputs: Sequence[int] = (),
    cost: CopyCost | None = None,
) -> list[Device]:
    """The device of each step, with which steps and copies together take the least time.

    Each buffer is copied once to a device that reads it and did not write it. Of equally fast
    divisions the one with the most steps on the GPU is taken.

    Parameters
    ----------
    nbytes
        Of each buffer.
    inputs, outputs
        Buffers that come from the page, and go there: it is with Wasm.
    """
    if not any(math.isfinite(s.wasm_ms) for s in steps):
        return [GPU] * len(steps)
    cut = _Cut(len(steps))
    page = cut.node()
    cut.edge(page, cut.wasm, NEVER)
    for i, step in enumerate(steps):
        cut.edge(cut.gpu, i, step.wasm_ms)
        cut.edge(i, cut.wasm, step.gpu_ms)
    cost = cost or CopyCost()
    writer = dict.fromkeys(inputs, page)
    readers: dict[tuple[int, int], set[int]] = {}
    for i, step in enumerate(steps):
        for b in step.reads:
            readers.setdefault((b, writer[b]), set()).add(i)
        writer.update(dict.fromkeys(step.writes, i))
    for b in outputs:
        readers.setdefault((b, writer[b]), set()).add(page)
    for (b, source), users in readers.items():
        down, up = cut.node(), cut.node()
        cut.edge(source, down, cost.ms(nbytes[b], CPU))
        cut.edge(up, source, cost.ms(nbytes[b], GPU))
        for user in users:
            cut.edge(down, user, NEVER)
            cut.edge(user, up, NEVER)
    on_wasm = cut.side_of_wasm()
    return [CPU if i in on_wasm else GPU for i in range(len(steps))]


class _Cut:
    """A network between two ends: what is not connected with Wasm's any more is the GPU's."""

    def __init__(self, nodes: int) -> None:
        self._count = nodes
        self._edges: dict[tuple[int, int], int] = {}
        self.gpu, self.wasm = self.node(), self.node()

    def node(self) -> int:
        self._count += 1
        return self._count - 1

    def edge(self, a: int, b: int, ms: float) -> None:
        """What it costs if ``a`` is on the GPU and ``b`` in Wasm."""
        ticks = round(min(ms * _TICKS_PER_MS, _MOST_TICKS))
        self._edges[a, b] = min(_MOST_TICKS, self._edges.get((a, b), 0) + ticks)

    def side_of_wasm(self) -> set[int]:
        """The nodes that stay connected with Wasm when the cheapest edges are cut."""
        import numpy as np  # with SciPy 0.3 s, which only mixed plans take
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow

        ends = np.array(list(self._edges), np.int32).T
        size = (self._count, self._count)
        edges: Any = csr_array((np.array(list(self._edges.values()), np.int32), ends), shape=size)
        left = edges - maximum_flow(edges, self.gpu, self.wasm).flow
        left.data = left.data.clip(0)
        left.eliminate_zeros()
        found = breadth_first_order(left.T.tocsr(), self.wasm, return_predecessors=False)
        return {int(n) for n in found}
