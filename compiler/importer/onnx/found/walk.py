"""A walk over a graph with operators that give as many results as their data says.

Each gives room for the most that there may be, and a count at run time. What reads them is computed
for all of that room, and rows behind the count mean nothing: sums, extremes and paddings along such
an axis leave them out. So the model keeps static shapes, and each kernel is one that is there
already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from nnjit_studio.compiler.importer.onnx.control.bodies import outside
from nnjit_studio.compiler.importer.onnx.forms import functions
from nnjit_studio.compiler.importer.onnx.found.sizes import Linear
from nnjit_studio.compiler.importer.onnx.walk import Walk, attribute_of, refuse
from nnjit_studio.compiler.tvm_adapter.found import BOXES_OP, PLACES_OP
from nnjit_studio.errors import UnsupportedOpError


@dataclass(frozen=True)
class Found:
    """Of a tensor's ``axis``, the first ``times * count`` elements are there."""

    axis: int
    count: str
    """An i64 tensor of one element."""
    times: int = 1


class FoundWalk(Walk):
    """Knows which axes are as long as something found, and what numbers follow from that."""

    def __init__(self, read: Callable[[FoundWalk, onnx.NodeProto], None], *given: Any) -> None:
        super().__init__(*given)
        self.read = read
        self.found: dict[str, Found] = {}
        self.linear: dict[str, Linear] = {}
        self.most: dict[str, int] = {}
        """The largest value of each count."""
        self.makers: dict[str, onnx.NodeProto] = {}
        self.searched: dict[str, str] = {}
        self.masks: dict[tuple[str, int, int], str] = {}
        self.fewer: dict[tuple[str, int], str] = {}
        self.fewer_than: dict[str, str] = {}
        """Of a count another that is never less."""
        self.within: dict[str, str] = {}
        """Of a count another, without which it is none."""
        self.nothing: dict[str, str] = {}
        """Of a condition the count of which it asks whether it is none."""
        self.joins: dict[tuple[Any, ...], str] = {}

    def visit(self, node: onnx.NodeProto) -> None:
        search = _SEARCHES.get(node.op_type)
        within = [n for a in node.attribute if a.HasField("g") for n in outside(a.g)]
        read = {self.resolve(n) for n in (*node.input, *within) if n}
        if not read.isdisjoint(self.found) and node.op_type in _WHOLE:
            raise too_much(node)
        if search and node.domain in ("", "ai.onnx"):
            search(self, node)
        elif node.op_type == "Shape" and node.input[0] in self.found:
            self._shape(node)
        elif node.op_type == "If" and (count := self._none_of(node.input[0])):
            self._some(node, count)
        else:
            super().visit(node)

    def plain(self, node: onnx.NodeProto) -> None:
        if not (self.found.keys() | self.linear.keys()).isdisjoint(node.input):
            self.read(self, node)
        else:
            super().plain(node)

    def keep(self, node: onnx.NodeProto, found: Found) -> None:
        """A node whose results are as long as something found."""
        Walk.plain(self, node)
        for name in filter(None, node.output):
            shape = self.shape(name)
            if shape and shape[found.axis : found.axis + 1] != (self.size(found),):
                raise too_much(node)
            self.found[name] = found

    def size(self, found: Found) -> int:
        """Of the axis: room for all that may be found."""
        return self.most[found.count] * found.times

    def of(self, name: str) -> tuple[Found, tuple[int, ...]]:
        """Which axis of a tensor is as long as something found; its shape with room for all."""
        shape = self.shape(name)
        assert shape is not None
        return self.found[name], shape

    def there(self, name: str) -> str:
        """A mask of a tensor's elements that are there."""
        found, shape = self.of(name)
        return self.mask(found, len(shape) - 1 - found.axis)

    def mask(self, found: Found, behind: int) -> str:
        """The same for the axis with so many others behind."""
        key = found.count, found.times, behind
        if key not in self.masks:
            size = self.size(found)
            numbers = np.arange(size, dtype=np.int64).reshape(size, *[1] * behind)
            self.masks[key] = self.emit("Less", self.constant(numbers), self.times(found))
        return self.masks[key]

    def times(self, found: Found) -> str:
        """The length of the axis at run time, i64 of one element."""
        if found.times == 1:
            return found.count
        return self.emit("Mul", found.count, self.constant(np.array([found.times], np.int64)))

    def masked(self, name: str, value: float) -> str:
        """A tensor with this value where nothing was found."""
        kind = helper.tensor_dtype_to_np_dtype(self.types[name].tensor_type.elem_type)
        return self.raw("Where", self.there(name), name, self.constant(np.array(value, kind)))

    def raw(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """A node of ours over all the room of its inputs."""
        self.count += 1
        name = f"found//{self.count}"
        Walk.plain(self, helper.make_node(op_type, list(inputs), [name], name, **attributes))
        return name

    def as_count(self, name: str, most: int, maker: onnx.NodeProto) -> str:
        """Take a tensor of one i64 as a count of what a node found."""
        self.most[name], self.makers[name] = most, maker
        return name

    def at_most(self, found: Found, most: int) -> Found:
        """The first of what was found, no more than so many."""
        key = found.count, most
        if most >= self.most[found.count]:
            return found
        if key not in self.fewer:
            count = self.emit("Min", found.count, self.constant(np.array([most], np.int64)))
            self.fewer[key] = self.as_count(count, most, self.makers[found.count])
            self.fewer_than[count] = self.within[count] = found.count
        return replace(found, count=self.fewer[key])

    def call(self, node: onnx.NodeProto, op: str, inputs: Iterable[str], room: tuple[int, ...],
             axis: int, **attributes: Any) -> None:  # fmt: skip
        """Put one of our own operators in the place of a node."""
        out = node.output[0]
        count = f"{out}//count"
        for name, shape in ((out, room), (count, (1,))):
            self.types[name] = helper.make_tensor_type_proto(TensorProto.INT64, shape)
            self.kept.append(helper.make_value_info(name, self.types[name]))
        self.nodes.append(helper.make_node(op, list(inputs), [out, count], node.name, **attributes))
        self.found[out] = Found(axis, self.as_count(count, room[axis], node))

    def hangs_on(self, node: onnx.NodeProto, source: str) -> None:
        """A search finds nothing where nothing was found of what it reads."""
        if source in self.found:
            self.within[self.found[node.output[0]].count] = self.found[source].count

    def _none_of(self, condition: str) -> str:
        """The count of which a condition asks whether it is none; empty where it asks another."""
        while condition not in self.nothing:
            maker = next((n for n in reversed(self.nodes) if condition in n.output), None)
            if maker is None or maker.op_type not in ("Cast", "Reshape", "Squeeze"):
                return ""
            condition = maker.input[0]
        return self.nothing[condition]

    def _some(self, node: onnx.NodeProto, count: str) -> None:
        """The branch for some gives nothing, too, where nothing was found."""
        branches = (attribute_of(node, f"{word}_branch") for word in ("then", "else"))
        for name, empty, other in zip(
            node.output, *(self.inline(b, []) for b in branches), strict=True
        ):
            found = self.found.get(other)
            at = found.count if found else ""
            while at and at != count:
                at = self.within.get(at, "")
            shape = list(self.shape(other) or ())
            if found:
                shape[found.axis] = 0
            if not at or self.shape(empty) != tuple(shape):
                raise too_much(node)
            self.alias[name] = other

    def finish(self, graph: onnx.GraphProto) -> None:
        """As any walk; the length of an output that is as long as its data says is one more."""
        for port in list(graph.output):
            name = self.resolve(port.name)
            if name in self.found:
                length = self.times(self.found[name])
                self.counted.found[port.name] = self.found[name].axis, length
                if length not in [p.name for p in graph.output]:
                    graph.output.append(helper.make_value_info(length, self.types[length]))
        super().finish(graph)
        calls = (n for n in graph.node if n.op_type in (BOXES_OP, PLACES_OP))
        self.counted.searches = [self.makers[n.output[1]] for n in calls]

    def _shape(self, node: onnx.NodeProto) -> None:
        found, shape = self.of(node.input[0])
        none, each = np.array(shape, np.int64), np.zeros(len(shape), np.int64)
        none[found.axis], each[found.axis] = 0, found.times
        part = slice(attribute_of(node, "start", 0), attribute_of(node, "end", None))
        parts = [self.constant(none[part])]
        name = node.output[0]
        if each[part].any():
            product = self.emit("Mul", found.count, self.constant(each[part]))
            whole = helper.make_node("Add", [*parts, product], [name], node.name)
            Walk.plain(self, whole)
            self.linear[name] = Linear(none[part], each[part], found.count)
        else:
            self.settle(name, none[part])


def too_much(node: onnx.NodeProto) -> UnsupportedOpError:
    return refuse(node, "a size that is known ahead; here it is as large as its data says")


def _nonzero(w: FoundWalk, node: onnx.NodeProto) -> None:
    source = node.input[0]
    if source in w.searched:
        w.alias[node.output[0]] = w.searched[source]
        return
    shape = w.shape(source)
    known = source in w.values and source not in w.found
    if known or shape is None or not shape or not math.prod(shape):
        Walk.visit(w, node)
        return
    w.searched[source] = node.output[0]
    given = w.masked(source, 0) if source in w.found else source
    w.call(node, PLACES_OP, [given], (len(shape), math.prod(shape)), 1)
    w.hangs_on(node, source)


def _suppression(w: FoundWalk, node: onnx.NodeProto) -> None:
    boxes, scores, *limits = node.input
    shape = w.shape(scores)
    values = []
    for name, absent in zip([*limits, "", "", ""], (0, 0.0, None), strict=False):
        if name and name not in w.values:
            raise refuse(node, "limits that are known ahead")
        values.append(w.values[name].reshape(-1)[0].item() if name else absent)
    if shape is None or w.shape(boxes) is None:
        raise refuse(node, "inputs of known shape")
    most = min(int(values[0] or 0), shape[2])
    if most < 1:
        raise refuse(node, "a positive number of boxes of a class")
    given, found = [boxes, scores], w.found.get(scores)
    if found or boxes in w.found:
        if not found or found.axis != 2 or w.found.get(boxes) != along(found, 1):
            raise too_much(node)
        given.append(w.times(found))
    least = {} if values[2] is None else {"score": float(values[2])}
    center = attribute_of(node, "center_point_box", 0)
    w.call(node, BOXES_OP, given, (shape[0] * shape[1] * most, 3), 0,
           most=most, overlap=float(values[1] or 0), center=center, **least)  # fmt: skip
    w.hangs_on(node, scores)


def _compress(w: FoundWalk, node: onnx.NodeProto) -> None:
    source, condition = node.input
    if condition in w.values or not w.shape(condition):
        Walk.visit(w, node)
        return
    axis, out = attribute_of(node, "axis"), node.output[0]
    flat = w.constant(np.array([-1], np.int64))
    steps = [
        helper.make_node("NonZero", [condition], [f"{out}//places"], node.name),
        helper.make_node("Reshape", [f"{out}//places", flat], [f"{out}//row"]),
        helper.make_node("Gather", [source, f"{out}//row"], [out], axis=axis or 0),
    ]
    if axis is None:
        steps.insert(0, helper.make_node("Reshape", [source, flat], [f"{out}//flat"]))
        steps[-1].input[0] = f"{out}//flat"
    shared = condition in w.searched
    try:
        for step in steps:
            w.visit(w.bound(step))
    except UnsupportedOpError:
        raise too_much(node) from None
    if not shared:
        w.makers[w.found[f"{out}//places"].count] = node


_SEARCHES = {"Compress": _compress, "NonZero": _nonzero, "NonMaxSuppression": _suppression}
_WHOLE = {"Loop", "Scan", "Size", "SplitToSequence", *functions.NAMES}
"""Operators whose rules hang on sizes."""


def along(found: Found, axis: int) -> Found:
    return replace(found, axis=axis)
