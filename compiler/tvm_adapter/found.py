"""Operators that give as many results as their data says; TVM carries each as one call.

The first result has room for the most that there may be, zeros behind those that there are; the
second, i64 of one element, tells how many there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from nnjit_studio.compiler.ir.rewrite import int32
from nnjit_studio.compiler.ir.tensor_ir import (
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    If,
    Load,
    Loop,
    Program,
    Select,
    Stage,
    Statement,
    Store,
    Var,
)

PLACES_OP = "FoundPlaces"
"""Places of elements that are not zero, as NonZero gives them: [rank, elements]."""
BOXES_OP = "FoundBoxes"
"""NonMaxSuppression with its limits as attributes: ``most`` boxes of a class, ``overlap``, the
least ``score`` and ``center``, whether a box is its center and its sizes."""
FOUND_FORM = "found "
"""What the forms of both begin with."""
_NOTHING = Const(-math.inf, "f32")
_COUNT = Load("out1", int32(0))


class FoundPlaces(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """The search as one call."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        shape = [int(d) for d in inputs[0].ty.shape]
        return _carried(bb, f"{FOUND_FORM}places", inputs, [len(shape), math.prod(shape)])


class FoundBoxes(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """The suppression as one call."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        batch, classes, _ = (int(d) for d in inputs[1].ty.shape)
        words = [attr[word] for word in ("most", "overlap", "score", "center")]
        form = f"{FOUND_FORM}boxes {' '.join(map(str, words))}"
        return _carried(bb, form, inputs, [batch * classes * attr["most"], 3])


def _carried(bb: Any, form: str, inputs: Any, shape: list[int]) -> Any:
    kinds = [relax.TensorType(shape, "int64"), relax.TensorType([1], "int64")]
    return bb.emit(relax.call_pure_packed(form, *inputs, ty_args=relax.TupleType(kinds)))


def found_program(form: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> Program:
    """The program of a carried call, from the values that it takes and gives."""
    kind, *words = form.removeprefix(FOUND_FORM).split()
    buffers = [
        Buffer(f"in{i}", v.dtype, v.shape, "input", v.constant is not None)
        for i, v in enumerate(inputs)
    ]
    buffers += [Buffer(f"out{i}", v.dtype, v.shape, "output") for i, v in enumerate(outputs)]
    start: list[Statement] = [
        Loop("z", math.prod(outputs[0].shape), (Store("out0", Var("z"), Const(0, "i64")),)),
        Store("out1", int32(0), Const(0, "i64")),
    ]
    if kind == "places":
        search = _places(inputs[0])
    else:
        most, overlap, score, center = words
        search = _boxes(inputs[1].shape, int(most), float(overlap), float(score), center == "1")
        buffers.append(Buffer("ws0", "f32", (inputs[1].shape[2],), "workspace"))
        buffers.append(Buffer("ws1", "i32", (1,), "workspace"))
    return Program(f"found_{kind}", tuple(buffers), (Stage(kind, (), steps=(*start, search)),))


def _add(row: Sequence[Expr], step: int, stride: int) -> tuple[Statement, ...]:
    """One more result: its numbers lie ``step`` apart, results ``stride``."""
    at = Cast(_COUNT, "i32") * stride
    puts = [Store("out0", at + i * step, Cast(value, "i64")) for i, value in enumerate(row)]
    return (*puts, Store("out1", int32(0), _COUNT + Const(1, "i64")))


def _places(source: Any) -> Statement:
    size, at, inner = math.prod(source.shape), Var("k"), 1
    row: list[Expr] = []
    for extent in reversed(source.shape):
        row.insert(0, at // inner % extent)
        inner *= extent
    there = Binary("ne", Load("in0", at), Const(0, source.dtype))
    return Loop("k", size, (If(there, _add(row, size, 1)),))


def _boxes(
    shape: Sequence[int], most: int, overlap: float, least: float, center: bool
) -> Statement:
    """Again and again the best box that is left, then without those that overlap with it."""
    batch, classes, count = shape
    b, c, s = Var("b"), Var("c"), Var("s")
    best, none = Load("ws1", int32(0)), Const(-1, "i32")
    left = Load("ws0", s)
    score = Load("in1", (b * classes + c) * count + s)
    there = Binary("gt", score, Const(least, "f32"))
    better = Binary("gt", left, Load("ws0", Binary("max", best, int32(0))))
    better = Binary("or", Binary("eq", best, none), better)
    better = Binary("and", Binary("gt", left, _NOTHING), better)
    taken = Binary("max", best, int32(0))
    gone = Binary(
        "or", Binary("eq", s, best), _overlaps(b * count + s, b * count + taken, overlap, center)
    )
    found: tuple[Statement, ...] = (
        *_add((b, c, best), 1, 3),
        Loop("s", count, (If(gone, (Store("ws0", s, _NOTHING),)),)),
    )
    turn: tuple[Statement, ...] = (
        Store("ws1", int32(0), none),
        Loop("s", count, (If(better, (Store("ws1", int32(0), s),)),)),
        If(Binary("ne", best, none), found),
    )
    each: tuple[Statement, ...] = (
        Loop("s", count, (Store("ws0", s, Select(there, score, _NOTHING)),)),
        Store("ws1", int32(0), int32(0)),
        Loop("m", most, (If(Binary("ne", best, none), turn),)),
    )
    return Loop("b", batch, (Loop("c", classes, each),))


def _overlaps(one: Expr, other: Expr, limit: float, center: bool) -> Expr:
    """Whether two boxes have more than this share of their common area in common."""

    def number(box: Expr, i: int) -> Expr:
        return Load("in0", box * 4 + i)

    def sides(box: Expr, axis: int) -> tuple[Expr, Expr]:
        first, second = number(box, axis), number(box, axis + 2)
        if center:
            return first - second / 2.0, first + second / 2.0
        return Binary("min", first, second), Binary("max", first, second)

    zero = Const(0.0, "f32")
    common: Expr = Const(1.0, "f32")
    areas: list[Expr] = [Const(1.0, "f32"), Const(1.0, "f32")]
    for axis in (0, 1):
        (low, high), (low2, high2) = sides(one, axis), sides(other, axis)
        length = Binary("min", high, high2) - Binary("max", low, low2)
        common = common * Binary("max", length, zero)
        areas = [areas[0] * (high - low), areas[1] * (high2 - low2)]
    union = areas[0] + areas[1] - common
    sound: Expr = Binary("gt", common / union, Const(limit, "f32"))
    for area in (*areas, union):
        sound = Binary("and", Binary("gt", area, zero), sound)
    return sound
