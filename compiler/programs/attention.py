"""Attention as the importer joins it: QK^T, a softmax and PV in one program."""

from __future__ import annotations

import math

from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Call,
    Const,
    Expr,
    Load,
    Program,
    Select,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.programs.parts import Spelling, f32
from nnjit_studio.space.webgpu.attention import ATTENTION

LOWEST = -3.4028234663852886e38
"""Where a softmax begins to look for the largest value, as the importer writes it."""


def attention(
    heads: int,
    queries: int,
    keys: int,
    depth: int,
    *,
    mask: str = "",
    guarded: bool = False,
    joined: bool = False,
    transposed: bool = False,
) -> Program:
    """Attention of ``heads``; results are ``queries`` x (heads * depth).

    Parameters
    ----------
    mask
        Added to the scores: of ``keys`` alone, or ``all`` queries and keys.
    guarded
        Whether quotients that are no number become 0.
    joined
        Whether Q, K and V are thirds of one buffer's columns.
    transposed
        Whether a head's keys lie side by side, along the queries' axis.
    """
    h, i, j, r = times("h", queries * keys), times("i", keys), Var("j"), Var("r")
    width = heads * depth
    place, row = plus(h, i, j), plus(times("h", queries), Var("i"))
    shapes: list[tuple[int, ...]]
    if joined:
        shapes = [(max(queries, keys), 3 * width)] * 3
        q = plus(times("i", 3 * width), times("h", depth), r)
        k = plus(times("j", 3 * width), times("h", depth), r, Const(width, "i32"))
        v = plus(times("j", 3 * width), times("h", depth), Var("d"), Const(2 * width, "i32"))
    else:
        shapes = [(heads, queries, depth), (heads, keys, depth), (heads, keys, depth)]
        q = plus(times("h", queries * depth), times("i", depth), r)
        k = plus(times("h", keys * depth), times("j", depth), r)
        v = plus(times("h", keys * depth), times("j", depth), Var("d"))
        if transposed:
            k = plus(times("h", keys * depth), times("r", keys), j)
    inputs = [Buffer(f"in{n}", "f32", shape, "input") for n, shape in enumerate(shapes)]
    if mask:
        shape = (keys,) if mask == "keys" else (queries, keys)
        inputs.append(Buffer("in3", "f32", shape, "input"))
    outer, points = (Axis("h", heads), Axis("i", queries)), (Axis("j", keys),)
    grid = (*outer, *points)

    def reduced(name: str, axes: tuple[Axis, ...], store: Store, start: float) -> Stage:
        last = Axis(axes[-1].var, axes[-1].extent, "reduce")
        init = Store(store.buffer, store.index, f32(start))
        return Stage(name, (*axes[:-1], last), (store,), (init,))

    def added(buffer: str, index: Expr, op: str, value: Expr) -> Store:
        return Store(buffer, index, Binary(op, Load(buffer, index), value))

    score: Expr = Binary("mul", Load("ws0", place), f32(1 / math.sqrt(depth)))
    if mask:
        score = Binary("add", score, Load("in3", j if mask == "keys" else plus(i, j)))
    weight: Expr = Binary("div", Load("ws3", place), Load("ws4", row))
    if guarded:
        weight = Select(Binary("ne", weight, weight), f32(0.0), weight)
    out = plus(times("i", width), times("h", depth), Var("d"))
    raised = Call("exp", (Binary("sub", Load("ws1", place), Load("ws2", row)),))
    stages = (
        reduced(
            "dots",
            (*grid, Axis("r", depth)),
            added("ws0", place, "add", Binary("mul", Load("in0", q), Load("in1", k))),
            0.0,
        ),
        Stage("scores", grid, (Store("ws1", place, score),)),
        reduced("peak", grid, added("ws2", row, "max", Load("ws1", place)), LOWEST),
        Stage("raised", grid, (Store("ws3", place, raised),)),
        reduced("total", grid, added("ws4", row, "add", Load("ws3", place)), 0.0),
        Stage("weights", grid, (Store("ws5", place, weight),)),
        reduced(
            "values",
            (*outer, Axis("d", depth), *points),
            added("out0", out, "add", Binary("mul", Load("ws5", place), Load("in2", v))),
            0.0,
        ),
    )
    whole, rows = (heads, queries, keys), (heads, queries)
    spaces = (whole, whole, rows, whole, rows, whole)
    results = Buffer("out0", "f32", (queries, width), "output")
    workspaces = (Buffer(f"ws{n}", "f32", s, "workspace") for n, s in enumerate(spaces))
    return Program(ATTENTION, (*inputs, results, *workspaces), stages)


def plus(*terms: Expr) -> Expr:
    """A sum."""
    result = terms[0]
    for term in terms[1:]:
        result = Binary("add", result, term)
    return result


def times(var: str, factor: int) -> Expr:
    """A variable times a constant."""
    return Binary("mul", Var(var), Const(factor, "i32"))


def _spelt(kind: str, dims: tuple[int, ...], epilogue: tuple[str, ...]) -> Program:
    return attention(*dims)


ATTENTIONS = (
    Spelling(
        ATTENTION,
        "BxMxNxD",
        _spelt,
        "B heads of M queries, N keys and a width of D, in one kernel on a GPU",
        (),
    ),
)
