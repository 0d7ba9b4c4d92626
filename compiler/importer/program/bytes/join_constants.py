"""Small constants of a call that binds more buffers than a GPU's dispatch may, side by side in one.

A product of bytes reads its operands, their scale and zero point, sums of rows and columns, a bias
and what is added to it. Without its template a GPU takes six dispatches for it, in scalars.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from nnjit_studio.compiler.ir.affine import LANES, rewrite
from nnjit_studio.compiler.ir.rewrite import map_stores, plus
from nnjit_studio.compiler.ir.tensor_ir import Buffer, Cast, Expr, Load, Program, Store
from nnjit_studio.compiler.recognize.depthwise_bytes import recognize_depthwise_bytes
from nnjit_studio.compiler.recognize.quantised import recognize_int8
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall, Value
from nnjit_studio.compiler.wgsl.core.groups import MAX_BUFFERS

_MOST_ELEMENTS = 1 << 14
"""Of a constant that is joined."""
_EXACT = 1 << 24
"""Whole numbers below it are exact in float32, which the joined one holds."""


def join_constants(calls: ImportedCalls) -> ImportedCalls:
    """The same calls; products of bytes with too many buffers have one for their constants."""
    joined = (_joined(call, number) for number, call in enumerate(calls.calls))
    return replace(calls, calls=tuple(joined))


def _joined(call: ProgramCall, number: int) -> ProgramCall:
    program = call.program
    bound = sum(b.role in ("input", "output") for b in program.buffers)
    if bound < MAX_BUFFERS:
        return call
    if (product := recognize_int8(program)) is not None:
        weight = product.packed.buffer
    elif (conv := recognize_depthwise_bytes(program)) is not None:
        weight, bound = conv.weights, bound + 1  # of its sums
    else:
        return call
    if bound <= MAX_BUFFERS:
        return call
    pairs = list(zip(program.buffers, call.inputs, strict=False))
    small = [(b, v) for b, v in pairs if b.name != weight and _is_small(v)]
    if len(small) < 2:
        return call
    places, parts, at = {}, [], 0
    for buffer, value in small:
        assert value.constant is not None
        places[buffer.name] = at
        data = value.constant.astype(np.float32).reshape(-1)
        parts.append(np.pad(data, (0, -data.size % LANES)))
        at += parts[-1].size
    kept = [(b, v) for b, v in pairs if b.name not in places]
    data = np.concatenate(parts)
    held = Value(f"constants of call {number}", data.shape, "f32", data)
    return replace(
        call,
        program=_reading(program, kept, places, data.size),
        inputs=(*(v for _, v in kept), held),
    )


def _is_small(value: Value) -> bool:
    data = value.constant
    if data is None or data.size > _MOST_ELEMENTS:
        return False
    return value.dtype == "f32" or (value.dtype == "i32" and bool((np.abs(data) < _EXACT).all()))


def _reading(
    program: Program, kept: Iterable[tuple[Buffer, Value]], places: dict[str, int], size: int
) -> Program:
    """The program with the last of its inputs in the place of several."""
    inputs = [b for b, _ in kept]
    names = {b.name: f"in{i}" for i, b in enumerate(inputs)}
    constants = Buffer(f"in{len(inputs)}", "f32", (size,), "input", True)
    dtypes = {b.name: b.dtype for b in program.buffers}

    def read(e: Expr) -> Expr | None:
        if not isinstance(e, Load):
            return None
        index = rewrite(e.index, read)
        if e.buffer not in places:
            return Load(names.get(e.buffer, e.buffer), index)
        held = Load(constants.name, plus(index, places[e.buffer]))
        return Cast(held, "i32") if dtypes[e.buffer] == "i32" else held

    def store(s: Store) -> Store:
        return Store(s.buffer, rewrite(s.index, read), rewrite(s.value, read))

    others = [b for b in program.buffers if b.role != "input"]
    buffers = (*(replace(b, name=names[b.name]) for b in inputs), constants, *others)
    return replace(
        program, buffers=buffers, stages=tuple(map_stores(s, store) for s in program.stages)
    )
