"""The loops of searches: each result that is found is written behind those before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nnjit_studio.compiler.ir.rewrite import int32
from nnjit_studio.compiler.ir.tensor_ir import (
    Binary,
    Cast,
    Const,
    Expr,
    If,
    Load,
    Loop,
    Select,
    Statement,
    Store,
    Var,
)

_COUNT = Load("out1", int32(0))


@dataclass(frozen=True)
class Limits:
    """Of boxes that are found."""

    most: int
    """Boxes of a class."""
    overlap: float
    """Larger shares of the common area are too much."""
    score: float | None
    """That a box has to exceed; None where any is enough, -inf and what is no number, too."""
    center: bool
    """Whether a box is its center and its sizes."""
    counted: bool
    """Whether a third input tells how many boxes there are."""


def _add(row: Sequence[Expr], step: int, stride: int) -> tuple[Statement, ...]:
    """One more result: its numbers lie ``step`` apart, results ``stride``."""
    at = Cast(_COUNT, "i32") * stride
    puts = [Store("out0", at + i * step, Cast(value, "i64")) for i, value in enumerate(row)]
    return (*puts, Store("out1", int32(0), _COUNT + Const(1, "i64")))


def places(source: Any) -> Statement:
    """Places of elements that are not zero, in order."""
    size, at, inner = math.prod(source.shape), Var("k"), 1
    row: list[Expr] = []
    for extent in reversed(source.shape):
        row.insert(0, at // inner % extent)
        inner *= extent
    there = Binary("ne", Load("in0", at), Const(0, source.dtype))
    return Loop("k", size, (If(there, _add(row, size, 1)),))


def boxes(shape: Sequence[int], limits: Limits) -> Statement:
    """Again and again the best box that is left, then without those that overlap with it."""
    batch, classes, count = shape
    b, c, s = Var("b"), Var("c"), Var("s")
    best, none = Load("ws1", int32(0)), Const(-1, "i32")

    def score(box: Expr) -> Expr:
        return Load("in1", (b * classes + c) * count + box)

    number = Cast(Load("in2", int32(0)), "i32") if limits.counted else int32(count)
    there = Binary("lt", s, number)
    if limits.score is not None:
        there = Binary("and", there, Binary("gt", score(s), Const(limits.score, "f32")))
    taken = Binary("max", best, int32(0))
    better = Binary("or", Binary("eq", best, none), Binary("gt", score(s), score(taken)))
    better = Binary("and", Binary("ne", Load("ws0", s), int32(0)), better)
    gone = Binary("or", Binary("eq", s, best), _overlaps(b * count + s, b * count + taken, limits))
    found: tuple[Statement, ...] = (
        *_add((b, c, best), 1, 3),
        Loop("s", count, (If(gone, (Store("ws0", s, int32(0)),)),)),
    )
    turn: tuple[Statement, ...] = (
        Store("ws1", int32(0), none),
        Loop("s", count, (If(better, (Store("ws1", int32(0), s),)),)),
        If(Binary("ne", best, none), found),
    )
    each: tuple[Statement, ...] = (
        Loop("s", count, (Store("ws0", s, Select(there, int32(1), int32(0))),)),
        Store("ws1", int32(0), int32(0)),
        Loop("m", limits.most, (If(Binary("ne", best, none), turn),)),
    )
    return Loop("b", batch, (Loop("c", classes, each),))


def _overlaps(one: Expr, other: Expr, limits: Limits) -> Expr:
    """Whether two boxes have more than this share of their common area in common."""

    def number(box: Expr, i: int) -> Expr:
        return Load("in0", box * 4 + i)

    def sides(box: Expr, axis: int) -> tuple[Expr, Expr]:
        first, second = number(box, axis), number(box, axis + 2)
        if limits.center:
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
    sound: Expr = Binary("gt", common / union, Const(limits.overlap, "f32"))
    for area in (*areas, union):
        sound = Binary("and", Binary("gt", area, zero), sound)
    return sound
