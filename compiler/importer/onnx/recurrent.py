"""LSTM, GRU and RNN unrolled over their time steps, as the ONNX operator pages define them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.importer.onnx.quantised_lstm import ROUNDED, rounded
from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter

MAX_TIME_STEPS = 128
"""Each step becomes kernels of its own in the plan."""

_DEFAULTS = {
    "LSTM": (b"Sigmoid", b"Tanh", b"Tanh"),
    "GRU": (b"Sigmoid", b"Tanh"),
    "RNN": (b"Tanh",),
}
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_ACTIVATIONS = (b"Sigmoid", b"Tanh", b"Relu")


def recurrent(r: Rewriter) -> bool:
    """Unroll the node; refuses sequence lengths, clipping and odd activations by name."""
    kind = r.node.op_type
    names = [*r.node.input, *[""] * (8 - len(r.node.input))]
    x, _, _, _, lengths, start, cell, peephole = names
    if lengths or peephole or r.attribute("clip", None) or r.attribute("layout", 0):
        raise r.refuse("no sequence lengths, peepholes, clip or layout 1")
    steps, batch, _ = r.shape(x)
    if r.loops and _looped(r, names):
        return True
    if steps > MAX_TIME_STEPS:
        raise r.refuse(f"at most {MAX_TIME_STEPS} time steps")
    hidden = int(r.attribute("hidden_size", 0))
    direction = r.attribute("direction", b"forward")
    count = 2 if direction == b"bidirectional" else 1
    functions = list(r.attribute("activations", None) or _DEFAULTS[kind] * count)
    if any(f not in _ACTIVATIONS for f in functions):
        raise r.refuse("the activations Sigmoid, Tanh or Relu")
    w, u = r.constant(1, "weight W"), r.constant(2, "weight R")
    rows = _GATES[kind] * hidden
    bias = r.constant(3, "bias") if names[3] else np.zeros((count, 2 * rows), np.float32)
    inputs = [r.along("Squeeze", part, [0]) for part in r.split(x, [1] * steps, 0)]
    outputs: list[list[str]] = []
    last: list[tuple[str, str]] = []
    for d in range(count):
        order = range(steps)
        backward = direction == b"reverse" or d == 1
        state = [_initial(r, name, d, batch, hidden) for name in (start, cell)]
        per = len(functions) // count
        cell_of = _Cell(r, kind, w[d], u[d], bias[d], functions[d * per : (d + 1) * per], hidden)
        made = [""] * steps
        in_bytes = r.attribute(ROUNDED, 0)
        for t in reversed(order) if backward else order:
            before = rounded(r, state[0]) if in_bytes else state[0]
            state = cell_of.step(inputs[t], [before, state[1]])
            made[t] = state[0]
        outputs.append(made)
        last.append((state[0], state[1]))
    _write(r, outputs, last)
    return True


def _looped(r: Rewriter, names: list[str]) -> bool:
    """An LSTM as one product of all inputs and a loop over the steps; whether it is one."""
    functions = r.attribute("activations", None)
    direction = r.attribute("direction", b"forward")
    count = 2 if direction == b"bidirectional" else 1
    if r.node.op_type != "LSTM" or (functions and functions != [*_DEFAULTS["LSTM"]] * count):
        return False
    x, _, _, _, _, start, cell, _ = names
    steps, batch, _ = r.shape(x)
    hidden = int(r.attribute("hidden_size", 0))
    w, u = r.constant(1, "weight W"), r.constant(2, "weight R")
    bias = r.constant(3, "bias") if names[3] else np.zeros((count, 8 * hidden), np.float32)
    outputs: list[str] = []
    last: list[tuple[str, str]] = []
    for d in range(count):
        backward = direction == b"reverse" or d == 1
        product = r.op("MatMul", x, r.weight(w[d].T.copy()))
        gates = r.op("Add", product, r.weight(bias[d, : 4 * hidden] + bias[d, 4 * hidden :]))
        first = [_initial(r, name, d, batch, hidden) for name in (start, cell)]
        facts = {"backward": int(backward), ROUNDED: r.attribute(ROUNDED, 0)}
        rows = r.op("LstmLoop", gates, r.weight(u[d].T.copy()), *first, **facts)
        # The first state, the states by time, the last cell; backward the other way round.
        ends = r.split(rows, [1, steps, 1], 0)
        outputs.append(ends[1])
        position = r.weight(1 if backward else steps, np.int64)
        last.append(
            (
                r.op("Gather", rows, position, axis=0),
                r.along("Squeeze", ends[0 if backward else 2], [0]),
            )
        )
    whole, *finals = [*r.node.output, "", ""][:3]
    if whole:
        parts = [r.along("Unsqueeze", part, [1]) for part in outputs]
        r.op("Concat", *parts, axis=1, out=whole)
    _write_last(r, finals, last)
    return True


def _initial(r: Rewriter, name: str, direction: int, batch: int, hidden: int) -> str:
    if not name:
        return r.weight(np.zeros((batch, hidden), np.float32))
    index = r.weight(direction, np.int64)
    return r.op("Gather", name, index, axis=0)


def _write(r: Rewriter, outputs: list[list[str]], last: list[tuple[str, str]]) -> None:
    names = [*r.node.output, "", ""][:3]
    if names[0]:
        whole = []
        for t in range(len(outputs[0])):
            both = [r.along("Unsqueeze", made[t], [0]) for made in outputs]
            row = r.op("Concat", *both, axis=0) if len(both) > 1 else both[0]
            whole.append(r.along("Unsqueeze", row, [0]))
        r.op("Concat", *whole, axis=0, out=names[0])
    _write_last(r, names[1:], last)


def _write_last(r: Rewriter, names: list[str], last: list[tuple[str, str]]) -> None:
    for position, name in enumerate(names):
        if name:
            parts = [r.along("Unsqueeze", state[position], [0]) for state in last]
            r.op("Concat", *parts, axis=0, out=name)


class _Cell:
    """One direction of one node: its weights as constants, and the formula of a step."""

    def __init__(
        self,
        r: Rewriter,
        kind: str,
        w: NDArray[Any],
        u: NDArray[Any],
        bias: NDArray[Any],
        functions: list[bytes],
        hidden: int,
    ) -> None:
        self.r, self.kind, self.hidden = r, kind, hidden
        self.functions = [f.decode() for f in functions]
        rows = len(bias) // 2
        self.w, self.u = r.weight(w.T.copy()), r.weight(u.T.copy())
        self.w_bias, self.u_bias = bias[:rows], bias[rows:]
        self.bias = r.weight(self.w_bias + self.u_bias)
        self.parts = [hidden] * _GATES[kind]
        if kind == "GRU":
            self.linear = int(r.attribute("linear_before_reset", 0))
            self.x_bias, self.h_bias = r.weight(self.w_bias), r.weight(self.u_bias)
            self.u_gates = r.weight(u[: 2 * hidden].T.copy())
            self.u_new = r.weight(u[2 * hidden :].T.copy())
            self.gates_bias = r.weight(self.u_bias[: 2 * hidden])
            self.new_bias = r.weight(self.u_bias[2 * hidden :])
            self.one = r.weight(1, np.float32)

    def step(self, x: str, state: list[str]) -> list[str]:
        if self.kind == "GRU":
            return [self._gru(x, state[0]), ""]
        r = self.r
        total = r.op("Add", r.op("MatMul", x, self.w), r.op("MatMul", state[0], self.u))
        total = r.op("Add", total, self.bias)
        if self.kind == "RNN":
            return [r.op(self.functions[0], total), ""]
        f, g, h = self.functions
        inp, out, forget, new = r.split(total, self.parts, 1)
        kept = r.op("Mul", r.op(f, forget), state[1])
        cell = r.op("Add", kept, r.op("Mul", r.op(f, inp), r.op(g, new)))
        return [r.op("Mul", r.op(f, out), r.op(h, cell)), cell]

    def _gru(self, x: str, h: str) -> str:
        r, n = self.r, self.hidden
        f, g = self.functions
        xs = r.op("Add", r.op("MatMul", x, self.w), self.x_bias)
        x_gates, x_new = r.split(xs, [2 * n, n], 1)
        h_gates = r.op("Add", r.op("MatMul", h, self.u_gates), self.gates_bias)
        update, reset = r.split(r.op(f, r.op("Add", x_gates, h_gates)), [n, n], 1)
        if self.linear:
            part = r.op("Add", r.op("MatMul", h, self.u_new), self.new_bias)
            part = r.op("Mul", reset, part)
        else:
            part = r.op("MatMul", r.op("Mul", reset, h), self.u_new)
            part = r.op("Add", part, self.new_bias)
        new = r.op(g, r.op("Add", x_new, part))
        fresh = r.op("Mul", r.op("Sub", self.one, update), new)
        return r.op("Add", fresh, r.op("Mul", update, h))
