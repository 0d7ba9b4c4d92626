"""Operators that read or write at places which may count from the end of an axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import helper

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter


def scatter(r: Rewriter) -> bool:
    # The importer's converter for this old operator takes negative indices as they are.
    x, indices, updates = r.node.input
    axis = r.attribute("axis", 0)
    kind = helper.tensor_dtype_to_np_dtype(r.dtype(indices))
    places = _from_start(r, indices, r.shape(x)[axis], kind)
    r.op("Scatter", x, places, updates, axis=axis, out=r.node.output[0])
    return True


def gather_nd(r: Rewriter) -> bool:
    # The importer's converter holds the extents of all axes in one constant, of one import's sizes.
    x, places = r.node.input
    *kept, depth = r.shape(places)
    if not r.open_sizes or r.attribute("batch_dims", 0) or depth < 2:
        return False
    shape, kind = r.shape(x), helper.tensor_dtype_to_np_dtype(r.dtype(places))
    flat = ""
    for part, extent in zip(r.split(places, [1] * depth, -1), shape, strict=False):
        whole = _from_start(r, part, extent, kind)
        flat = r.op("Add", r.op("Mul", flat, r.weight(extent, kind)), whole) if flat else whole
    lines = [math.prod(shape[:depth]), *shape[depth:]]
    table = r.op("Reshape", x, r.weight(lines, np.int64))
    flat = r.op("Reshape", flat, r.weight(kept, np.int64))
    r.op("Gather", table, flat, axis=0, out=r.node.output[0])
    return True


def _from_start(r: Rewriter, places: str, extent: int, kind: Any) -> str:
    below = r.op("Less", places, r.weight(0, kind))
    turned = r.op("Add", places, r.weight(extent, kind))
    return r.op("Where", below, turned, places)
