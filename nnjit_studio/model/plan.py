"""The execution plan: a small register program over a planned memory.

After the instruction set of Nimble (appendix C). A static model is the
straight-line case: ``call`` steps and one ``return``. Version 2 adds state
that outlives a run, and ``append``, which writes into it; version 3 weights
whose panels are made of halves; version 4 inputs whose value is fixed; version 7
outputs that are as long as their data says. Other
instructions have a place by name, and the engine refuses those that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec

from nnjit_studio.model.graph import TensorSpec

PLAN_VERSION = 7
VALUE_VERSION = 4
HALVES_VERSION = 3
STATE_VERSION = 2
STATELESS_VERSION = 1
PLAN_VERSIONS = (1, 2, 3, 4, PLAN_VERSION)
"""Plans are written as the oldest version that has what they use, so older engines run them too."""
WORD_BYTES, HALF_BYTES = 4, 2
"""What panels are made of: words, and halves where a buffer says so."""
HALF_SCALE = 2.0**10
"""Weights in f16 are stored so many times as large: then none is a denormal half."""
ALIGNMENT_BYTES = 64
MOST_TRIPS = 1 << 20
"""Runs of a loop's body at most: a page would not answer for minutes."""
NOWHERE = -1
"""In place of a buffer that a loop does not have."""


