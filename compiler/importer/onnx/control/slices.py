"""Slices whose limits are attributes, rows of a table that begin where a size tells, and tables
that are resized to a size."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper

from nnjit_studio.compiler.importer.onnx.walk import Walk, attribute_of
from nnjit_studio.compiler.tvm_adapter.counting import COUNTING_OP


def count(w: Walk, name: str, node: str, kind: int, numbers: Mapping[str, float]) -> None:
    """Keep a tensor of numbers as a computation."""
    dtype = helper.tensor_dtype_to_np_dtype(kind).name
    w.types[name] = helper.make_tensor_type_proto(kind, (numbers["count"],))
    w.kept.append(helper.make_value_info(name, w.types[name]))
    w.counted.sources[name] = frozenset([len(w.counted.ends) - 1])
    w.nodes.append(helper.make_node(COUNTING_OP, [], [name], node, dtype=dtype, **numbers))


def counted(w: Walk, node: str, kind: int, numbers: Mapping[str, float]) -> str:
    """The same under a name of its own."""
    w.count += 1
    count(w, name := f"folded//{w.count}", node, kind, numbers)
    return name


def as_data(w: Walk, node: onnx.NodeProto, position: int) -> None:
    """Have a node read numbers that hang on sizes as computed ones: counted, or equal floats."""
    name = node.input[position]
    values = w.values.get(name, np.zeros(0)).reshape(-1)
    whole = values.dtype.kind == "i"
    if name not in w.counted.from_sizes or not (whole or values.dtype == np.float32):
        return
    if not values.size:
        return
    start, step = values[0].item(), int(values[1] - values[0]) if whole and values.size > 1 else 0
    if not np.array_equal(values, start + step * np.arange(values.size)):
        return
    w.counted.ends.append(int(values.max()) + 1 if whole else 0)
    if w.counted.kept:
        numbers = {"start": start, "step": step, "count": values.size}
        line = counted(w, node.name, w.types[name].tensor_type.elem_type, numbers)
        to = w.constant(np.array(w.values[name].shape, np.int64))
        node.input[position] = w.emit("Reshape", line, to)


def outputs_as_data(w: Walk, graph: onnx.GraphProto) -> None:
    """Have outputs that hang on sizes computed: a constant has one size."""
    ports = onnx.NodeProto(input=[w.resolve(port.name) for port in graph.output])
    for position, port in enumerate(graph.output):
        as_data(w, ports, position)
        if ports.input[position] != w.resolve(port.name):
            w.alias[port.name] = ports.input[position]


def sliced(w: Walk, node: onnx.NodeProto) -> bool:
    """Read a constant table at counted places where they do not begin at its first one, as those
    of relative positions do, in the middle."""
    table, *limits = node.input
    if not limits:
        return _of_attributes(w, node)
    shape, given = w.shape(table), [w.values.get(n) for n in limits]
    begins = not w.counted.from_sizes.isdisjoint(limits[:1])
    if not begins or table not in w.constants or table in w.counted.from_sizes or shape is None:
        return False
    if any(value is None or value.size != 1 for value in given):
        return False
    numbers = [int(value.reshape(-1)[0]) for value in given if value is not None]
    start, end, axis, step = (*numbers, *(0, 1)[len(numbers) - 2 :])
    at = range(*slice(start, end, step).indices(shape[axis]))
    if not at:
        return False
    w.counted.ends.append(len(at))  # an extent of the model, where the end in the table is none
    if w.counted.kept:
        line = {"start": at.start, "step": at.step, "count": len(at)}
        places = counted(w, node.name, onnx.TensorProto.INT64, line)
        w.alias[node.output[0]] = w.emit("Gather", table, places, axis=axis)
    return w.counted.kept


def resized(w: Walk, node: onnx.NodeProto) -> bool:
    """Resize a constant table at run time where sizes tell how large, as positions of an image."""
    table, shape = node.input[0], w.shape(node.input[0])
    sized = not w.counted.from_sizes.isdisjoint(node.input[-1:])
    if not sized or not shape or table not in w.constants or node.input[-1] not in w.values:
        return False
    if table in w.values and np.all(w.values[table] == w.values[table].flat[0]):
        return False  # nor is the result anything else, which is kept once
    w.counted.ends.append(0)  # the table is read whole, however large the result is
    if w.counted.kept:
        to, axes = w.values[node.input[-1]], attribute_of(node, "axes")
        extents = np.array(shape)[axes or slice(None)]
        same = to == (extents if to.dtype.kind == "i" else 1)
        w.counted.level.setdefault(shape, set()).update(extents[same].tolist())
        line = {"start": 0, "step": 1, "count": shape[-1]}
        places = counted(w, node.name, onnx.TensorProto.INT64, line)
        node.input[0] = w.emit("Gather", table, places, axis=len(shape) - 1)
    return False


def _of_attributes(w: Walk, node: onnx.NodeProto) -> bool:
    """Before opset 10; of an end ahead of its start ONNX infers no size."""
    starts, shape = attribute_of(node, "starts"), w.shape(node.input[0])
    if starts is None or shape is None:
        return False
    left, axes = list(shape), attribute_of(node, "axes", range(len(starts)))
    for axis, *limits in zip(axes, starts, attribute_of(node, "ends"), strict=True):
        left[axis] = len(range(*slice(*limits).indices(shape[axis])))
    if all(left):
        return False
    dtype = helper.tensor_dtype_to_np_dtype(w.types[node.input[0]].tensor_type.elem_type)
    w.settle(node.output[0], np.zeros(left, dtype))
    return True
