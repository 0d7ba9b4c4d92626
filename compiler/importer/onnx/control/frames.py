"""Frames of a signal that overlap, which some files write as a Scan over its parts."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from nnjit_studio.compiler.importer.onnx.control.slices import counted
from nnjit_studio.compiler.importer.onnx.walk import Array, Walk, attribute_of


def frames_of_line(w: Walk, node: onnx.NodeProto) -> bool:
    """Write such a Scan as one look-up, however many frames there are; whether it is one.

    The state is the end of the frame before, [batch, kept]; a part is [batch, new].
    """
    body, count = attribute_of(node, "body"), attribute_of(node, "num_scan_inputs")
    if count != 1 or len(node.input) != 2 or [n.op_type for n in body.node] != ["Concat", "Slice"]:
        return False
    places = [attribute_of(node, f"scan_{way}_axes", [0]) for way in ("input", "output")]
    turned = [attribute_of(node, f"scan_{way}_directions", [0]) for way in ("input", "output")]
    state, parts = (w.shape(name) for name in node.input)
    if places != [[1], [1]] or turned != [[0], [0]] or not state or not parts or len(parts) != 3:
        return False
    (batch, kept), (_, trips, new) = state, parts
    if not _slides(w, body, kept, new):
        return False
    flat = w.emit("Reshape", node.input[1], w.constant(np.array([batch, trips * new])))
    line = w.emit("Concat", node.input[0], flat, axis=1)
    begins, frame = np.arange(trips)[:, None] * new, np.arange(kept + new)
    rows = w.constant(begins + frame)
    w.counted.ends.append(0)  # no end of a table: there are as many frames as parts
    if w.counted.kept:
        starts = counted(w, node.name, TensorProto.INT64, {"start": 0, "step": new, "count": trips})
        column = w.emit("Reshape", starts, w.constant(np.array([trips, 1])))
        rows = w.emit("Add", column, w.constant(frame))
    frames = w.emit("Gather", line, rows, axis=1)
    last = w.emit("Gather", line, w.constant(trips * new + np.arange(kept)), axis=1)
    w.alias.update((n, f) for n, f in zip(node.output, (last, frames), strict=True) if n)
    return True


def _slides(w: Walk, body: onnx.GraphProto, kept: int, new: int) -> bool:
    """Whether a body puts a part behind its state, gives that, and keeps its end."""
    joined, cut = body.node
    if len(cut.input) < 4:
        return False
    start, end, axis, *step = (_number(w, body, name) for name in cut.input[1:])
    return (
        [*joined.input] == [p.name for p in body.input]
        and attribute_of(joined, "axis") in (1, -1)
        and cut.input[0] == joined.output[0]
        and start == new
        and step in ([], [1])
        and axis in (1, -1)
        and end is not None
        and end >= kept + new
        and [p.name for p in body.output] == [cut.output[0], joined.output[0]]
    )


def _number(w: Walk, body: onnx.GraphProto, name: str) -> int | None:
    held: dict[str, Array] = {t.name: numpy_helper.to_array(t) for t in body.initializer}
    value = held.get(name, w.values.get(w.resolve(name)))
    return int(value.reshape(())) if value is not None and value.size == 1 else None