@dataclass(frozen=True)
class PlanBuffer:
    """A range of the engine's linear memory."""

    region: str
    """``weight`` (offset into the weights file, loaded once), ``arena`` (offset into the memory
    that runs reuse) or ``state`` (offset into the memory that keeps its contents from run to
    run), or ``row`` (a register of a loop, which has another place in each run of its body)."""
    offset: int
    """In bytes, a multiple of 64."""
    nbytes: int
    """Of a packable weight the capacity: room for the widest panel's padding."""
    pack: tuple[int, int] | None = None
    """``(K, N)`` of a matmul weight that a kernel may want in panels, else None. The weights
    file holds it row-major, K x N."""
    unit_bytes: int = WORD_BYTES
    """Of one of its K x N elements: 4, or 2 for weights in f16."""

    def panel_bytes(self, width: int) -> int:
        """Of a packable weight in panels of ``width`` columns, the last one padded."""
        k, n = self.pack or (0, 0)
        return -(-n // width) * width * k * self.unit_bytes


@dataclass(frozen=True)
class Append:
    """What an ``append`` step copies: new rows of a cache into their slots.

    The rows are ``[heads, rows, width]``, row-major.
    """

    heads: int
    rows: int
    width: int
    capacity: int
    """Slots of the cache: ``[heads, capacity, width]``, or with ``columns`` ``[heads, width,
    capacity]``."""
    nbytes: int
    """Of one element."""
    columns: bool = False


@dataclass(frozen=True)
class Carried:
    """A tensor that a run of a loop's body takes from the run before: two places that are swapped.

    All are buffers: what it begins as, repeated where that is smaller; the registers that the body
    reads and writes; the place of the last one, and the other place.
    """

    start: int
    read: int
    written: int
    last: int
    other: int


@dataclass(frozen=True)
class Rows:
    """A tensor of which each run reads or writes one row, and the register of that row."""

    whole: int
    row: int
    backward: bool


@dataclass(frozen=True)
class Loop:
    """How often, and on what, the steps up to ``end`` run."""

    trips: int
    """At most; where ``count`` is a buffer, the most that it may say."""
    count: int
    """A buffer with the number of runs as i64, or :data:`NOWHERE`."""
    number: int
    """The buffer that gets the number of the run as i64."""
    going: bool
    """Whether the first carried tensor is a condition: the loop ends where it is false."""
    carried: tuple[Carried, ...]
    rows: tuple[Rows, ...]
    copies: tuple[tuple[int, int], ...]
    """Buffers from and to that are copied behind each run: results that are no kernel's own."""


@dataclass(frozen=True)
class PlanStep:
    """One instruction: ``call`` runs the kernel of a workload on buffers.

    ``args`` are indices into the plan's buffers; of a ``call`` in the order of
    the kernel's pointer parameters: inputs, outputs, workspaces. An ``append``
    writes rows into a cache: the rows, the cache, and the buffer that holds
    the first slot as i64; without it that is slot 0. Steps from a ``loop`` to its ``end`` run again
    and again; ``args`` of both are what has to live from the first run to the last.
    """

    op: str
    workload: str = ""
    args: tuple[int, ...] = ()
    node: str = ""
    append: Append | None = None
    loop: Loop | None = None


@dataclass(frozen=True)
class FoundAxis:
    """An axis of an output that is as long as the data says."""

    axis: int
    count: int
    """The buffer, i64 of one element, that tells how long it is."""


@dataclass(frozen=True)
class PlanPort:
    """An input or output of the model and the buffer that holds it.

    ``value`` is that of an input of one element which the plan was laid out for, because control
    flow depends on it; a run with another is refused, and so is one where an element of an input
    is negative or above ``most``: a length of what another input has. Where an output has a
    ``found`` axis, its shape has room for the most that may be found.
    """

    spec: TensorSpec
    buffer: int
    value: int | None = None
    found: FoundAxis | None = None
    most: int | None = None

    @property
    def buffers(self) -> tuple[int, ...]:
        """All that are read where the output is copied."""
        return (self.buffer, self.found.count) if self.found else (self.buffer,)

    def cut(self, count: int) -> TensorSpec:
        """The output where so much is found along its axis; any other as it is."""
        if not self.found:
            return self.spec
        shape, axis = self.spec.shape, self.found.axis
        shape = (*shape[:axis], min(count, shape[axis]), *shape[axis + 1 :])
        return replace(self.spec, shape=shape)

    def gives(self, shape: tuple[int, ...]) -> bool:
        """Whether the output may have this shape."""
        count = shape[self.found.axis] if self.found and len(shape) > self.found.axis else 0
        return self.cut(count).shape == shape


@dataclass(frozen=True)
class Plan:
    """Everything the engine needs to run a model, but kernels and weights.

    ``gpu_steps`` is in bundles of older versions alone: what a GPU runs in place of ``steps``,
    over the same buffers; empty where it runs these.
    """

    name: str
    inputs: tuple[PlanPort, ...]
    outputs: tuple[PlanPort, ...]
    buffers: tuple[PlanBuffer, ...]
    steps: tuple[PlanStep, ...]
    weights_bytes: int
    arena_bytes: int
    state_bytes: int = 0
    gpu_steps: tuple[PlanStep, ...] = ()

    @property
    def half_cache(self) -> bool:
        """Whether a decoder's cache is kept in f16."""
        return any(s.append is not None and s.append.nbytes == 2 for s in self.steps)

    @property
    def input_specs(self) -> tuple[TensorSpec, ...]:
        return tuple(port.spec for port in self.inputs)

    @property
    def output_specs(self) -> tuple[TensorSpec, ...]:
        return tuple(port.spec for port in self.outputs)

    @property
    def on_gpu(self) -> Plan:
        """The plan of a GPU."""
        return replace(self, steps=self.gpu_steps, gpu_steps=()) if self.gpu_steps else self

    def to_json(self) -> dict[str, Any]:
        """The oldest version of the format that has everything that the plan uses."""
        data = asdict(self)
        for buffer in data["buffers"]:
            if buffer["unit_bytes"] == WORD_BYTES:
                del buffer["unit_bytes"]
        for port in (*data["inputs"], *data["outputs"]):
            for word in ("value", "found", "most"):
                if port[word] is None:
                    del port[word]
        for step in (*data["steps"], *data["gpu_steps"]):
            for word in ("append", "loop"):
                if step[word] is None:
                    del step[word]
        if not self.gpu_steps:
            del data["gpu_steps"]
        version = STATE_VERSION if self.state_bytes else STATELESS_VERSION
        if not self.state_bytes:
            del data["state_bytes"]
        if any(buffer.unit_bytes != WORD_BYTES for buffer in self.buffers):
            version = HALVES_VERSION
        if any(port.value is not None for port in self.inputs):
            version = VALUE_VERSION
        if any(port.found for port in self.outputs):
            version = PLAN_VERSION
        return {"version": version, **data}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Inverse of :meth:`to_json`.

        Raises
        ------
        ValueError
            When a field is missing or of another type.
        """
        return msgspec.convert(data, cls)
