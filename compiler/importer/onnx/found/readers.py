"""What operators make of tensors of which a part is there: the part of their results, or a result
that is whole."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

from nnjit_studio.compiler.importer.onnx.found.regions import from_the_end, regions, rows, scatter
from nnjit_studio.compiler.importer.onnx.found.several import joined, largest, numbers
from nnjit_studio.compiler.importer.onnx.found.walk import Found, FoundWalk, along, too_much
from nnjit_studio.compiler.importer.onnx.walk import Walk, attribute_of

Reader = Callable[[FoundWalk, onnx.NodeProto], None]


def _pointwise(w: FoundWalk, node: onnx.NodeProto) -> None:
    """Along one axis, counted from the last one; others are one long there."""
    names = [n for n in node.input if n]
    places = {
        (len(s) - f.axis, f.count, f.times) for f, s in (w.of(n) for n in names if n in w.found)
    }
    (behind, count, times), *others = places
    for name in names:
        shape = w.shape(name)
        if others or shape is None:
            raise too_much(node)
        if name not in w.found and len(shape) >= behind and shape[-behind] != 1:
            raise too_much(node)
    rank = max(len(w.shape(n) or ()) for n in names)
    w.keep(node, Found(rank - behind, count, times))


def _axes(w: FoundWalk, node: onnx.NodeProto, rank: int) -> list[int] | None:
    """Axes by attribute or as an input; None where there are none."""
    axes = attribute_of(node, "axes")
    if axes is None and len(node.input) > 1 and node.input[1]:
        if node.input[1] not in w.values:
            raise too_much(node)
        axes = w.values[node.input[1]].reshape(-1).tolist()
    return None if axes is None else sorted(int(a) % rank for a in axes)


def _transpose(w: FoundWalk, node: onnx.NodeProto) -> None:
    found, shape = w.of(node.input[0])
    order = list(attribute_of(node, "perm", range(len(shape))[::-1]))
    w.keep(node, along(found, order.index(found.axis)))


def _unsqueeze(w: FoundWalk, node: onnx.NodeProto) -> None:
    found, shape = w.of(node.input[0])
    new = attribute_of(node, "axes")
    if new is None:
        new = w.values[node.input[1]].reshape(-1).tolist() if node.input[1] in w.values else ()
    rank = len(shape) + len(new)
    left = sorted(set(range(rank)) - {a % rank for a in new})
    if not new:
        raise too_much(node)
    w.keep(node, along(found, left[found.axis]))


def _squeeze(w: FoundWalk, node: onnx.NodeProto) -> None:
    found, shape = w.of(node.input[0])
    axes = _axes(w, node, len(shape))
    if axes is None or found.axis in axes:
        raise too_much(node)
    w.keep(node, along(found, found.axis - sum(a < found.axis for a in axes)))


def _reshape(w: FoundWalk, node: onnx.NodeProto) -> None:
    """The axis may take in, or give back, all that lies behind it."""
    source, target = node.input
    found, shape = w.of(source)
    if target in w.linear and w.linear[target].count == found.count:
        none, each = w.linear[target].none.tolist(), w.linear[target].each.tolist()
    elif target in w.values:
        none = w.values[target].tolist()
        each = [0] * len(none)
    else:
        raise too_much(node)
    whole = attribute_of(node, "allowzero", 0)
    for i, n in enumerate(none):
        if n == 0 and not each[i] and not whole:
            none[i], each[i] = (0, found.times) if i == found.axis else (shape[i], 0)
    ahead, behind = math.prod(shape[: found.axis]), math.prod(shape[found.axis + 1 :])
    if any(each) and -1 in none:  # what is left for another axis
        left = math.prod(e or n for n, e in zip(none, each, strict=True) if n != -1)
        more, over = divmod(ahead * found.times * behind, left) if left > 0 else (0, 1)
        none[none.index(-1)] = -1 if over else more
    places = [i for i, n in enumerate(none) if each[i] or n == -1]
    at = places[0] if len(places) == 1 else -1
    rest = math.prod(none[at + 1 :])
    times, over = divmod(found.times * behind, rest) if rest > 0 else (0, 1)
    given = at >= 0 and (none[at], each[at]) in ((-1, 0), (0, times))
    if not given or over or math.prod(none[:at]) != ahead:
        raise too_much(node)
    result = Found(at, found.count, times)
    none[at] = w.size(result)
    w.keep(_with(node, source, w.constant(np.array(none, np.int64))), result)


def _flatten(w: FoundWalk, node: onnx.NodeProto) -> None:
    """The axis may take in all that lies behind it on its side."""
    found, shape = w.of(node.input[0])
    axis = attribute_of(node, "axis", 1)
    axis += len(shape) * (axis < 0)
    begin, end = (0, axis) if found.axis < axis else (axis, len(shape))
    if math.prod(shape[begin : found.axis]) != 1:
        raise too_much(node)
    behind = math.prod(shape[found.axis + 1 : end])
    w.keep(node, Found(int(begin > 0 or axis == 0), found.count, found.times * behind))


def _with(node: onnx.NodeProto, *inputs: str) -> onnx.NodeProto:
    """The node with other inputs."""
    node.input[:] = inputs
    return node


def _gather(w: FoundWalk, node: onnx.NodeProto) -> None:
    data, places = node.input
    shape, given = w.shape(data), w.shape(places)
    if shape is None or given is None:
        raise too_much(node)
    axis = attribute_of(node, "axis", 0) % len(shape)
    found = w.found.get(places)
    if found is not None:
        found = along(found, axis + found.axis)
    if data in w.found:
        rows = w.found[data]
        if rows.axis != axis:
            if found is not None:
                raise too_much(node)
            found = along(rows, rows.axis + (len(given) - 1 if rows.axis > axis else 0))
        else:
            places = from_the_end(w, places, w.times(rows))
    _with(node, data, places)
    if found is None:
        Walk.plain(w, node)
    else:
        w.keep(node, found)


def _gather_nd(w: FoundWalk, node: onnx.NodeProto) -> None:
    data, places = node.input
    given = w.shape(places)
    batched = attribute_of(node, "batch_dims", 0)
    if data in w.found or batched or given is None or w.found[places].axis == len(given) - 1:
        raise too_much(node)
    w.keep(node, w.found[places])


def _slice(w: FoundWalk, node: onnx.NodeProto) -> None:
    """Along the axis only from the first element on, up to a number or to the end."""
    source, *limits = node.input
    if source not in w.found or len(limits) < 2:
        raise too_much(node)
    found, shape = w.of(source)
    last = w.linear.get(limits[1])
    if last and last.count == found.count:
        node.input[2] = limits[1] = w.constant(last.at(w.most[found.count]))
    if any(n and n not in w.values for n in limits):
        raise too_much(node)
    starts, ends = (w.values[n].reshape(-1).tolist() for n in limits[:2])
    axes, steps = range(len(starts)), [1] * len(starts)
    if len(limits) > 2 and limits[2]:
        axes = w.values[limits[2]].reshape(-1).tolist()
    if len(limits) > 3 and limits[3]:
        steps = w.values[limits[3]].reshape(-1).tolist()
    if last and any(
        each and (axis % len(shape), none, each) != (found.axis, 0, found.times)
        for axis, none, each in zip(axes, last.none, last.each, strict=True)
    ):  # not up to all that is there
        raise too_much(node)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if axis % len(shape) != found.axis:
            continue
        if start or end < 0 or step != 1 or found.times != 1:
            raise too_much(node)
        if end < w.size(found):
            found = w.at_most(found, end)
    w.keep(node, found)


def _concat(w: FoundWalk, node: onnx.NodeProto) -> None:
    shape = w.shape(node.input[0])
    (one, *others) = {w.found.get(n) for n in node.input}
    if shape is None:
        raise too_much(node)
    axis = attribute_of(node, "axis") % len(shape)
    if len(node.input) > 1 and (others or one is None or one.axis == axis):
        joined(w, node, axis)
    else:
        assert one is not None
        w.keep(node, one)


def _along_another(w: FoundWalk, node: onnx.NodeProto) -> None:
    """What works along an axis of which all is there; a softmax of old opsets along all behind."""
    found, shape = w.of(node.input[0])
    old = w.opsets[""] < 13 and node.op_type != "Split"
    default = 0 if node.op_type == "Split" else 1 if old else -1
    axis = attribute_of(node, "axis", default) % len(shape)
    if axis == found.axis or (old and axis < found.axis):
        raise too_much(node)
    w.keep(node, found)


def _reduce(w: FoundWalk, node: onnx.NodeProto) -> None:
    found, shape = w.of(node.input[0])
    if node.op_type.startswith("Arg"):
        axes = [attribute_of(node, "axis", 0) % len(shape)]
    else:
        axes = _axes(w, node, len(shape)) or []
    if not axes and not attribute_of(node, "noop_with_empty_axes", 0):
        axes = list(range(len(shape)))
    if found.axis not in axes:
        kept = attribute_of(node, "keepdims", 1)
        before = 0 if kept else sum(a < found.axis for a in axes)
        w.keep(node, along(found, found.axis - before))
        return
    if node.op_type == "ReduceMean":
        _mean(w, node, axes)
        return
    value = {"ReduceMax": -math.inf, "ReduceMin": math.inf, "ReduceSum": 0}.get(node.op_type)
    kind = helper.tensor_dtype_to_np_dtype(w.types[node.input[0]].tensor_type.elem_type)
    if value is None or (kind.kind != "f" and value):
        raise too_much(node)
    Walk.plain(w, _with(node, w.masked(node.input[0], value), *node.input[1:]))


def _mean(w: FoundWalk, node: onnx.NodeProto, axes: list[int]) -> None:
    """A sum of what is there, over how much that is: 0 of nothing, as native ONNX Runtime."""
    found, shape = w.of(node.input[0])
    dtype = w.types[node.input[0]].tensor_type.elem_type
    if helper.tensor_dtype_to_np_dtype(dtype).kind != "f":
        raise too_much(node)
    kept = attribute_of(node, "keepdims", 1)
    total = w.emit("ReduceSum", w.masked(node.input[0], 0), axes=axes, keepdims=kept)
    others = math.prod(shape[a] for a in axes if a != found.axis)
    count = w.emit("Mul", w.times(found), w.constant(np.array([others], np.int64)))
    count = w.emit("Max", count, w.constant(np.array([1], np.int64)))
    number = w.emit("Reshape", count, w.constant(np.array([], np.int64)))
    node.input[:] = [total, w.emit("Cast", number, to=dtype)]
    node.op_type = "Div"
    del node.attribute[:]
    Walk.plain(w, node)


def _expand(w: FoundWalk, node: onnx.NodeProto) -> None:
    source, target = node.input
    numbers = w.linear.get(target)
    if source not in w.found or numbers is None or numbers.count != w.found[source].count:
        raise too_much(node)
    found, shape = w.of(source)
    behind = len(shape) - found.axis
    wanted = np.zeros_like(numbers.each)
    if behind > len(wanted):
        raise too_much(node)
    wanted[-behind] = found.times
    if numbers.none[-behind] or not np.array_equal(numbers.each, wanted):
        raise too_much(node)
    to = numbers.none + numbers.each * w.most[found.count]
    rank = max(len(shape), len(to))
    w.keep(_with(node, source, w.constant(to)), along(found, rank - behind))


def _pad(w: FoundWalk, node: onnx.NodeProto) -> None:
    """Behind what is there, up to a length that is known; or along other axes alone."""
    inputs: list[str] = [*node.input, ""]
    source, pads, *rest = inputs
    if source not in w.found:
        raise too_much(node)
    found, shape = w.of(source)
    if pads in w.values and not any(rest[1:]):
        if w.values[pads].reshape(2, -1)[:, found.axis].any():
            raise too_much(node)
        w.keep(node, found)
        return
    if pads not in w.linear:
        raise too_much(node)
    numbers = w.linear[pads]
    value = rest[0] if rest and rest[0] else ""
    mode = attribute_of(node, "mode", b"constant")
    if numbers.count != found.count or mode != b"constant" or any(rest[1:]):
        raise too_much(node)
    if value and value not in w.values:
        raise too_much(node)
    wanted = np.zeros(2 * len(shape), np.int64)
    wanted[len(shape) + found.axis] = -found.times
    none = numbers.none.copy()
    length = int(none[len(shape) + found.axis])
    if not np.array_equal(numbers.each, wanted) or none[found.axis] or length < 1:
        raise too_much(node)
    filler = w.values[value].reshape(-1)[0] if value else 0
    room = w.size(found)
    whole = w.masked(source, filler)
    if length < room:
        ends = [w.constant(np.array([n], np.int64)) for n in (0, length, found.axis)]
        whole = w.raw("Slice", whole, *ends)
    none[len(shape) + found.axis] = max(length - room, 0)
    Walk.plain(w, _with(node, whole, w.constant(none), *rest[:1]))


READERS: dict[str, Reader] = {
    **dict.fromkeys(
        ("Abs", "Add", "And", "Cast", "Ceil", "Clip", "Cos", "Div", "Equal", "Erf", "Exp", "Floor",
         "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul",
         "Neg", "Not", "Or", "Pow", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin",
         "Sqrt", "Sub", "Sum", "Tanh", "Where", "Xor"),
        _pointwise,
    ),
    **dict.fromkeys(("LogSoftmax", "Softmax", "Split"), _along_another),
    **dict.fromkeys(
        ("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "Gemm",
         "GlobalAveragePool", "MatMul", "MaxPool", "Resize"),
        rows,
    ),
    **dict.fromkeys(
        ("ArgMax", "ArgMin", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"), _reduce
    ),
    "Concat": _concat,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherND": _gather_nd,
    "Pad": _pad,
    "Reshape": _reshape,
    "RoiAlign": regions,
    "ScatterElements": scatter,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "TopK": largest,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}  # fmt: skip


def read_found(w: FoundWalk, node: onnx.NodeProto) -> None:
    """Keep a node that reads something found, or numbers that follow from a count.

    Raises
    ------
    UnsupportedOpError
        When it hangs on how much that is in a way that has no form here.
    """
    if w.found.keys().isdisjoint(node.input):
        numbers(w, node)
        return
    reader = READERS.get(node.op_type)
    others = reader in (_concat, _pointwise, _gather, _gather_nd, regions, scatter)
    # Those read it at other places too.
    if (
        reader is None
        or node.domain not in ("", "ai.onnx")
        or not (others or node.input[0] in w.found)
    ):
        raise too_much(node)
    reader(w, node)
