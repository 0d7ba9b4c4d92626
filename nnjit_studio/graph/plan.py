"""The execution plan: a small register program over a planned memory.

After the instruction set of Nimble (appendix C). A static model is the
straight-line case: ``call`` steps and one ``return``; other instructions have
a place by name, and the engine refuses those that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nnjit_studio.graph.model import TensorSpec

PLAN_VERSION = 1
ALIGNMENT_BYTES = 64


@dataclass(frozen=True)
class PlanBuffer:
    """A range of the engine's linear memory.

    Attributes
    ----------
    region
        ``weight`` (offset into the weights file, loaded once) or ``arena``
        (offset into the memory that runs reuse).
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
class PlanStep:
    """One instruction: ``call`` runs the kernel of a workload on buffers.

    ``args`` are indices into the plan's buffers, in the order of the kernel's
    pointer parameters: inputs, outputs, workspaces.
    """

    op: str
    workload: str = ""
    args: tuple[int, ...] = ()
    node: str = ""


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

    def to_json(self) -> dict[str, Any]:
        return {"version": PLAN_VERSION, **asdict(self)}

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
                PlanStep(s["op"], s["workload"], tuple(s["args"]), s["node"]) for s in data["steps"]
            ),
            data["weights_bytes"],
            data["arena_bytes"],
        )
