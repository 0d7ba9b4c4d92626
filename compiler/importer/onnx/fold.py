"""Shapes, constants and control flow in one walk over the nodes.

With every input's shape fixed, most of what exporters write around dynamic axes (Shape,
Gather, Concat, Range, Expand) is known ahead. One pass in order of execution infers each
node's output types, evaluates what depends on constants alone, and lays out If, Loop, Scan
and sequences flat, so that the importer behind it meets tensors of static shape only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from nnjit_studio.compiler.importer.onnx.control.bodies import LoopBody, kept, loop_of, scan_of
from nnjit_studio.compiler.importer.onnx.control.distances import squares_apart
from nnjit_studio.compiler.importer.onnx.control.frames import frames_of_line
from nnjit_studio.compiler.importer.onnx.control.slices import (
    as_data,
    count,
    outputs_as_data,
    resized,
    sliced,
)
from nnjit_studio.compiler.importer.onnx.forms import functions
from nnjit_studio.compiler.importer.onnx.found.readers import read_found
from nnjit_studio.compiler.importer.onnx.found.walk import FoundWalk
from nnjit_studio.compiler.importer.onnx.walk import Counted, Walk, attribute_of, refuse

MAX_TRIPS = 128
"""Iterations of a Loop or Scan: each becomes kernels of its own in the plan."""


def fold(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model itself, its graph replaced by the folded one.

    Raises
    ------
    UnsupportedOpError
        When control flow depends on data, or has more than ``MAX_TRIPS`` iterations.
    """
    return fold_for(model, {})[0]


def fold_for(
    model: onnx.ModelProto,
    given: Mapping[str, int],
    bodies: dict[str, LoopBody] | None = None,
    keep_ranges: bool = False,
) -> tuple[onnx.ModelProto, frozenset[str], Counted]:
    """Fold a model whose small inputs have values that are at hand.

    Parameters
    ----------
    given
        Values of inputs at hand; where control flow depends on them, the model is laid out for
        these.
    bodies
        Gets the bodies of loops that stay loops; all are laid out where it is None.
    keep_ranges
        Whether a Range over a size stays a computation, with all that follows from it.

    Returns
    -------
    tuple
        The model, those of the inputs whose values it is laid out for, and what was found of
        Ranges over sizes.

    Raises
    ------
    UnsupportedOpError
        When control flow depends on data, or has more than ``MAX_TRIPS`` iterations.
    """
    walk = FoundWalk(read_found, model, _RULES, given, bodies, keep_ranges)
    walk.limits = _limits_of_ranges(model.graph.node)
    walk.run(model.graph.node)
    outputs_as_data(walk, model.graph)
    walk.finish(model.graph)
    return model, frozenset(walk.relied), walk.counted


def _limits_of_ranges(nodes: Sequence[onnx.NodeProto]) -> set[str]:
    """Tensors that only Ranges read, as they are or behind a Cast."""
    counted: set[str] = set()
    others: set[str] = set()
    for node in reversed(nodes):
        ends = node.op_type == "Range" or (
            node.op_type == "Cast" and node.output[0] in counted - others
        )
        (counted if ends else others).update(node.input)
    return counted - others


def _shape(w: Walk, node: onnx.NodeProto) -> bool:
    shape = w.shape(node.input[0])
    if shape is None:
        return False
    part = shape[attribute_of(node, "start", 0) : attribute_of(node, "end", None)]
    w.settle(node.output[0], np.array(part, np.int64))
    w.counted.from_sizes.add(node.output[0])
    return True


def _size(w: Walk, node: onnx.NodeProto) -> bool:
    shape = w.shape(node.input[0])
    if shape is not None:
        w.settle(node.output[0], np.array(math.prod(shape), np.int64))
        w.counted.from_sizes.add(node.output[0])
    return shape is not None


