"""Attention as one call in the steps of a GPU: three calls of the plan for any size.

Wasm runs the three; a GPU runs the one in their place, over the same buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnjit_studio.compiler.any_size.kernels.compiled import At
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.compiler.any_size.unified import Unified, calls
from nnjit_studio.compiler.importer.program.fuse_attention import fuse_attention
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall, Value
from nnjit_studio.compiler.tvm_adapter.origins import Origin
from nnjit_studio.model import PlanStep
from nnjit_studio.model.size import Dim
from nnjit_studio.space.wasm.attention import ATTENTION

_LARGE = 37
"""Steps of a dimension at which attention is looked for."""


@dataclass(frozen=True)
class Fused:
    """Calls that are one call on a GPU."""

    positions: tuple[int, ...]
    """Of the calls among all calls; the last one's place is that of the one."""
    parts: tuple[tuple[PlanStep, At], ...]
    """These calls, and the program of each."""
    args: tuple[int, ...]
    """Buffers of the one: inputs, then its output."""

    def program(self, sizes: Mapping[str, int]) -> Program:
        """The one program at sizes of the dimensions.

        Raises
        ------
        ModelError
            When it is no attention at these sizes.
        """
        given = [_call(at(sizes), step, i) for i, (step, at) in enumerate(self.parts)]
        made = _fused(given, given[-1].outputs)
        if len(made) != 1:
            raise refused(f"at {dict(sizes)} three kernels are expected to be faster")
        return made[0].program


def attention_calls(unified: Unified, dims: Sequence[Dim]) -> list[Fused]:
    """The attentions of a model, of which a GPU runs each as one call."""
    plan, run = unified.sample.plan, calls(unified.sample.plan)
    # A softmax of fewer columns than a vector has is none of its template.
    least = enumerate(dims, _LARGE)
    sizes = {d.name: d.step * max(i, -(-d.low // d.step)) for i, d in least}
    programs = [unified.program(at) for at in range(len(run))]
    given = [_call(programs[at](sizes), step, at) for at, step in enumerate(run)]
    results = [Value(str(port.buffer), (), "f32") for port in plan.outputs]
    made = []
    for call in _fused(given, results):
        if call.program.name == ATTENTION:
            positions = tuple(map(int, call.origin.nodes))
            parts = tuple((run[at], programs[at]) for at in positions)
            args = tuple(int(value.name) for value in (*call.inputs, *call.outputs))
            made.append(Fused(positions, parts, args))
    return made


def _fused(given: Sequence[ProgramCall], results: Sequence[Value]) -> tuple[ProgramCall, ...]:
    return fuse_attention(ImportedCalls((), tuple(results), tuple(given)), {}).calls


def _call(program: Program, step: PlanStep, position: int) -> ProgramCall:
    """A call whose values are called by their buffers, and its node by its position."""
    values: dict[str, list[Value]] = {"input": [], "output": []}
    for buffer, place in zip(program.buffers, step.args, strict=False):
        if buffer.role in values:
            values[buffer.role].append(Value(str(place), buffer.shape, buffer.dtype))
    origin = Origin((str(position),))
    return ProgramCall(program, tuple(values["input"]), tuple(values["output"]), origin)
