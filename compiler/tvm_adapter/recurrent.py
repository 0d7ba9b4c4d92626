"""The operator that runs a recurrent layer of any length; TVM carries it as one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from nnjit_studio.compiler.ir.rewrite import int32
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Call,
    Const,
    Expr,
    Load,
    Loop,
    Program,
    Select,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.schedule.recurrent import LANES_VAR, STAGE

LSTM_OP = "LstmLoop"
"""The ONNX operator that :mod:`nnjit_studio.compiler.importer.onnx.recurrent` writes: gates
[T, B, 4H] of the inputs, weights [H, 4H], first state and cell [B, H]. The result [T + 2, B, H] is
the states by time between the first state and the last cell, in the order of the steps."""
BACKWARD, ROUNDED = "_backward", "_rounded"
"""Parts of the names of the programs that stand for it: the steps from the last one on, and the
state of a step in 8 bits where it is multiplied."""
_TOGETHER = 4
"""Rows of the weights that one pass over the gates adds."""


class LstmLoop(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """The layer as one call."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        steps, batch, gates = (int(d) for d in inputs[0].ty.shape)
        order = BACKWARD if attr.get("backward", 0) else "_forward"
        name = f"lstm{order}{ROUNDED if attr.get('rounded', 0) else ''}"
        shape = relax.ShapeExpr([steps + 2, batch, gates // 4])
        result = type(inputs[0].ty)(shape, inputs[0].ty.dtype)
        return relax.call_pure_packed(name, *inputs, ty_args=result)


def lstm_program(name: str, inputs: Sequence[Any], output: Any) -> Program:
    """The program of a carried call, from the values that it takes and gives."""
    total, batch, hidden = output.shape
    last, gates, steps = total - 1, 4 * hidden, total - 2
    backward, rounded = BACKWARD in name, name.endswith(ROUNDED)
    b, t, j, k = Var("b"), Var("t"), Var(LANES_VAR), Var("k")

    def row(at: Expr, along: Expr) -> Expr:
        place: Expr = (at * batch + b) * hidden + along
        return place

    first = int32(last if backward else 0)
    cell = row(int32(0 if backward else last), j)
    time = int32(steps - 1) - t if backward else t
    before = time + 2 if backward else time
    place = b * gates + j

    def gate(position: int) -> Load:
        return Load("ws0", b * gates + (j + position * hidden))

    def sums(rows: int, start: Expr) -> Store:
        value: Expr = Load("ws0", place)
        for r in range(rows):
            at = b * hidden + (start + r)
            state = Load("ws1", at) if rounded else Load("out0", row(before, start + r))
            value = value + state * Load("in1", (start + r) * gates + j)
        return Store("ws0", place, value)

    new = Call("sigmoid", (gate(0),)) * Call("tanh", (gate(3),))
    kept = Call("sigmoid", (gate(2),)) * Load("out0", cell)
    state = Call("sigmoid", (gate(1),)) * Call("tanh", (Load("out0", cell),))
    whole, rest = divmod(hidden, _TOGETHER)
    products: list[Loop] = []
    if whole:
        inner = Loop(LANES_VAR, gates, (sums(_TOGETHER, k * _TOGETHER),))
        products.append(Loop("k", whole, (inner,)))
    if rest:
        products.append(Loop(LANES_VAR, gates, (sums(rest, int32(whole * _TOGETHER)),)))
    step = (
        Loop(LANES_VAR, gates, (Store("ws0", place, Load("in0", (time * batch + b) * gates + j)),)),
        *(_rounding(b, hidden, lambda at: Load("out0", row(before, at))) if rounded else ()),
        *products,
        Loop(LANES_VAR, hidden, (Store("out0", cell, kept + new),)),
        Loop(LANES_VAR, hidden, (Store("out0", row(time + 1, j), state),)),
    )
    own = b * hidden + j
    start = (
        Loop(LANES_VAR, hidden, (Store("out0", row(first, j), Load("in2", own)),)),
        Loop(LANES_VAR, hidden, (Store("out0", cell, Load("in3", own)),)),
    )
    buffers = [
        Buffer(f"in{i}", v.dtype, v.shape, "input", v.constant is not None)
        for i, v in enumerate(inputs)
    ]
    buffers.append(Buffer("out0", output.dtype, output.shape, "output"))
    buffers.append(Buffer("ws0", output.dtype, (batch, gates), "workspace"))
    if rounded:
        buffers.append(Buffer("ws1", output.dtype, (batch, hidden), "workspace"))
        buffers.append(Buffer("ws2", output.dtype, (batch, 4), "workspace"))
    stage = Stage(STAGE, (Axis("b", batch),), steps=(*start, Loop("t", steps, step)))
    return Program(name, tuple(buffers), (stage,))


def _rounding(b: Var, hidden: int, state: Callable[[Expr], Expr]) -> tuple[Loop | Store, ...]:
    """The state through unsigned bytes into `ws1`, as DynamicQuantizeLinear and its inverse do it;
    `ws2` has the smallest and the largest value, the scale and the zero point."""
    j, k = Var(LANES_VAR), Var("k")
    places = [b * 4 + i for i in range(4)]
    low, high, scale, zero = (Load("ws2", place) for place in places)
    none, levels = Const(0.0, "f32"), Const(255.0, "f32")
    ends = tuple(
        Store("ws2", place, Binary(op, Load("ws2", place), state(k)))
        for place, op in zip(places, ("min", "max"), strict=False)
    )
    apart = Select(Binary("lt", low, high), (high - low) / levels, Const(1.0, "f32"))
    level = Call("round", (state(j) / scale,)) + zero
    kept = Binary("min", Binary("max", level, none), levels)
    return (
        Store("ws2", places[0], none),
        Store("ws2", places[1], none),
        Loop("k", hidden, ends),
        Store("ws2", places[2], apart),
        Store("ws2", places[3], Call("round", ((none - low) / scale,))),
        Loop(LANES_VAR, hidden, (Store("ws1", b * hidden + j, (kept - zero) * scale),)),
    )