def _range(w: Walk, node: onnx.NodeProto) -> bool:
    given = [w.values[n].reshape(-1)[0] for n in node.input if n in w.values]
    sized = not w.counted.from_sizes.isdisjoint(node.input)
    if not sized or len(given) < len(node.input) or any(v != int(v) for v in given):
        return False
    start, limit, step = map(int, given)
    w.counted.ends.append(limit)
    if w.counted.kept:
        kind = w.types[node.input[0]].tensor_type.elem_type
        numbers = {"start": start, "step": step, "count": len(range(start, limit, step))}
        count(w, node.output[0], node.name, kind, numbers)
    return w.counted.kept


def _gather(w: Walk, node: onnx.NodeProto) -> bool:
    source = node.input[0]
    if source in w.constants and source not in w.counted.from_sizes:
        as_data(w, node, 1)
    return False


def _cast(w: Walk, node: onnx.NodeProto) -> bool:
    floats = helper.tensor_dtype_to_np_dtype(attribute_of(node, "to")).kind == "f"
    if floats and node.output[0] not in w.limits:
        as_data(w, node, 0)
    return False


def _concat(w: Walk, node: onnx.NodeProto) -> bool:
    """Without parts that have no elements, such as those of heads that are rotated whole."""
    parts = [n for n in node.input if 0 not in (w.shape(n) or ())]
    if len(parts) == 1 < len(node.input):
        w.alias[node.output[0]] = parts[0]
        return True
    if parts:
        node.input[:] = parts
    if all(n in w.values for n in parts) and _is_data(w, parts[:1]):
        for position in range(len(parts)):
            as_data(w, node, position)
    return False


def _is_data(w: Walk, names: Sequence[str]) -> bool:
    """Whether a tensor is no shape: floats, or whole numbers in more than a row."""
    return any(w.values[n].dtype.kind == "f" or w.values[n].ndim > 1 for n in names)


def _identity(w: Walk, node: onnx.NodeProto) -> bool:
    w.alias[node.output[0]] = node.input[0]
    return True


def _if(w: Walk, node: onnx.NodeProto) -> bool:
    condition = node.input[0]
    branches = [attribute_of(node, "then_branch"), attribute_of(node, "else_branch")]
    decided = w.decides(condition)
    if decided is not None:
        taken = branches[0 if bool(decided.reshape(-1)[0]) else 1]
        w.alias.update(zip(node.output, w.inline(taken, []), strict=True))
        return True
    # Nothing has side effects: run both branches, then choose.
    if w.shape(condition) != ():  # one element has the shape [1], too
        condition = w.emit("Reshape", condition, w.constant(np.array([], np.int64)))
    for name, *both in zip(node.output, *(w.inline(b, []) for b in branches), strict=True):
        if w.shape(both[0]) is None or w.shape(both[0]) != w.shape(both[1]):
            raise refuse(node, "branches of one static shape, or a condition that is known ahead")
        w.alias[name] = w.emit("Where", condition, *both)
    return True


def _parts(w: Walk, node: onnx.NodeProto) -> bool:
    """Without parts that have no elements; ONNX Runtime refuses those that are not the whole."""
    lengths, shape = w.values.get((*node.input, "")[1]), w.shape(node.input[0])
    if shape is None:
        return False
    axis = attribute_of(node, "axis", 0) % len(shape)
    told = attribute_of(node, "split", None) if lengths is None else lengths
    if told is not None and sum(told) != shape[axis]:
        raise refuse(node, f"parts that add up to {shape[axis]}: they are {sum(told)}", _SIZES)
    if lengths is None or lengths.all():
        return False
    empty = np.zeros([0 if d == axis else n for d, n in enumerate(shape)])
    dtype = helper.tensor_dtype_to_np_dtype(w.types[node.input[0]].tensor_type.elem_type)
    for name, length in zip(node.output, lengths, strict=True):
        if not length:
            w.settle(name, empty.astype(dtype))
    node.output[:] = [n for n, length in zip(node.output, lengths, strict=True) if length]
    node.input[1] = w.constant(lengths[lengths != 0])
    if len(node.output) == 1:
        w.alias[node.output[0]] = node.input[0]
    return len(node.output) == 1


