"""Attention's heads stored contiguously: a merged product writes its column blocks one by one.

With Q, K and V as columns of one product, the distance from row to row is the width of all three. A
product that reads V down its rows then touches a new page at every step and uses few sets of the
first-level cache. So where every reader takes blocks of the same number of columns, the product
writes the blocks one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnjit_studio.compiler.importer.program.views import View, with_buffer
from nnjit_studio.compiler.ir.rewrite import map_stores, substitute_store
from nnjit_studio.compiler.ir.tensor_ir import Axis, Expr, Program, Stage, Var
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.recognize.matmul import recognize
from nnjit_studio.compiler.recognize.quantised import recognize_blocks
from nnjit_studio.compiler.schedule.matmul import WIDEST_PANEL
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall, Value


def split_columns(calls: ImportedCalls) -> ImportedCalls:
    """The same model, products whose readers take blocks of columns writing them apart."""
    results = {value.name for value in calls.outputs}
    current = list(calls.calls)
    for position, call in enumerate(calls.calls):
        found = _product(call.program)
        if found is None or found.batch or not found.packable or found.m == 1:
            continue
        if len(call.outputs) == 1 and call.outputs[0].name not in results:
            current = _split(current, position, found) or current
    return replace(calls, calls=tuple(current))


def _product(program: Program) -> Contraction | None:
    """Of floats, with weights of any kind."""
    quantised = recognize_blocks(program)
    return recognize(program) if quantised is None else quantised.contraction


def _split(
    calls: Sequence[ProgramCall], position: int, product: Contraction
) -> list[ProgramCall] | None:
    producer = calls[position]
    (whole,) = producer.outputs
    readers = [i for i, c in enumerate(calls) if any(v.name == whole.name for v in c.inputs)]
    widths = {width for i in readers for width in _widths(calls[i], whole, product.n)}
    if len(widths) != 1 or 0 in widths:
        return None
    (width,) = widths
    heads = product.n // width
    if product.n % width or width % WIDEST_PANEL or heads == 1:
        return None
    extents = {"h": heads, "m": product.m, "d": width}
    view = View(
        extents,
        (0, {"h": width, "m": product.n, "d": 1}),
        (0, {"h": product.m * width, "m": width, "d": 1}),
    )
    shape = (heads, product.m, width)
    output = next(b.name for b in producer.program.buffers if b.role == "output")
    program = with_buffer(
        _cut_columns(producer.program, product.n, width), output, shape, view.outward
    )
    after = _product(program) if program is not None else None
    if program is None or after is None or not after.packable or after.flops != product.flops:
        return None
    value = Value(whole.name, shape, whole.dtype)
    # Only of parts that a merge put side by side is it known how to tell the blocks apart.
    tensors = tuple(name for name in producer.origin.tensors if "|" in name)
    origin = replace(producer.origin, tensors=tensors)
    changed = list(calls)
    changed[position] = replace(producer, program=program, outputs=(value,), origin=origin)
    for i in readers:
        reader = _reading(calls[i], whole, value, view)
        if reader is None:
            return None
        changed[i] = reader
    return changed


def _widths(reader: ProgramCall, whole: Value, columns: int) -> set[int]:
    """How many columns each batch of the reader takes, where it takes rows of the whole."""
    found = recognize(reader.program)
    if found is None or len(found.batch) != 1:
        return {0}  # no width that all could agree on
    names = _names(reader, whole)
    sides = (found.a, found.a.row, found.a.column), (found.b, found.b.column, found.b.row)
    rows = [
        (operand.batch[0], {row, column} == {columns, 1})
        for operand, row, column in sides
        if operand.buffer in names
    ]
    return {width if by_rows else 0 for width, by_rows in rows} or {0}


def _names(reader: ProgramCall, whole: Value) -> set[str]:
    pairs = zip(reader.program.buffers, reader.inputs, strict=False)
    return {buffer.name for buffer, value in pairs if value.name == whole.name}


def _reading(reader: ProgramCall, whole: Value, value: Value, view: View) -> ProgramCall | None:
    before = recognize(reader.program)
    program: Program | None = reader.program
    for name in _names(reader, whole):
        if program is not None:
            program = with_buffer(program, name, value.shape, view.outward)
    after = recognize(program) if program is not None else None
    if program is None or before is None or after is None:
        return None
    shapes = [(c.m, c.k, c.n, c.a.column, c.b.row == 1, c.b.column == 1) for c in (before, after)]
    if shapes[0] != shapes[1] or len(before.batch) != len(after.batch):
        return None
    inputs = tuple(value if v.name == whole.name else v for v in reader.inputs)
    return replace(reader, program=program, inputs=inputs)


def _cut_columns(program: Program, columns: int, width: int) -> Program:
    """Axes that count all columns as two, so that an index can be split between them."""

    def cut(stage: Stage) -> Stage:
        axes: list[Axis] = []
        values: dict[str, Expr] = {}
        for axis in stage.axes:
            if axis.kind == "reduce" or axis.extent != columns:
                axes.append(axis)
                continue
            high, low = f"{axis.var}h", f"{axis.var}l"
            axes += [Axis(high, columns // width), Axis(low, width)]
            step = Var(high) * width
            values[axis.var] = step + Var(low)
        changed = map_stores(stage, lambda s: substitute_store(s, values))
        return replace(changed, axes=tuple(axes))

    return replace(program, stages=tuple(cut(stage) for stage in program.stages))
