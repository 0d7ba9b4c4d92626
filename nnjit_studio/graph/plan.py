"""The execution plan: a small register program over a planned memory.

After the instruction set of Nimble (appendix C). A static model is the
straight-line case: ``call`` steps and one ``return``. Version 2 adds state
that outlives a run, and ``append``, which writes into it. Other instructions
have a place by name, and the engine refuses those that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nnjit_studio.graph.model import TensorSpec

PLAN_VERSION = 2
STATELESS_VERSION = 1
"""What a plan without state is written as, so that older engines run it too."""
ALIGNMENT_BYTES = 64


@dataclass(frozen=True)
class PlanBuffer:
    """A range of the engine's linear memory.

    Attributes
    ----------
    region
        ``weight`` (offset into the weights file, loaded once), ``arena``
        (offset into the memory that runs reuse) or ``state`` (offset into
        the memory that keeps its contents from run to run).
    offset, nbytes
        In bytes; the offset is a multiple of 64. For a packable weight
        ``nbytes`` is the capacity: room for the widest panel's padding.
    pack
        ``(K, N)`` of a matmul weight that a kernel may want in panels, else
        None. The weights file holds it row-major, K x N.
    """

    region: str
    offset: int
    nbytes: int
    pack: tuple[int, int] | None = None


@dataclass(frozen=True)
class Append:
    """What an ``append`` step copies: new rows of a cache into their slots.

    Attributes
    ----------
    heads, rows, width
        The new rows: ``[heads, rows, width]``, row-major.
    capacity
        Slots of the cache: ``[heads, capacity, width]``, or with ``columns``
        ``[heads, width, capacity]``.
    nbytes
        Of one element.
    """

    heads: int
    rows: int
    width: int
    capacity: int
    nbytes: int
    columns: bool = False


@dataclass(frozen=True)
class PlanStep:
    """One instruction: ``call`` runs the kernel of a workload on buffers.

    ``args`` are indices into the plan's buffers; of a ``call`` in the order of
    the kernel's pointer parameters: inputs, outputs, workspaces. An ``append``
    writes rows into a cache: the rows, the cache, and the buffer that holds
    the first slot as i64; without it that is slot 0.
    """

    op: str
    workload: str = ""
    args: tuple[int, ...] = ()
    node: str = ""
    append: Append | None = None

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        if self.append is None:
            del data["append"]
        return data


@dataclass(frozen=True)
class PlanPort:
    """An input or output of the model and the buffer that holds it."""

    spec: TensorSpec
    buffer: int


@dataclass(frozen=True)
class Plan:
    """Everything the engine needs to run a model, but kernels and weights."""

    name: str
    inputs: tuple[PlanPort, ...]
    outputs: tuple[PlanPort, ...]
    buffers: tuple[PlanBuffer, ...]
    steps: tuple[PlanStep, ...]
    weights_bytes: int
    arena_bytes: int
    state_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        data = {**asdict(self), "steps": [step.to_json() for step in self.steps]}
        if self.state_bytes:
            return {"version": PLAN_VERSION, **data}
        del data["state_bytes"]
        return {"version": STATELESS_VERSION, **data}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        def port(p: Mapping[str, Any]) -> PlanPort:
            s = p["spec"]
            return PlanPort(TensorSpec(s["name"], tuple(s["shape"]), s["dtype"]), p["buffer"])

        return cls(
            data["name"],
            tuple(port(p) for p in data["inputs"]),
            tuple(port(p) for p in data["outputs"]),
            tuple(
                PlanBuffer(
                    b["region"],
                    b["offset"],
                    b["nbytes"],
                    (b["pack"][0], b["pack"][1]) if b["pack"] else None,
                )
                for b in data["buffers"]
            ),
            tuple(
                PlanStep(
                    s["op"],
                    s["workload"],
                    tuple(s["args"]),
                    s["node"],
                    Append(**s["append"]) if s.get("append") else None,
                )
                for s in data["steps"]
            ),
            data["weights_bytes"],
            data["arena_bytes"],
            data.get("state_bytes", 0),
        )
