"""Loops in a plan: the body's calls stand between two steps, and its tensors are registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nnjit_studio.compiler.importer.buffers import Buffers
from nnjit_studio.compiler.importer.onnx.control.bodies import LoopBody
from nnjit_studio.compiler.importer.passes import CALL_PASSES, Import
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall, Value
from nnjit_studio.compiler.tvm_adapter.loops import is_loop
from nnjit_studio.model.plan import MOST_TRIPS, NOWHERE, Carried, Loop, PlanStep, Rows


@dataclass(frozen=True)
class CompiledLoop:
    """A loop's body as calls, and what each of its views is a view of."""

    body: LoopBody
    calls: ImportedCalls
    views: Mapping[str, str]


@dataclass(frozen=True)
class Edge:
    """The call of a loop, where it begins or where it ends."""

    call: ProgramCall
    loop: CompiledLoop
    begins: bool

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.call.inputs

    @property
    def outputs(self) -> tuple[Value, ...]:
        return self.call.outputs


def compiled_loop(body: LoopBody, calls: ImportedCalls, imports: Import) -> CompiledLoop:
    """Run the passes on a body's calls."""
    return CompiledLoop(body, CALL_PASSES.run(calls, imports), dict(imports.views))


def in_line(
    calls: Sequence[ProgramCall], loops: Mapping[str, CompiledLoop], views: dict[str, str]
) -> list[ProgramCall | Edge]:
    """All calls, those of loops between their edges and under names of their own; ``views`` gets
    those of the bodies."""
    line: list[ProgramCall | Edge] = []
    for place, call in enumerate(calls):
        if not is_loop(call.program):
            line.append(call)
            continue
        loop = _named(loops[call.program.name], f"loop {place} ")
        views |= loop.views
        line += [Edge(call, loop, True), *loop.calls.calls, Edge(call, loop, False)]
    return line


def _named(loop: CompiledLoop, prefix: str) -> CompiledLoop:
    def names(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(replace(v, name=prefix + v.name) for v in values)

    calls = tuple(
        replace(c, inputs=names(c.inputs), outputs=names(c.outputs)) for c in loop.calls.calls
    )
    whole = ImportedCalls(names(loop.calls.inputs), names(loop.calls.outputs), calls)
    views = {prefix + name: prefix + root for name, root in loop.views.items()}
    return replace(loop, calls=whole, views=views)


def loop_step(
    edge: Edge, buffers: Buffers, position: int, results: Sequence[int], node: str
) -> PlanStep:
    """The step that begins a loop; places for all that its body takes and gives.

    Parameters
    ----------
    results
        Buffers of what the call gives.
    """
    body, inner = edge.loop.body, edge.loop.calls
    end = position + len(inner.calls) + 1
    given = [buffers.argument(value) for value in edge.inputs]
    count = given.pop() if body.trips is None else NOWHERE
    captured, starts = given[: body.captured], given[body.captured :]
    for value, buffer in zip(inner.inputs, captured, strict=False):
        buffers.alias(value, buffer)
    number, *taken = inner.inputs[body.captured :]
    held = [buffers.workspace(number.shape, number.dtype, position, end)]
    buffers.alias(number, held[0])
    carries = body.going + body.carried
    if body.going:  # nobody reads it behind the loop
        value = inner.outputs[0]
        held.append(buffers.workspace(value.shape, value.dtype, position, end))
        results = [held[-1], *results]
    for value in taken:
        buffers.alias(value, buffers.row(value))
    rows = [
        Rows(whole, buffers.argument(value), backward)
        for whole, value, backward in zip(
            starts[carries:], taken[carries:], body.scanned, strict=True
        )
    ]
    copies: list[tuple[int, int]] = []
    written = []
    for value in inner.outputs:
        written.append(buffers.row(value))
        if value.constant is None and not buffers.knows(value):
            buffers.alias(value, written[-1])  # its kernel writes where the next run reads
        else:
            copies.append((buffers.argument(value), written[-1]))
    carried = []
    for i, value in enumerate(taken[:carries]):
        other = buffers.workspace(value.shape, value.dtype, position, end)
        held.append(other)
        carried.append(Carried(starts[i], buffers.argument(value), written[i], results[i], other))
    rows += [
        Rows(whole, row, backward)
        for whole, row, backward in zip(
            results[carries:], written[carries:], body.results, strict=True
        )
    ]
    trips = MOST_TRIPS if body.trips is None else body.trips
    loop = Loop(trips, count, held[0], body.going, tuple(carried), tuple(rows), tuple(copies))
    args = dict.fromkeys([*captured, *starts, *held, *results])
    args |= {} if count == NOWHERE else {count: None}
    return PlanStep("loop", "", tuple(args), node, loop=loop)
