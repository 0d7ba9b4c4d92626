"""Views folded into the matmuls that read or write them, where that costs no speed.

A call that only moves elements, with a constant factor or without, is folded into
all of its consumers, where each is a matmul that still reads neighbours (columns
of B, or both operands along the reduction), is elementwise and reads rows, or
is a view itself; or else, if it only permutes, into the matmul that produces
its input, where that still writes neighbouring columns. Attention's head
splits, scales, merges and the transpose of K vanish so, and the widening of a
cache in f16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnjit_studio.compiler.importer.program.views import (
    View,
    in_parts,
    stored_as,
    view_of,
    with_buffer,
)
from nnjit_studio.compiler.ir.affine import linear_form, loads, stride
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.recognize.matmul import recognize
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, Origin, ProgramCall, is_append


def fold_views(calls: ImportedCalls) -> ImportedCalls:
    """The same model with fewer kernels that only move elements."""
    current = [part for call in calls.calls for part in in_parts(call)]
    results = {value.name for value in calls.outputs}
    caches = {call.outputs[0].name for call in current if is_append(call.program)}
    # Outputs name their makers: a view that another was folded into has a new program.
    for name in [call.outputs[0].name for call in current]:
        call = next((c for c in current if c.outputs[0].name == name), None)
        found = view_of(call) if call is not None else None
        if call is None or found is None or not found.moves:
            continue
        if found.widens and call.inputs[0].name not in caches:
            continue
        changed = None if name in results else _into_consumers(current, call, found)
        if changed is None and found.permutes and call.inputs[0].name not in results:
            changed = _into_producer(current, call, found)
        if changed is not None:
            current = [c for c in changed if c is not call]
    return replace(calls, calls=tuple(current))


def _into_consumers(
    calls: Sequence[ProgramCall], view: ProgramCall, found: View
) -> list[ProgramCall] | None:
    value, source = view.outputs[0], view.inputs[0]
    folded: list[ProgramCall] = []
    uses = 0
    for call in calls:
        if call is view or all(v.name != value.name for v in call.inputs):
            folded.append(call)
            continue
        program: Program | None = call.program
        for buffer, given in zip(call.program.buffers, call.inputs, strict=False):
            if given.name == value.name and program is not None:
                program = with_buffer(program, buffer.name, source.shape, found.inward, found.scale)
                if program is not None and found.widens:
                    program = stored_as(program, buffer.name, source.dtype)
        inputs = tuple(source if v.name == value.name else v for v in call.inputs)
        if program is None:
            return None
        merged = replace(call, program=program, inputs=inputs, origin=_with_nodes(call, view))
        moves = view_of(call) is not None and view_of(merged) is not None
        if not (moves or _reads_rows(program) or _still_fast(call.program, program)):
            return None
        folded.append(merged)
        uses += 1
    return folded if uses else None


def _into_producer(
    calls: Sequence[ProgramCall], view: ProgramCall, found: View
) -> list[ProgramCall] | None:
    source, value = view.inputs[0], view.outputs[0]
    readers = [c for c in calls if any(v.name == source.name for v in c.inputs)]
    producer = next((c for c in calls if any(v.name == source.name for v in c.outputs)), None)
    if producer is None or len(readers) != 1 or len(producer.outputs) != 1:
        return None
    output = next(b for b in producer.program.buffers if b.role == "output")
    program = with_buffer(producer.program, output.name, value.shape, found.outward)
    if program is None or not _still_fast(producer.program, program):
        return None
    origin = replace(_with_nodes(producer, view), tensors=view.origin.tensors)
    merged = replace(producer, program=program, outputs=(value,), origin=origin)
    return [merged if c is producer else c for c in calls]


def _with_nodes(call: ProgramCall, view: ProgramCall) -> Origin:
    nodes = dict.fromkeys((*call.origin.nodes, *view.origin.nodes))
    return replace(call.origin, nodes=tuple(nodes))


def _still_fast(before: Program, after: Program) -> bool:
    """Whether both are matmuls, and the new one reads and writes what are neighbours."""
    old, new = recognize(before), recognize(after)
    if old is None or new is None or old.flops != new.flops or old.packable != new.packable:
        return False
    reads = new.packable or new.b.column == 1 or new.along_k
    return reads and len(new.batch) <= len(old.batch) and _joined(new)


def _reads_rows(program: Program) -> bool:
    """Whether it is elementwise, and reads neighbours or one element for neighbours."""
    for stage in program.stages:
        if stage.init or stage.steps or any(a.kind == "reduce" for a in stage.axes):
            return False
        extents = stage.extents
        for store in stage.body:
            form = linear_form(store.index, extents)
            inner = next((v for v, c in form[1].items() if c == 1), None) if form else None
            if inner is None:
                return False
            if any(stride(load.index, inner) not in (0, 1) for load in loads(store.value)):
                return False
    return True


def _joined(contraction: Contraction) -> bool:
    """Whether every output has stride 1 along n."""
    forms = (linear_form(s.index) for s in contraction.epilogue)
    return all(f is not None and f[1].get(contraction.n_var, 0) == 1 for f in forms)
