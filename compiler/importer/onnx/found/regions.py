"""What a detector computes of regions that were found: features, layers of those, rows put back."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from nnjit_studio.compiler.importer.onnx.found.walk import Found, FoundWalk, along, too_much
from nnjit_studio.compiler.importer.onnx.walk import Walk, attribute_of


def from_the_end(w: FoundWalk, places: str, rows: str) -> str:
    """Places, of which those below zero count from the last of so many rows."""
    kind = helper.tensor_dtype_to_np_dtype(w.types[places].tensor_type.elem_type)
    whole = w.emit("Cast", rows, to=helper.np_dtype_to_tensor_dtype(kind))
    below = w.raw("Less", places, w.constant(np.array(0, kind)))
    one = w.emit("Reshape", whole, w.constant(np.array([], np.int64)))
    return w.raw("Where", below, w.raw("Add", places, one), places)


def rows(w: FoundWalk, node: onnx.NodeProto) -> None:
    """Layers whose rows or images each hang on one of their input alone."""
    found, shape = w.of(node.input[0])
    axis = found.axis
    if node.op_type == "MatMul":
        second, behind = w.shape(node.input[1]), len(shape) - axis
        alone = second is not None and behind > 1
        if second and len(second) >= behind > 2:  # another matrix for each
            alone = alone and second[-behind] == 1
        axis += max(len(second or ()) - len(shape), 0)
    else:
        alone = axis == 0 and not attribute_of(node, "transA", 0)
    if not alone or not w.found.keys().isdisjoint(node.input[1:]):
        raise too_much(node)
    w.keep(node, along(found, axis))


def regions(w: FoundWalk, node: onnx.NodeProto) -> None:
    """Of whole maps, each region with the number of its map."""
    image, boxes, numbers = node.input
    found = w.found.get(boxes)
    if image in w.found or found is None or found.axis or found != w.found.get(numbers):
        raise too_much(node)
    w.keep(node, found)


def scatter(w: FoundWalk, node: onnx.NodeProto) -> None:
    """Rows to places; those that were not found go into one more row, which is cut off again."""
    data, places, updates = node.input
    shape, found = w.shape(data), w.found.get(places)
    if shape is None or found is None or found != w.found.get(updates):
        raise too_much(node)
    axis = attribute_of(node, "axis", 0) % len(shape)
    size, there = shape[axis], w.found.get(data, Found(axis, ""))
    reduced = attribute_of(node, "reduction", b"none") != b"none"
    if found.axis != axis or there.axis != axis or reduced:
        raise too_much(node)
    tensor = w.types[places].tensor_type
    kind = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    rows = w.times(there) if data in w.found else w.constant(np.array([size], np.int64))
    places = from_the_end(w, places, rows)
    places = w.raw("Where", w.there(node.input[1]), places, w.constant(np.array(size, kind)))
    row = tuple(1 if a == axis else n for a, n in enumerate(shape))
    dtype = helper.tensor_dtype_to_np_dtype(w.types[data].tensor_type.elem_type)
    longer = w.raw("Concat", data, w.constant(np.zeros(row, dtype)), axis=axis)
    moved = w.raw("ScatterElements", longer, places, updates, axis=axis)
    bounds = (w.constant(np.array([n], np.int64)) for n in (0, size, axis))
    cut = helper.make_node("Slice", [moved, *bounds], node.output, node.name)
    if data in w.found:
        w.keep(cut, there)
    else:
        Walk.plain(w, cut)
