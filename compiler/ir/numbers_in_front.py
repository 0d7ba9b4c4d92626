"""Numbers that a program computes before its own work, such as a scale and its zero point.

Whoever needs them computes them for itself: a thread in Wasm, a workgroup on a GPU.
"""

from __future__ import annotations

import math

from nnjit_studio.compiler.ir.affine import loads
from nnjit_studio.compiler.ir.dtypes import BYTES
from nnjit_studio.compiler.ir.tensor_ir import Program, stage_expressions

MOST_AHEAD = 512
"""Elements that each of them may read for that."""


def numbers_in_front(program: Program) -> int:
    """How many stages in front compute one number each, of inputs.

    Around bytes also of few elements, and of numbers before them: those are a scale and its zero
    point, which all who make the bytes need.
    """
    known = {b.name for b in program.buffers if b.role == "input"}
    chained, points = any(b.dtype in BYTES for b in program.buffers), 0
    for count, stage in enumerate(program.stages):
        read = {load.buffer for e in stage_expressions(stage) for load in loads(e)}
        written = {store.buffer for store in (*stage.init, *stage.body)}
        points += math.prod(stage.extents.values())
        own = written if chained else set()
        axes = [a for a in stage.axes if a.kind == "spatial" or not chained]
        if axes or stage.steps or points > MOST_AHEAD or not known | own >= read:
            return count
        known |= own
    return len(program.stages)
