"""Numbers that a tensor's bytes need are computed by the call that makes the bytes.

The scale and the zero point follow from the extremes of some rows, so that each thread computes
them for itself sooner than a step of their own is begun.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnjit_studio.compiler.importer.program.merge_siblings import in_one
from nnjit_studio.compiler.importer.program.views import behind
from nnjit_studio.compiler.ir.dtypes import BYTES
from nnjit_studio.compiler.ir.numbers_in_front import numbers_in_front
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.schedule.default import schedule_default
from nnjit_studio.compiler.templates import match
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall
from nnjit_studio.compiler.wgsl.core.groups import MAX_BUFFERS


def numbers_ahead(calls: ImportedCalls, root: Mapping[str, str]) -> ImportedCalls:
    """The same model with fewer calls; a call of bytes has the numbers among its results.

    Parameters
    ----------
    root
        What each view is a view of, by name.
    """
    source = behind(root)
    line = list(calls.calls)
    for numbers in calls.calls:
        if not _computes_numbers(numbers):
            continue
        made = {value.name for value in numbers.outputs}
        readers = [c for c in line if any(source(v.name) in made for v in c.inputs)]
        if not readers or not _makes_bytes(readers[0]):
            continue
        read = {source(v.name) for c in readers[1:] for v in c.inputs}
        read |= {source(v.name) for v in calls.outputs}
        joined = _joined(numbers, readers[0], read)
        if joined is not None:
            line = [joined if c is readers[0] else c for c in line if c is not numbers]
    return replace(calls, calls=tuple(line))


def _computes_numbers(call: ProgramCall) -> bool:
    numbers = all(math.prod(v.shape) == 1 for v in call.outputs)
    return numbers and numbers_in_front(call.program) == len(call.program.stages)


def _makes_bytes(call: ProgramCall) -> bool:
    program = call.program
    bytes_first = call.outputs[0].dtype in BYTES and bool(program.stages)
    return bytes_first and not any(s.steps for s in program.stages) and match(program) is None


def _joined(numbers: ProgramCall, call: ProgramCall, read: set[str]) -> ProgramCall | None:
    run: Sequence[ProgramCall] = (numbers, call)
    one = in_one(run, call.program.name, read | {v.name for v in call.outputs})
    bound = sum(b.role in ("input", "output") for b in one.program.buffers)
    if bound > MAX_BUFFERS or not _as_many_threads(one.program, call.program):
        return None
    return _bytes_first(one, len(call.outputs))


def _bytes_first(call: ProgramCall, count: int) -> ProgramCall:
    """The call with the last ``count`` of its results, by which it is known, as the first."""
    given, every = len(call.inputs), len(call.inputs) + len(call.outputs)
    inputs, results, rest = (
        call.program.buffers[a:b] for a, b in ((0, given), (given, every), (every, None))
    )
    tensors = call.origin.tensors
    return replace(
        call,
        program=replace(
            call.program, buffers=(*inputs, *results[-count:], *results[:-count], *rest)
        ),
        outputs=(*call.outputs[-count:], *call.outputs[:-count]),
        origin=replace(call.origin, tensors=(*tensors[-count:], *tensors[:-count])),
    )


def _as_many_threads(program: Program, before: Program) -> bool:
    return schedule_default(program).parallel_extent == schedule_default(before).parallel_extent
