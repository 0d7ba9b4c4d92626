"""Operators that put elements elsewhere, or make them of their places, and have no converter."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter


def reverse_sequence(r: Rewriter) -> bool:
    """Each row's first elements, as many as its length says, in reverse."""
    x, lengths = r.node.input
    axes = r.attribute("time_axis", 0), r.attribute("batch_axis", 1)
    reversed_rows(r, x, lengths, r.shape(x), axes, r.node.output[0])
    return True


def reversed_rows(
    r: Rewriter, x: str, lengths: str, shape: tuple[int, ...], axes: tuple[int, int] = (0, 1),
    out: str = "",
) -> str:  # fmt: skip
    """The same for any tensor; ``axes`` are those of the elements and of the rows."""
    axis, batch = axes
    steps = np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))])
    place, one = r.weight(steps, np.int64), r.weight(1, np.int64)
    rows = r.weight([shape[batch] if d == batch else 1 for d in range(len(shape))], np.int64)
    count = r.op("Reshape", r.op("Cast", lengths, to=TensorProto.INT64), rows)
    turned = r.op("Sub", r.op("Sub", count, one), place)
    found = r.op("Where", r.op("Less", place, count), turned, place)
    whole = r.op("Expand", found, r.weight(shape, np.int64))
    return r.op("GatherElements", x, whole, axis=axis, out=out)


def tensor_scatter(r: Rewriter) -> bool:
    """Rows of a cache from a place on that each element of the batch has for itself."""
    cache, update, *given = r.node.input
    shape, new = r.shape(cache), r.shape(update)
    axis = r.attribute("axis", -2) % len(shape)
    steps = np.arange(new[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))])
    place = r.weight(steps, np.int64)
    if given and given[0]:
        rows = r.weight([new[0], *[1] * (len(shape) - 1)], np.int64)
        place = r.op("Add", r.op("Reshape", given[0], rows), place)
    if r.attribute("mode", b"linear") == b"circular":
        place = r.op("Mod", place, r.weight(shape[axis], np.int64))
    whole = r.op("Expand", place, r.weight(new, np.int64))
    r.op("ScatterElements", cache, whole, update, axis=axis, out=r.node.output[0])
    return True


def space_to_depth(r: Rewriter) -> bool:
    """In the order CRD, which the converter takes for the other."""
    if r.attribute("mode", b"DCR") == b"DCR":
        return False
    x, size = r.node.input[0], r.attribute("blocksize", 1)
    n, c, h, w = r.shape(x)
    apart = r.weight([n, c, h // size, size, w // size, size], np.int64)
    turned = r.op("Transpose", r.op("Reshape", x, apart), perm=[0, 1, 3, 5, 2, 4])
    whole = r.weight([n, c * size * size, h // size, w // size], np.int64)
    r.op("Reshape", turned, whole, out=r.node.output[0])
    return True


def eye_like(r: Rewriter) -> bool:
    """Of another dtype than its input's."""
    kind = r.attribute("dtype", 0)
    if kind in (0, r.dtype(r.node.input[0])):
        return False
    rows, columns = r.shape(r.node.input[0])
    held = np.eye(rows, columns, r.attribute("k", 0), helper.tensor_dtype_to_np_dtype(kind))
    r.op("Identity", r.weight(held), out=r.node.output[0])
    return True
