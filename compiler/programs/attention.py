"""Attention as the importer joins it: QK^T, a softmax and PV in one program."""

from __future__ import annotations

import math
from dataclasses import replace

from nnjit_studio.compiler.ir.rewrite import int32
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Call,
    Expr,
    Load,
    Program,
    Select,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.programs.parts import Spelling, f32
from nnjit_studio.compiler.recognize.attention import LOWEST
from nnjit_studio.space.wasm.attention import ATTENTION


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
    heads_i, queries_i = Axis("h", heads), Axis("i", queries)
    grid = (heads_i, queries_i, Axis("j", keys))
    width = heads * depth
    place = plus(times("h", queries * keys), times("i", keys), Var("j"))
    row = plus(times("h", queries), Var("i"))
    shapes, q, k, v = _operands(heads, queries, keys, depth, joined, transposed)
    inputs = [Buffer(f"in{n}", "f32", shape, "input") for n, shape in enumerate(shapes)]
    score: Expr = Load("ws0", place) * f32(1 / math.sqrt(depth))
    if mask:
        shape = (keys,) if mask == "keys" else (queries, keys)
        inputs.append(Buffer("in3", "f32", shape, "input"))
        at = Var("j") if mask == "keys" else plus(times("i", keys), Var("j"))
        score = score + Load("in3", at)
    weight: Expr = Load("ws3", place) / Load("ws4", row)
    if guarded:
        weight = Select(Binary("ne", weight, weight), f32(0.0), weight)
    out = plus(times("i", width), times("h", depth), Var("d"))
    raised = Call("exp", (Load("ws1", place) - Load("ws2", row),))
    dot = Load("in0", q) * Load("in1", k)
    share = Load("ws5", place) * Load("in2", v)
    over_keys = (heads_i, queries_i, Axis("d", depth), Axis("j", keys))
    stages = (
        _reduced("dots", (*grid, Axis("r", depth)), "ws0", place, "add", dot),
        Stage("scores", grid, (Store("ws1", place, score),)),
        _reduced("peak", grid, "ws2", row, "max", Load("ws1", place)),
        Stage("raised", grid, (Store("ws3", place, raised),)),
        _reduced("total", grid, "ws4", row, "add", Load("ws3", place)),
        Stage("weights", grid, (Store("ws5", place, weight),)),
        _reduced("values", over_keys, "out0", out, "add", share),
    )
    whole, rows = (heads, queries, keys), (heads, queries)
    spaces = (whole, whole, rows, whole, rows, whole)
    results = Buffer("out0", "f32", (queries, width), "output")
    workspaces = (Buffer(f"ws{n}", "f32", s, "workspace") for n, s in enumerate(spaces))
    return Program(ATTENTION, (*inputs, results, *workspaces), stages)


def _operands(
    heads: int, queries: int, keys: int, depth: int, joined: bool, transposed: bool
) -> tuple[list[tuple[int, ...]], Expr, Expr, Expr]:
    """Shapes of the buffers of Q, K and V, and the places that are read of each."""
    width, r, d = heads * depth, Var("r"), Var("d")
    if joined:
        row, head = 3 * width, times("h", depth)
        return (
            [(max(queries, keys), row)] * 3,
            plus(times("i", row), head, r),
            plus(times("j", row), head, r, int32(width)),
            plus(times("j", row), head, d, int32(2 * width)),
        )
    head = times("h", keys * depth)
    along, across = (("r", keys), "j") if transposed else (("j", depth), "r")
    return (
        [(heads, queries, depth), (heads, keys, depth), (heads, keys, depth)],
        plus(times("h", queries * depth), times("i", depth), r),
        plus(head, times(*along), Var(across)),
        plus(head, times("j", depth), d),
    )


def _reduced(
    name: str, axes: tuple[Axis, ...], buffer: str, index: Expr, op: str, value: Expr
) -> Stage:
    """``buffer[index] = op(buffer[index], value)`` over the last of the axes."""
    *outer, last = axes
    start = f32(LOWEST if op == "max" else 0.0)
    store = Store(buffer, index, Binary(op, Load(buffer, index), value))
    reduced = (*outer, replace(last, kind="reduce"))
    return Stage(name, reduced, (store,), (Store(buffer, index, start),))


def plus(*terms: Expr) -> Expr:
    """A sum."""
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


def times(var: str, factor: int) -> Expr:
    """A variable times a constant."""
    return Var(var) * factor


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
