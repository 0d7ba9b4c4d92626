"""The operator that runs a recurrent layer of any length; TVM carries it as one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from nnjit_studio.compiler.ir.rewrite import int32
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Buffer,
    Call,
    Expr,
    Load,
    Loop,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.schedule.recurrent import LANES_VAR, STAGE

LSTM_OP = "LstmLoop"
"""The ONNX operator that :mod:`nnjit_studio.compiler.importer.onnx.recurrent` writes: gates
[T, B, 4H] of the inputs, weights [H, 4H], first state and cell [B, H]. The result [T + 2, B, H] is
the states by time between the first state and the last cell, in the order of the steps."""
FORWARD, BACKWARD = "lstm_forward", "lstm_backward"
"""Names of the programs that stand for it."""
_TOGETHER = 4
"""Rows of the weights that one pass over the gates adds."""


class LstmLoop(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """The layer as one call."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        steps, batch, gates = (int(d) for d in inputs[0].ty.shape)
        name = BACKWARD if attr.get("backward", 0) else FORWARD
        shape = relax.ShapeExpr([steps + 2, batch, gates // 4])
        result = type(inputs[0].ty)(shape, inputs[0].ty.dtype)
        return relax.call_pure_packed(name, *inputs, ty_args=result)


def lstm_program(name: str, inputs: Sequence[Any], output: Any) -> Program:
    """The program of a carried call, from the values that it takes and gives."""
    total, batch, hidden = output.shape
    last, gates, steps = total - 1, 4 * hidden, total - 2
    backward = name == BACKWARD
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
            state = Load("out0", row(before, start + r))
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
    stage = Stage(STAGE, (Axis("b", batch),), steps=(*start, Loop("t", steps, step)))
    return Program(name, tuple(buffers), (stage,))
