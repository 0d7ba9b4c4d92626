"""The row that a token's 4-bit product multiplies is made by the product itself.

A root mean square norm or the gate of a layer is a few microseconds of a GPU, most of which pass
before it computes anything. The product reads the row anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from nnjit_studio.compiler.importer.program.fuse_pointwise import joined
from nnjit_studio.compiler.importer.program.views import behind
from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.recognize.made_row import made_row
from nnjit_studio.compiler.recognize.quantised import Quantised, recognize_blocks
from nnjit_studio.compiler.templates import on_gpu
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, Origin, ProgramCall
from nnjit_studio.compiler.wgsl.core.groups import MAX_BUFFERS


def fuse_rows(calls: ImportedCalls, root: Mapping[str, str]) -> ImportedCalls:
    """The same model, rows that one 4-bit product alone reads made by it.

    Parameters
    ----------
    root
        What each view is a view of, by name.
    """
    source = behind(root)
    readers: dict[str, int] = {source(value.name): 1 for value in calls.outputs}
    for call in calls.calls:
        for value in call.inputs:
            readers[source(value.name)] = readers.get(source(value.name), 0) + 1
    made = {c.outputs[0].name: c for c in calls.calls if len(c.outputs) == 1}
    fused: dict[int, ProgramCall] = {}
    gone: set[int] = set()
    for call in calls.calls:
        product = recognize_blocks(call.program)
        if product is None or product.contraction.m != 1 or product.contraction.n % LANES:
            continue
        row = source(_row_name(call, product))
        if (maker := made.get(row)) is None or readers[row] != 1 or id(maker) in fused:
            continue
        if (one := _with_row(maker, call, product)) is not None:
            fused[id(call)] = one
            gone.add(id(maker))
    kept = (fused.get(id(c), c) for c in calls.calls if id(c) not in gone)
    return replace(calls, calls=tuple(kept))


def _row_name(call: ProgramCall, product: Quantised) -> str:
    names = [b.name for b in call.program.buffers]
    return call.inputs[names.index(product.contraction.a.buffer)].name


def _with_row(maker: ProgramCall, call: ProgramCall, product: Quantised) -> ProgramCall | None:
    """Both calls as one in the place of the last."""
    if made_row(maker.program, maker.program.stages) is None:
        return None
    program = joined(maker.program, call.program, {product.contraction.a.buffer})
    found = recognize_blocks(program)
    bound = sum(b.role in ("input", "output") for b in program.buffers)
    if found is None or found.row is None or bound > MAX_BUFFERS:
        return None
    if not on_gpu(program):  # what is not made for vectors, such as rounding
        return None
    row = _row_name(call, product)
    inputs = (*maker.inputs, *(v for v in call.inputs if v.name != row))
    nodes = tuple(dict.fromkeys((*call.origin.nodes, *maker.origin.nodes)))
    return ProgramCall(program, inputs, call.outputs, Origin(nodes, call.origin.tensors))
