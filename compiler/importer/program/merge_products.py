"""Products of one input with several weights become one: Q, K and V of attention, gate and up.

Weights are float32, or in blocks with scales and zero points. They stand side by side in one, the
results are slices of its output. That pays where every reader of a slice can read it in place; a
merge whose slices would have to be copied is undone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.importer.program.fold_views import fold_views
from nnjit_studio.compiler.importer.program.part_gates import part_gates
from nnjit_studio.compiler.ir.affine import linear_form
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.recognize.contraction import ACCUMULATOR, Contraction
from nnjit_studio.compiler.recognize.matmul import recognize
from nnjit_studio.compiler.recognize.quantised import WORD_BITS, recognize_blocks
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, Origin, ProgramCall, Value

_NEAR = 16
"""Calls between the first and the last of a group: later ones would keep the input alive."""


@dataclass(frozen=True)
class _Product:
    """``out[m, n] = sum_k a[m, k] * w[k, n] (+ bias[n])``, all dense; ``w`` may be in blocks."""

    call: ProgramCall
    position: int
    m: int
    n: int
    k: int
    a: Value
    weights: tuple[Value, ...]
    """The matrix; in blocks its words, scales and, if there are any, zero points."""
    bias: Value | None
    block: int = 0
    """In blocks: steps of k that share a scale."""
    zero: float = 0.0
    """In blocks: the zero point where there is no buffer of them."""
    bits: int = 32
    """Of an element of the matrix."""


def merge_products(calls: ImportedCalls) -> ImportedCalls:
    """The same model with views folded and products of one input merged where that pays."""
    parted = part_gates(calls)
    groups = _groups(parted)
    while groups:
        merged = _merged(parted, groups)
        folded = fold_views(merged)
        left = {value.name for call in folded.calls for value in call.outputs}
        kept = [g for g in groups if not any(p.call.outputs[0].name in left for p in g)]
        if len(kept) == len(groups):
            return folded
        groups = kept
    return fold_views(calls)


def _groups(calls: ImportedCalls) -> list[list[_Product]]:
    results = {value.name for value in calls.outputs}
    open_groups: dict[tuple[object, ...], list[_Product]] = {}
    groups: list[list[_Product]] = []
    for position, call in enumerate(calls.calls):
        product = _product(call, position)
        if product is None or call.outputs[0].name in results:
            continue
        p = product
        key = (p.a.name, p.m, p.k, p.block, p.zero, p.bits, len(p.weights))
        group = open_groups.get(key)
        if group is None or position - group[0].position > _NEAR:
            group = open_groups[key] = []
            groups.append(group)
        group.append(product)
    groups = [group for group in groups if len(group) > 1]
    # A weight that others read too would be there twice.
    used: dict[str, set[tuple[str, ...]]] = {}
    for group in groups:
        for product in group:
            used.setdefault(product.weights[0].name, set()).add(_names(group))
    inside = {id(p.call) for group in groups for p in group}
    outside = {v.name for c in calls.calls if id(c) not in inside for v in c.inputs}
    return [
        group
        for group in groups
        if all(_name(p) not in outside and len(used[_name(p)]) == 1 for p in group)
    ]


def _names(group: Sequence[_Product]) -> tuple[str, ...]:
    return tuple(_name(p) for p in group)


def _name(p: _Product) -> str:
    return p.weights[0].name


def _product(call: ProgramCall, position: int) -> _Product | None:
    program = call.program
    if len(call.outputs) != 1 or not any(b.constant for b in program.buffers):
        return None
    blocks = recognize_blocks(program)
    c = blocks.contraction if blocks is not None else recognize(program)
    if c is None or c.batch or not c.packable or (c.a.offset, c.a.column) != (0, 1):
        return None
    if (blocks is None or c.m > 1) and c.a.row != c.k:
        return None
    given = dict(zip((b.name for b in program.buffers), call.inputs, strict=False))
    a, weight = given[c.a.buffer], given[c.b.buffer]
    (store,) = c.epilogue
    form = linear_form(store.index)
    rows = {c.m_var: c.n} if c.m > 1 else {}
    if form != (0, {**rows, c.n_var: 1}) or a.constant is not None:
        return None
    bias = _bias(store.value, c, given)
    plain = store.value == Var(ACCUMULATOR)
    if bias is None and not plain:
        return None
    if blocks is None:
        single = (weight,) if weight.dtype == "f32" else None
        return single and _Product(call, position, c.m, c.n, c.k, a, single, bias)
    if blocks.group_stride != c.n:
        return None
    weights, zero = [weight, given[blocks.scale]], blocks.zero
    if isinstance(zero, str):
        weights.append(given[zero])
        zero = 0.0
    sizes, held = (c.m, c.n, c.k), (blocks.block, zero, blocks.bits)
    return _Product(call, position, *sizes, a, tuple(weights), bias, *held)


def _bias(value: Expr, c: Contraction, given: dict[str, Value]) -> Value | None:
    if not isinstance(value, Binary) or value.op != "add":
        return None
    sides = (value.a, value.b)
    load = next((s for s in sides if isinstance(s, Load)), None)
    if (
        Var(ACCUMULATOR) not in sides
        or load is None
        or linear_form(load.index) != (0, {c.n_var: 1})
    ):
        return None
    bias = given[load.buffer]
    return bias if bias.constant is not None and bias.constant.size == c.n else None


def _merged(calls: ImportedCalls, groups: Sequence[Sequence[_Product]]) -> ImportedCalls:
    heads = {group[0].position: group for group in groups}
    members = {p.position for group in groups for p in group}
    result: list[ProgramCall] = []
    for position, call in enumerate(calls.calls):
        if position in heads:
            result += _one(heads[position])
        elif position not in members:
            result.append(call)
    return replace(calls, calls=tuple(result))


def _one(group: Sequence[_Product]) -> list[ProgramCall]:
    """The product of all weights, and a slice for each result."""
    first = group[0]
    m, n = first.m, sum(p.n for p in group)
    weights = [_beside(group, i) for i in range(len(first.weights))]
    inputs, biased = [first.a, *weights], any(p.bias for p in group)
    if biased:
        parts = [_vector(p) for p in group]
        names = "|".join(p.bias.name if p.bias else str(p.n) for p in group)
        inputs.append(Value(names, (n,), "f32", np.concatenate(parts)))
    whole = Value("|".join(p.call.outputs[0].name for p in group), (m, n), "f32")
    nodes = tuple(dict.fromkeys(name for p in group for name in p.call.origin.nodes))
    parts_of = [name for p in group for name in p.call.origin.tensors[:1]]
    tensors = ("|".join(parts_of),) if len(parts_of) == len(group) and all(parts_of) else ()
    origin = Origin(nodes, tensors)
    joined = ProgramCall(_program(first, weights, n, biased), tuple(inputs), (whole,), origin)
    result = [joined]
    start = 0
    for p in group:
        origin = replace(p.call.origin, nodes=())
        result.append(ProgramCall(_slice(p, n, start), (whole,), p.call.outputs, origin))
        start += p.n
    return result


def _beside(group: Sequence[_Product], which: int) -> Value:
    """The weights, or their scales or zero points, side by side."""
    values = [p.weights[which] for p in group]
    parts = [
        v.constant.reshape(-1, p.n)
        for v, p in zip(values, group, strict=True)
        if v.constant is not None
    ]
    whole = np.concatenate(parts, axis=1)
    return Value("|".join(v.name for v in values), whole.shape, values[0].dtype, whole)


def _vector(p: _Product) -> NDArray[np.float32]:
    if p.bias is None:
        return np.zeros(p.n, np.float32)
    assert p.bias.constant is not None
    return p.bias.constant.reshape(p.n)


def _at(row: str, step: int, column: str, offset: int = 0) -> Expr:
    total: Expr = Var(row) * step + Var(column)
    return total + offset if offset else total


def _program(first: _Product, weights: Sequence[Value], n: int, biased: bool) -> Program:
    m, k = first.m, first.k
    out, result = _at("i0", n, "i1"), "ws0" if biased else "out0"
    reduced, product = _blocks(first, n) if first.block else _floats(k, n)
    axes = (Axis("i0", m), Axis("i1", n))
    stages = [
        Stage(
            "matmul",
            (*axes, *reduced),
            (Store(result, out, Load(result, out) + product),),
            (Store(result, out, Const(0.0, "f32")),),
        )
    ]
    buffers = [Buffer("in0", "f32", first.a.shape, "input")]
    buffers += [Buffer(f"in{i}", w.dtype, w.shape, "input", True) for i, w in enumerate(weights, 1)]
    if biased:
        bias = f"in{len(buffers)}"
        total = Load("ws0", out) + Load(bias, Var("i1"))
        stages.append(Stage("add", axes, (Store("out0", out, total),)))
        buffers.append(Buffer(bias, "f32", (n,), "input", True))
    buffers.append(Buffer("out0", "f32", (m, n), "output"))
    if biased:
        buffers.append(Buffer("ws0", "f32", (m, n), "workspace"))
    return Program("matmul_add" if biased else "matmul", tuple(buffers), tuple(stages))


def _floats(k: int, n: int) -> tuple[tuple[Axis, ...], Expr]:
    product = Load("in0", _at("i0", k, "i2")) * Load("in1", _at("i2", n, "i1"))
    return (Axis("i2", k, "reduce"),), product


def _blocks(p: _Product, n: int) -> tuple[tuple[Axis, ...], Expr]:
    """As :func:`recognize_blocks` reads it: block ``i2``, word ``i3`` of a block, value ``i4``."""
    per_word = WORD_BITS // p.bits
    words = p.block // per_word
    axes = (p.k // p.block, words, per_word)
    reduced = tuple(Axis(f"i{i}", extent, "reduce") for i, extent in enumerate(axes, 2))
    row = Var("i2") * words + Var("i3")
    word = Load("in1", row * n + Var("i1"))
    low = Binary("shr", word, Var("i4") * p.bits)
    bits = Binary("bitand", low, Const((1 << p.bits) - 1, "i32"))
    group = _at("i2", n, "i1")
    zero = Cast(Load("in3", group), "f32") if len(p.weights) > 2 else Const(p.zero, "f32")
    factor = Load("in0", Var("i0") * p.k + (row * per_word + Var("i4")))
    value = Binary("sub", Cast(bits, "f32"), zero)
    return reduced, factor * (value * Load("in2", group))


def _slice(p: _Product, n: int, start: int) -> Program:
    shape = p.call.outputs[0].shape
    assert math.prod(shape) == p.m * p.n
    store = Store("out0", _at("i0", p.n, "i1"), Load("in0", _at("i0", n, "i1", start)))
    buffers = (Buffer("in0", "f32", (p.m, n), "input"), Buffer("out0", "f32", shape, "output"))
    stage = Stage("slice", (Axis("i0", p.m), Axis("i1", p.n)), (store,))
    return Program("slice", buffers, (stage,))
