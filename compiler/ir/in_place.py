"""Workspaces that may alias an output buffer."""

from __future__ import annotations

import math

from nnjit_studio.compiler.ir.affine import linear_form, loads
from nnjit_studio.compiler.ir.tensor_ir import Buffer, Program, Stage, stage_expressions
from nnjit_studio.model import DTYPE_BYTES


def in_place(program: Program) -> dict[str, str]:
    """Workspaces that may alias an output, with that output, by name.

    The output is written by the one stage that reads the workspace last, each
    element where the same element was read; nobody reads the output. Their dtypes may differ,
    such as a sum of integers and its float32 result, but not the size of an element. A single
    number beside larger results may be computed by several threads, which then would read what
    others of them have made of it.
    """
    stages = program.stages
    read = [{load.buffer for e in stage_expressions(s) for load in loads(e)} for s in stages]
    written = [{store.buffer for store in (*s.init, *s.body)} for s in stages]
    found: dict[str, str] = {}
    if any(stage.steps for stage in stages):
        return found
    alone = all(math.prod(b.shape) == 1 for b in program.buffers if b.role == "output")
    for buffer in program.buffers:
        if math.prod(buffer.shape) == 1 and not alone:
            continue
        readers = [i for i, names in enumerate(read) if buffer.name in names]
        writers = [i for i, names in enumerate(written) if buffer.name in names]
        if buffer.role != "workspace" or not readers or readers[-1] <= max(writers):
            continue
        for output in program.buffers:
            own = [i for i, names in enumerate(written) if output.name in names]
            if (
                output.role == "output"
                and output.name not in found.values()
                and _size(output) == _size(buffer)
                and own == readers[-1:]
                and not any(output.name in names for names in read)
                and _same_element(stages[own[0]], buffer.name, output.name)
            ):
                found[buffer.name] = output.name
                break
    return found


def _size(buffer: Buffer) -> tuple[int, int]:
    return DTYPE_BYTES[buffer.dtype], math.prod(buffer.shape)


def _same_element(stage: Stage, source: str, target: str) -> bool:
    extents = stage.extents
    (place, *more) = (linear_form(s.index, extents) for s in stage.body if s.buffer == target)
    places = [
        linear_form(load.index, extents)
        for e in stage_expressions(stage)
        for load in loads(e)
        if load.buffer == source
    ]
    return not stage.init and not more and place is not None and all(p == place for p in places)
