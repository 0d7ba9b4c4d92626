"""Several counts: the smaller of two, parts that are joined, the largest of what was found."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

from nnjit_studio.compiler.importer.onnx.found.sizes import Linear, linear_result
from nnjit_studio.compiler.importer.onnx.found.walk import Found, FoundWalk, along, too_much
from nnjit_studio.compiler.importer.onnx.walk import Walk, attribute_of


def numbers(w: FoundWalk, node: onnx.NodeProto) -> None:
    """Keep a node that reads numbers which follow from counts, and know its own where they do."""
    known = {n: w.linear[n] for n in node.input if n in w.linear}
    counts = {numbers.count for numbers in known.values()}
    if len(counts) > 1:
        Walk.plain(w, node)
        return
    result = linear_result(w, node, known, w.most[counts.pop()])
    if isinstance(result, Linear):
        _know(w, node, result)
    elif result is not None:
        w.settle(node.output[0], result)
    elif node.op_type in _NUMBERS:
        _NUMBERS[node.op_type](w, node)
    else:
        Walk.plain(w, node)


def _know(w: FoundWalk, node: onnx.NodeProto, result: Linear) -> None:
    Walk.plain(w, node)
    kind = helper.np_dtype_to_tensor_dtype(result.none.dtype)
    w.types[node.output[0]] = helper.make_tensor_type_proto(kind, result.none.shape)
    w.linear[node.output[0]] = result


def _over_all(w: FoundWalk, node: onnx.NodeProto) -> Linear | None:
    """What a reduction of a line to one number reads."""
    line = w.linear.get(node.input[0])
    axes = attribute_of(node, "axes")
    if len(node.input) > 1 and node.input[1]:
        axes = w.values[node.input[1]].tolist() if node.input[1] in w.values else ()
    whole = axes is None and not attribute_of(node, "noop_with_empty_axes", 0)
    return line if line and line.none.ndim == 1 and (whole or axes in ([0], [-1])) else None


def _one(node: onnx.NodeProto, none: int, each: int, like: Linear, count: str) -> Linear:
    shape = (1,) if attribute_of(node, "keepdims", 1) else ()
    dtype = like.none.dtype
    return Linear(np.full(shape, none, dtype), np.full(shape, each, dtype), count)


def _fewest(w: FoundWalk, node: onnx.NodeProto) -> None:
    """Of a count and numbers that are known."""
    line = _over_all(w, node)
    if line is None:
        Walk.plain(w, node)
        return
    counts = (line.none == 0) & (line.each == 1)
    limits = line.none[line.each == 0]
    if (counts | (line.each == 0)).all() and limits.size and limits.min() > 0:
        found = w.at_most(Found(0, line.count), int(limits.min()))
        _know(w, node, _one(node, 0, 1, line, found.count))
    else:
        Walk.plain(w, node)


def _product(w: FoundWalk, node: onnx.NodeProto) -> None:
    line = _over_all(w, node)
    if line is None or np.count_nonzero(line.each) > 1:
        Walk.plain(w, node)
        return
    at = int(np.argmax(line.each != 0))
    others = math.prod(np.delete(line.none, at).tolist())
    none, each = others * int(line.none[at]), others * int(line.each[at])
    most = np.iinfo(line.none.dtype).max
    if each and max(abs(none), abs(each), abs(none + each * w.most[line.count])) <= most:
        _know(w, node, _one(node, none, each, line, line.count))
    else:
        Walk.plain(w, node)


def _constant(w: FoundWalk, node: onnx.NodeProto) -> None:
    """As long as something found."""
    shape = w.linear[node.input[0]]
    (places,) = np.nonzero(shape.each)
    if len(places) != 1 or shape.none[places[0]]:
        raise too_much(node)
    axis = int(places[0])
    node.input[0] = w.constant(shape.at(w.most[shape.count]))
    w.keep(node, Found(axis, shape.count, int(shape.each[axis])))


def _repeated(w: FoundWalk, node: onnx.NodeProto) -> None:
    """What is known, once for each that was found."""
    source, target = node.input
    shape, to = w.shape(source), w.linear.get(target)
    if shape is None or to is None:
        raise too_much(node)
    (places,) = np.nonzero(to.each)
    if len(places) != 1 or to.none[places[0]]:
        raise too_much(node)
    behind = len(to.none) - int(places[0])
    if len(shape) >= behind and shape[-behind] != 1:
        raise too_much(node)
    node.input[1] = w.constant(to.at(w.most[to.count]))
    axis = max(len(shape), len(to.none)) - behind
    w.keep(node, Found(axis, to.count, int(to.each[places[0]])))


def _numbered(w: FoundWalk, node: onnx.NodeProto) -> None:
    """The numbers of what was found, from 0 on."""
    start, limit, step = node.input
    line = w.linear.get(limit)
    if line is None or line.none.any() or w.values.get(start) != 0 or w.values.get(step) != 1:
        raise too_much(node)
    node.input[1] = w.constant(line.at(w.most[line.count]))
    w.keep(node, Found(0, line.count, int(line.each.item())))


def _nothing(w: FoundWalk, node: onnx.NodeProto) -> None:
    """Whether nothing was found, as far as that is the question."""
    Walk.plain(w, node)
    for name, other in (node.input, node.input[::-1]):
        line, value = w.linear.get(name), w.values.get(other)
        if line is None or value is None or line.none.size != 1 or value.size != 1:
            continue
        if line.none.item() == value.item() and line.each.item():
            w.nothing[node.output[0]] = line.count


_NUMBERS: dict[str, Callable[[FoundWalk, onnx.NodeProto], None]] = {
    "ConstantOfShape": _constant,
    "Equal": _nothing,
    "Expand": _repeated,
    "Range": _numbered,
    "ReduceMin": _fewest,
    "ReduceProd": _product,
}


def joined(w: FoundWalk, node: onnx.NodeProto, axis: int) -> None:
    """Parts one behind another along an axis of which not all is there: the rows that are."""
    shapes = [w.shape(n) for n in node.input]
    if any(s is None or w.found.get(n, Found(axis, "")).axis != axis
           for n, s in zip(node.input, shapes, strict=True)):  # fmt: skip
        raise too_much(node)
    sizes = [s[axis] for s in shapes if s]
    parts = [w.found.get(n) for n in node.input]
    key = tuple((p.count, p.times) if p else n for p, n in zip(parts, sizes, strict=True))
    if key not in w.joins:
        masks = [
            w.mask(p, 0) if p else w.constant(np.ones(n, np.bool_))
            for p, n in zip(parts, sizes, strict=True)
        ]
        name = f"{node.output[0]}//places"
        there = w.raw("Concat", *masks, axis=0)
        w.visit(helper.make_node("NonZero", [there], [name], node.name))
        rows = helper.make_node("Reshape", [name, w.constant(np.array([-1]))], [f"{name}//row"])
        w.visit(rows)
        w.joins[key] = f"{name}//row"
        w.makers[w.found[name].count] = next(w.makers[p.count] for p in parts if p)
    row = w.joins[key]
    whole = w.raw("Concat", *node.input, axis=axis)
    gather = helper.make_node("Gather", [whole, row], node.output, node.name, axis=axis)
    w.keep(gather, along(w.found[row], axis))


def largest(w: FoundWalk, node: onnx.NodeProto) -> None:
    """TopK, along what was found of no more than that."""
    if len(node.input) != 2:  # before opset 10 the number is an attribute
        raise too_much(node)
    source, number = node.input
    found, shape = w.of(source)
    axis = attribute_of(node, "axis", -1) % len(shape)
    if axis != found.axis and number in w.values:
        w.keep(node, found)
        return
    wanted = w.linear.get(number)
    if (
        axis != found.axis
        or found.times != 1
        or wanted is None
        or wanted.none.any()
        or (wanted.each != 1).any()
        or found.count not in (wanted.count, w.fewer_than.get(wanted.count))
    ):
        raise too_much(node)
    kind = helper.tensor_dtype_to_np_dtype(w.types[source].tensor_type.elem_type)
    low, high = (
        (-math.inf, math.inf) if kind.kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max)
    )
    last = low if attribute_of(node, "largest", 1) else high
    most = w.constant(np.array([w.most[wanted.count]]))
    node.input[:] = [w.masked(source, last), most]
    w.keep(node, Found(axis, wanted.count))
