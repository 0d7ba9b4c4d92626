"""Gate and up of a decoder's layer made ready to be one product: their elementwise end comes off.

``silu(x @ G) * (x @ U)`` arrives as a product that ends in SiLU and one that ends by multiplying
with it. As two plain products of one input and an elementwise call they can be merged, which saves
a GPU the start of a product, and everyone a reading of the input.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from nnjit_studio.compiler.importer.program.fuse_pointwise import is_pointwise, joined, renamed
from nnjit_studio.compiler.ir.affine import loads
from nnjit_studio.compiler.ir.tensor_ir import Program, stage_expressions
from nnjit_studio.compiler.recognize.quantised import Quantised, recognize_blocks
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall, Value

_NAME = "gated"


@dataclass(frozen=True)
class _Parts:
    """A product without its end, and what is done with each of its sums."""

    product: ProgramCall
    end: Program | None
    """Its first input is the sum; None where there is nothing to do."""
    others: tuple[Value, ...]
    """The further inputs of the end."""


def part_gates(calls: ImportedCalls) -> ImportedCalls:
    """The same model, 4-bit products of one input apart from the elementwise end they share."""
    current = list(calls.calls)
    results = {value.name for value in calls.outputs}
    for up in calls.calls:
        gate = _gate_of(up, current, results)
        if gate is None:
            continue
        first, last = _parted(gate), _parted(up)
        if first is None or last is None or last.end is None:
            continue
        end = _end(first, last, gate.outputs[0], up)
        current[current.index(gate)] = first.product
        at = current.index(up)
        current[at : at + 1] = [last.product, end]
    return replace(calls, calls=tuple(current))


def _gate_of(
    up: ProgramCall, calls: Sequence[ProgramCall], results: Collection[str]
) -> ProgramCall | None:
    """The product, in blocks too, of the same input whose result this one alone reads."""
    if len(up.outputs) != 1 or (product := recognize_blocks(up.program)) is None:
        return None
    for value in up.inputs:
        gate = next((c for c in calls if [v.name for v in c.outputs] == [value.name]), None)
        other = recognize_blocks(gate.program) if gate is not None else None
        if gate is None or other is None or value.name in results:
            continue
        readers = sum(v.name == value.name for c in calls for v in c.inputs)
        if readers == 1 and _source(gate, other).name == _source(up, product).name:
            return gate
    return None


def _source(call: ProgramCall, product: Quantised) -> Value:
    names = [b.name for b in call.program.buffers]
    return call.inputs[names.index(product.contraction.a.buffer)]


def _parted(call: ProgramCall) -> _Parts | None:
    program = call.program
    first, *rest = program.stages
    total = program.buffer(first.body[0].buffer)
    if not rest:
        return _Parts(call, None, ())
    if total.role != "workspace":
        return None
    given = dict(zip((b.name for b in program.buffers), call.inputs, strict=False))
    factors = {load.buffer for load in loads(first.body[0].value)} - {total.name}
    inputs = [b for b in program.buffers if b.name in factors]
    others = [b for b in program.buffers if b.name in given and b.name not in factors]
    names = {b.name: f"in{i}" for i, b in enumerate(inputs)} | {total.name: "out0"}
    buffers = (*inputs, replace(total, role="output"))
    alone = Program(
        f"{program.name}_sum",
        tuple(replace(b, name=names[b.name]) for b in buffers),
        (renamed(first, names),),
    )
    kept = [b for b in program.buffers if b.name not in given and b is not total]
    end = Program(
        f"{program.name}_end", (replace(total, role="input"), *others, *kept), tuple(rest)
    )
    read = {load.buffer for stage in rest for e in stage_expressions(stage) for load in loads(e)}
    if recognize_blocks(alone) is None or not is_pointwise(end) or read & factors:
        return None
    value = Value(f"{call.outputs[0].name}|sum", total.shape, total.dtype)
    product = ProgramCall(alone, tuple(given[b.name] for b in inputs), (value,), call.origin)
    return _Parts(product, end, tuple(given[b.name] for b in others))


def _end(first: _Parts, last: _Parts, between: Value, up: ProgramCall) -> ProgramCall:
    """What is done with both sums, as one call."""
    assert last.end is not None
    inputs = (last.product.outputs[0], *last.others)
    if first.end is None:
        program = replace(last.end, name=_NAME)
        return ProgramCall(program, inputs, up.outputs, replace(up.origin, nodes=()))
    names = {
        b.name for b, v in zip(last.end.buffers, inputs, strict=False) if v.name == between.name
    }
    program = replace(joined(first.end, last.end, names), name=_NAME)
    kept = tuple(v for v in inputs if v.name != between.name)
    given = (first.product.outputs[0], *first.others, *kept)
    return ProgramCall(program, given, up.outputs, replace(up.origin, nodes=()))
