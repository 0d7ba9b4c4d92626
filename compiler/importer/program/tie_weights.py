"""One copy of a weight that is both an embedding table and a product's matrix.

Language models read their head's weight transposed from the embeddings. A matmul reads the table as
it is, along its rows (:mod:`schedule.matmul_dot`), a seventh slower than from panels; the
alternative is a second copy of what is often the model's largest weight.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from nnjit_studio.compiler.importer.program.views import View, with_buffer
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.recognize.matmul import recognize
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall, Value

SMALLEST = 1 << 20
"""Elements; a smaller weight is stored twice, for speed."""


def tie_weights(calls: ImportedCalls) -> ImportedCalls:
    """The same model without transposed copies of its large weights."""
    tables: dict[tuple[int, ...], list[Value]] = {}
    for call in calls.calls:
        for value in call.inputs:
            if value.constant is not None and len(value.shape) == 2 and _large(value):
                tables.setdefault(value.shape, []).append(value)
    return replace(calls, calls=tuple(_tied(call, tables) for call in calls.calls))


def _large(value: Value) -> bool:
    return value.dtype == "f32" and math.prod(value.shape) >= SMALLEST


def _tied(call: ProgramCall, tables: dict[tuple[int, ...], list[Value]]) -> ProgramCall:
    if not any(v.constant is not None and _large(v) for v in call.inputs):
        return call
    c = recognize(call.program)
    if c is None or not c.packable or c.batch:
        return call
    position = next(i for i, b in enumerate(call.program.buffers) if b.name == c.b.buffer)
    weight = call.inputs[position]
    table = next((t for t in tables.get((c.n, c.k), ()) if _transposed(weight, t, c)), None)
    if table is None:
        return call
    view = View({"k": c.k, "n": c.n}, (0, {"n": c.k, "k": 1}), (0, {"k": c.n, "n": 1}))
    program = with_buffer(call.program, c.b.buffer, table.shape, view.inward)
    after = recognize(program) if program is not None else None
    if program is None or after is None or not after.along_k:
        return call
    inputs = tuple(table if i == position else v for i, v in enumerate(call.inputs))
    return replace(call, program=program, inputs=inputs)


def _transposed(weight: Value, table: Value, c: Contraction) -> bool:
    assert weight.constant is not None
    assert table.constant is not None
    matrix = weight.constant.reshape(c.k, c.n)
    # The first row tells most apart at once.
    first = np.array_equal(matrix[0], table.constant[:, 0])
    return table.name != weight.name and first and np.array_equal(matrix.T, table.constant)
