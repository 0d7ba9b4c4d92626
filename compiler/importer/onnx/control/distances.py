"""Distances between the rows of two matrices, which skl2onnx writes as a Scan over one of them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from nnjit_studio.compiler.importer.onnx.walk import Walk, attribute_of

_BODY = ["Identity", "Sub", "ReduceSumSquare", "Identity"]
_PLACES = ("scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions")


def squares_apart(w: Walk, node: onnx.NodeProto) -> bool:
    """Write such a Scan as one subtraction, however many rows there are; whether it is one."""
    body, count = attribute_of(node, "body"), attribute_of(node, "num_scan_inputs")
    turned = any(any(attribute_of(node, name, [])) for name in _PLACES)
    if count != 1 or len(node.input) != 2 or turned or not _is_square(body):
        return False
    rows, others = node.input
    if any(len(w.shape(name) or ()) != 2 for name in (rows, others)):
        return False
    pairs = w.emit("Unsqueeze", rows, axes=[0]), w.emit("Unsqueeze", others, axes=[1])
    apart = w.emit("Sub", *pairs)
    sums = w.emit("ReduceSum", w.emit("Mul", apart, apart), axes=[2], keepdims=0)
    w.alias.update((n, f) for n, f in zip(node.output, (rows, sums), strict=True) if n)
    return True


def _is_square(body: onnx.GraphProto) -> bool:
    """Whether a body sums the squares of a matrix less one row, and keeps the matrix."""
    if [n.op_type for n in body.node] != _BODY:
        return False
    keep, less, square, out = body.node
    matrix, row = (p.name for p in body.input)
    held = {t.name: numpy_helper.to_array(t) for t in body.initializer}
    axes = held.get(square.input[1]) if len(square.input) > 1 else attribute_of(square, "axes", [])
    return (
        axes is not None
        and np.reshape(axes, -1).tolist() in ([1], [-1])
        and not attribute_of(square, "keepdims", 1)
        and [*keep.input] == [matrix]
        and [*less.input] == [matrix, row]
        and square.input[0] == less.output[0]
        and [*out.input] == [*square.output]
        and [p.name for p in body.output] == [keep.output[0], out.output[0]]
    )
