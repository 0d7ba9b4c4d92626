"""Sums of rows are made where the rows are.

A product of bytes whose weights have a zero point needs the sum of each row of its activations.
Whoever writes a row has it at hand; a call of its own reads all of them once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nnjit_studio.compiler.importer.program.fuse_pointwise import is_pointwise, renamed
from nnjit_studio.compiler.ir.affine import loads
from nnjit_studio.compiler.ir.dtypes import BYTES
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.schedule.default import schedule_default
from nnjit_studio.compiler.templates import match
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, Origin, ProgramCall

_ENOUGH = 64
"""Parallel steps that keep any number of threads busy."""


def merge_row_sums(calls: ImportedCalls, root: Mapping[str, str]) -> ImportedCalls:
    """The same model, sums of rows made by the calls that make the rows.

    Parameters
    ----------
    root
        What each view is a view of, by name.
    """
    makers = {c.outputs[0].name: c for c in calls.calls if _makes_rows(c)}
    merged: dict[int, ProgramCall] = {}
    gone: set[int] = set()
    for call in calls.calls:
        if not _is_sum(call):
            continue
        name = root.get(call.inputs[0].name, call.inputs[0].name)
        maker = makers.get(name)
        if maker is None or id(maker) in merged:
            continue
        program = _with_sum(maker.program, call.program)
        if _threads(program) < min(_ENOUGH, _threads(maker.program)):
            continue
        nodes = tuple(dict.fromkeys((*maker.origin.nodes, *call.origin.nodes)))
        tensors = (*(maker.origin.tensors or ("",)), *(call.origin.tensors or ("",)))
        outputs = (*maker.outputs, *call.outputs)
        merged[id(maker)] = ProgramCall(program, maker.inputs, outputs, Origin(nodes, tensors))
        gone.add(id(call))
    kept = (merged.get(id(c), c) for c in calls.calls if id(c) not in gone)
    return replace(calls, calls=tuple(kept))


def _makes_rows(call: ProgramCall) -> bool:
    bytes_alone = len(call.outputs) == 1 and call.outputs[0].dtype in BYTES
    return bytes_alone and is_pointwise(call.program) and match(call.program) is None


def _is_sum(call: ProgramCall) -> bool:
    program = call.program
    if [b.role for b in program.buffers] != ["input", "output"] or len(program.stages) != 1:
        return False
    (stage,) = program.stages
    read = [e.buffer for s in stage.body for e in loads(s.value)]
    of_bytes = program.buffers[0].dtype in BYTES and call.inputs[0].constant is None
    return bool(stage.init) and of_bytes and program.buffers[0].name in read


def _threads(program: Program) -> int:
    return schedule_default(program).parallel_extent


def _with_sum(rows: Program, sums: Program) -> Program:
    """The stages of both; the second one reads the result of the first."""
    source, result = sums.buffers
    (made,) = (b for b in rows.buffers if b.role == "output")
    total = replace(result, name="out1")
    stages = (renamed(s, {source.name: made.name, result.name: total.name}) for s in sums.stages)
    inputs, rest = ([b for b in rows.buffers if (b.role == "input") == i] for i in (True, False))
    buffers = (*inputs, made, total, *(b for b in rest if b is not made))
    return Program(f"{rows.name}_{sums.name.strip('_')}", buffers, (*rows.stages, *stages))