def _stacked(w: Walk, parts: Sequence[str], axis: int = 0) -> str:
    return w.emit("Concat", *(w.emit("Unsqueeze", p, axes=[axis]) for p in parts), axis=axis)


def _loop(w: Walk, node: onnx.NodeProto) -> bool:
    trips, condition, *carried = node.input
    body = attribute_of(node, "body")
    if kept(w, node, loop_of):
        return True
    count = w.decides(trips)
    if trips and count is None:
        raise refuse(node, "a trip count that is known ahead")
    limit = None if count is None else int(count.reshape(-1)[0])
    scans: list[list[str]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    done = 0
    while limit is None or done < limit:
        decided = w.decides(condition)
        if condition and decided is None:
            raise refuse(node, "a condition that is known ahead")
        if decided is not None and not bool(decided.reshape(-1)[0]):
            break
        if done == MAX_TRIPS:
            raise refuse(node, f"at most {MAX_TRIPS} iterations")
        goes_on = condition or w.constant(np.array(True))
        results = w.inline(body, [w.constant(np.array(done, np.int64)), goes_on, *carried])
        condition = results[0]
        carried = results[1 : 1 + len(carried)]
        for scan, part in zip(scans, results[1 + len(carried) :], strict=True):
            scan.append(part)
        done += 1
    if scans and not done:
        raise refuse(node, "at least one iteration")
    finals = [*carried, *(_stacked(w, scan) for scan in scans)]
    w.alias.update((n, f) for n, f in zip(node.output, finals, strict=True) if n)
    return True


def _scan(w: Walk, node: onnx.NodeProto) -> bool:
    body, count = attribute_of(node, "body"), attribute_of(node, "num_scan_inputs")
    states, sources = list(node.input[:-count]), node.input[-count:]
    axes = attribute_of(node, "scan_input_axes", [0] * count)
    backwards = attribute_of(node, "scan_input_directions", [0] * count)
    outs = len(body.output) - len(states)
    first = w.shape(sources[0])
    if w.opsets[""] < 9 or first is None:
        raise refuse(node, "opset 9 or later and inputs of known shape")
    if squares_apart(w, node) or kept(w, node, scan_of) or frames_of_line(w, node):
        return True
    trips = first[axes[0]]
    if trips > MAX_TRIPS:
        raise refuse(node, f"at most {MAX_TRIPS} iterations")
    scans: list[list[str]] = [[] for _ in range(outs)]
    for step in range(trips):
        parts = []
        for source, axis, backward in zip(sources, axes, backwards, strict=True):
            index = w.constant(np.array(trips - 1 - step if backward else step, np.int64))
            parts.append(w.emit("Gather", source, index, axis=axis))
        results = w.inline(body, [*states, *parts])
        states = results[: len(states)]
        for scan, part in zip(scans, results[len(states) :], strict=True):
            scan.append(part)
    turned = attribute_of(node, "scan_output_directions", [0] * outs)
    scans = [s[::-1] if t else s for s, t in zip(scans, turned, strict=True)]
    places = attribute_of(node, "scan_output_axes", [0] * outs)
    stacks = [_stacked(w, scan, axis) for scan, axis in zip(scans, places, strict=True)]
    w.alias.update((n, f) for n, f in zip(node.output, [*states, *stacks], strict=True) if n)
    return True


def _sequence(w: Walk, node: onnx.NodeProto) -> bool:
    """Sequences are lists of tensors that are known ahead; only their tensors stay."""
    kind, out = node.op_type, node.output[0]
    if kind == "SequenceEmpty":
        w.sequences[out] = []
        return True
    if kind == "SequenceConstruct":
        w.sequences[out] = list(node.input)
        return True
    if kind == "SplitToSequence":
        w.sequences[out] = _split(w, node)
        return True
    if node.input[0] not in w.sequences:
        raise refuse(node, "a sequence whose tensors are known ahead")
    parts = list(w.sequences[node.input[0]])
    if kind == "SequenceLength":
        w.settle(out, np.array(len(parts), np.int64))
    elif kind == "ConcatFromSequence":
        axis = attribute_of(node, "axis", 0)
        new = attribute_of(node, "new_axis", 0)
        w.alias[out] = _stacked(w, parts, axis) if new else w.emit("Concat", *parts, axis=axis)
    else:
        position = (*node.input, "", "")[2 if kind == "SequenceInsert" else 1]
        if position and position not in w.values:
            raise refuse(node, "a position that is known ahead")
        at = int(w.values[position].reshape(-1)[0]) if position else None
        if kind == "SequenceAt":
            w.alias[out] = parts[at or 0]
        elif kind == "SequenceErase":
            parts.pop(-1 if at is None else at)
            w.sequences[out] = parts
        else:
            parts.insert(len(parts) if at is None else at, node.input[1])
            w.sequences[out] = parts
    return True


def _split(w: Walk, node: onnx.NodeProto) -> list[str]:
    source, shape = node.input[0], w.shape(node.input[0])
    lengths = node.input[1] if len(node.input) > 1 else ""
    if shape is None or (lengths and lengths not in w.values):
        raise refuse(node, "an input of known shape and lengths that are known ahead")
    axis = attribute_of(node, "axis", 0) % len(shape)
    given = w.values[lengths] if lengths else np.array(1)
    whole = shape[axis]
    ends = np.cumsum(given) if given.ndim else np.arange(int(given), whole + int(given), int(given))
    parts, start = [], 0
    for end in np.minimum(ends, whole).tolist():
        bounds = (w.constant(np.array([n], np.int64)) for n in (start, end, axis))
        parts.append(w.emit("Slice", source, *bounds))
        start = end
    if not lengths and not attribute_of(node, "keepdims", 1):
        parts = [w.emit("Squeeze", part, axes=[axis]) for part in parts]
    return parts


def _elements(w: Walk, node: onnx.NodeProto) -> bool:
    """ONNX Runtime refuses more rows of indices than the data has along another axis."""
    data, places = map(w.shape, node.input)
    axis = attribute_of(node, "axis", 0)
    if data is None or places is None or len(data) != len(places):
        return False
    for i, (n, most) in enumerate(zip(places, data, strict=True)):
        if i != axis % len(data) and n > most:
            raise refuse(node, f"at most {most} rows of indices along axis {i}", _SIZES)
    return False


def _windows(w: Walk, node: onnx.NodeProto) -> bool:
    """ONNX Runtime refuses windows that do not fit into their map; a mean of nothing is NaN."""
    for found in w.infer(node).values():
        sizes = found.tensor_type.shape.dim[2:]
        if any(n.HasField("dim_value") and n.dim_value < 1 for n in sizes):
            raise refuse(node, "a map that its windows fit into", "Give larger sizes.")
    return False


_SIZES = "Give sizes at which they are, or correct the model."
_RULES = {
    **dict.fromkeys(functions.NAMES, functions.laid_out),
    **dict.fromkeys(("AveragePool", "Conv", "LpPool", "MaxPool"), _windows),
    "Cast": _cast,
    "Concat": _concat,
    "ConcatFromSequence": _sequence,
    "Gather": _gather,
    "GatherElements": _elements,
    "Identity": _identity,
    "If": _if,
    "Loop": _loop,
    "Range": _range,
    "Resize": resized,
    "Scan": _scan,
    "SequenceAt": _sequence,
    "SequenceConstruct": _sequence,
    "SequenceEmpty": _sequence,
    "SequenceErase": _sequence,
    "SequenceInsert": _sequence,
    "SequenceLength": _sequence,
    "Shape": _shape,
    "Size": _size,
    "Slice": sliced,
    "Split": _parts,
    "SplitToSequence": _sequence,
}
