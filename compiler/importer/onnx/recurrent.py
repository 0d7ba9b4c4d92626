"""LSTM, GRU and RNN, as the ONNX operator pages define them.

They become one product of all inputs and a loop over the steps behind it or, where there are few
steps and on a GPU, are unrolled.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from nnjit_studio.compiler.importer.onnx.forms.moved import reversed_rows
from nnjit_studio.compiler.importer.onnx.quantised_lstm import ROUNDED, rounded
from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter
from nnjit_studio.compiler.tvm_adapter.recurrent import (
    BACKWARD,
    CLIP,
    COUPLED,
    FRESH,
    GATES,
    LINEAR,
    MOST_TOGETHER,
    PEEPHOLES,
    RECURRENT_OP,
    TOGETHER,
    form_of,
)

_DEFAULTS = {
    "LSTM": (b"Sigmoid", b"Tanh", b"Tanh"),
    "GRU": (b"Sigmoid", b"Tanh"),
    "RNN": (b"Tanh",),
}
_SHUT = 1e4
"""Where a sigmoid is 1; of its negative it is 0."""
_ACTIVATIONS = (b"Sigmoid", b"Tanh", b"Relu")


@dataclass(frozen=True)
class _Node:
    """A layer: names of its input, first state, cell and lengths; by direction weights, bias,
    peepholes, functions. ``words`` are what its form has besides."""

    kind: str
    x: str
    start: str
    cell: str
    lengths: str
    steps: int
    batch: int
    hidden: int
    w: NDArray[Any]
    u: NDArray[Any]
    bias: NDArray[Any]
    peepholes: NDArray[Any] | None
    functions: tuple[tuple[str, ...], ...]
    backward: tuple[bool, ...]
    in_bytes: int
    words: tuple[str, ...]


def recurrent(r: Rewriter) -> bool:
    """Rewrite the node; refuses odd activations by name."""
    kind = r.node.op_type
    names = [*r.node.input, *[""] * (8 - len(r.node.input))]
    x, _, _, _, lengths, start, cell, peephole = names
    clip, words = r.attribute("clip", None), []
    if r.attribute("input_forget", 0):
        words.append(COUPLED)
    if clip:
        words.append(f"{CLIP}{clip}")
    steps, batch, _ = r.shape(x)
    whole, *finals = [*r.node.output, "", ""][:3]
    batch_first = r.attribute("layout", 0)
    if batch_first:
        steps, batch = batch, steps
        x, start, cell = (
            r.op("Transpose", n, perm=[1, 0, 2]) if n else "" for n in (x, start, cell)
        )
    hidden = int(r.attribute("hidden_size", 0))
    direction = r.attribute("direction", b"forward")
    backward = (False, True) if direction == b"bidirectional" else (direction == b"reverse",)
    functions = list(r.attribute("activations", None) or _DEFAULTS[kind] * len(backward))
    if any(f not in _ACTIVATIONS for f in functions):
        raise r.refuse("the activations Sigmoid, Tanh or Relu")
    if lengths in r.constants and (r.constants[lengths] == steps).all():
        lengths = ""
    if lengths and (clip or {*functions[::3]} != {b"Sigmoid"}) and kind == "LSTM":
        raise r.refuse("no clip, and the activation Sigmoid, where sequences have lengths")
    w, u = r.constant(1, "weight W"), r.constant(2, "weight R")
    empty = np.zeros((len(backward), 2 * GATES[kind] * hidden), np.float32)
    per = len(_DEFAULTS[kind])
    node = _Node(
        kind, x, start, cell, lengths, steps, batch, hidden, w, u,
        r.constant(3, "bias") if names[3] else empty,
        r.constant(7, "weight P") if peephole else None,
        tuple(
            tuple(f.decode() for f in functions[d * per : (d + 1) * per])
            for d in range(len(backward))
        ),
        backward, r.attribute(ROUNDED, 0), tuple(words),
    )  # fmt: skip
    rows = f"{whole}//rows" if whole and batch_first else whole
    loop = steps >= r.loops_from or lengths or peephole or words
    last = (_looped if loop else _unrolled)(r, node, rows)
    if rows != whole:
        r.op("Transpose", rows, perm=[2, 0, 1, 3], out=whole)
    axis = 1 if batch_first else 0
    for name, ends in zip(finals, zip(*last, strict=True), strict=False):
        if name:
            parts = [r.along("Unsqueeze", end, [axis]) for end in ends]
            r.op("Concat", *parts, axis=axis, out=name)
    return True


def _looped(r: Rewriter, node: _Node, whole: str) -> list[tuple[str, ...]]:
    """One product of all inputs and a loop over the steps; the last state, and cell, a direction.

    The states by time are written where ``whole`` names them.
    """
    rows = GATES[node.kind] * node.hidden
    linear = node.kind == "GRU" and r.attribute("linear_before_reset", 0)
    # Where sizes stay open, a batch of any size has the same loops.
    together = 1 if r.open_sizes else gcd(node.batch, MOST_TOGETHER)
    outputs: list[str] = []
    last: list[tuple[str, ...]] = []
    for d, backward in enumerate(node.backward):
        turned = backward and bool(node.lengths)
        words = {BACKWARD: backward and not turned, ROUNDED: node.in_bytes, LINEAR: linear}
        words |= {FRESH: not node.start, f"{TOGETHER}{together}": together > 1}
        words |= {PEEPHOLES: node.peepholes is not None, **dict.fromkeys(node.words, True)}
        form = form_of(node.kind, node.functions[d], *(word for word, on in words.items() if on))
        added = node.bias[d, :rows].copy()
        inside = 2 * node.hidden if linear else rows
        added[:inside] += node.bias[d, rows : rows + inside]
        source = node.x
        if turned:
            shape = node.steps, node.batch, node.w.shape[2]
            source = reversed_rows(r, source, node.lengths, shape)
        gates = r.op("MatMul", source, r.weight(node.w[d].T.copy()))
        gates = r.op("Add", gates, r.weight(added))
        if node.lengths and node.kind == "LSTM":
            gates = _held(r, node, gates)
        given = [gates, r.weight(node.u[d].T.copy())]
        given.append(_initial(r, node, node.start, d))
        if node.kind == "LSTM":
            given.append(_initial(r, node, node.cell, d))
            if node.peepholes is not None:
                given.append(r.weight(node.peepholes[d]))
        elif linear:
            given.append(r.weight(node.bias[d, rows + inside :]))
        made = r.op(RECURRENT_OP, *given, form=form)
        states, final = _parts(r, made, node.kind == "LSTM", backward and not turned, node.steps)
        if node.lengths:
            final, states = _in_lengths(r, node, made, final[1:], states)
        if turned:
            shape = node.steps, node.batch, node.hidden
            states = reversed_rows(r, states, node.lengths, shape)
        outputs.append(states)
        last.append(final)
    if whole:
        parts = [r.along("Unsqueeze", part, [1]) for part in outputs]
        r.op("Concat", *parts, axis=1, out=whole)
    return last


def _in_lengths(
    r: Rewriter, node: _Node, rows: str, cell: tuple[str, ...], states: str
) -> tuple[tuple[str, ...], str]:
    """The last state, and cell, of each sequence, and zeros behind its end; of none at all too."""
    count, zero = _counts(r, node), r.weight(0, np.float32)
    whole = r.op("Expand", count, r.weight([1, node.batch, node.hidden], np.int64))
    state = r.along("Squeeze", r.op("GatherElements", rows, whole, axis=0), [0])
    some = r.along("Squeeze", r.op("Greater", count, r.weight(0, np.int64)), [0])
    final = tuple(r.op("Where", some, end, zero) for end in (state, *cell))
    return final, r.op("Where", _inside(r, node), states, zero)


def _counts(r: Rewriter, node: _Node) -> str:
    """The lengths as [1, B, 1]."""
    count = r.op("Cast", node.lengths, to=TensorProto.INT64)
    return r.op("Reshape", count, r.weight([1, node.batch, 1], np.int64))


def _inside(r: Rewriter, node: _Node) -> str:
    """Whether a step is one of its sequence: [T, B, 1]."""
    steps = r.weight(np.arange(node.steps).reshape(-1, 1, 1), np.int64)
    return r.op("Less", steps, _counts(r, node))


def _held(r: Rewriter, node: _Node, gates: str) -> str:
    """Gates of an LSTM that leave its cell alone behind a sequence: nothing goes in, and all is
    remembered."""
    shut = r.weight(np.repeat([-_SHUT, 0, _SHUT, 0], node.hidden), np.float32)
    return r.op("Where", _inside(r, node), gates, r.op("Add", gates, shut))


def _parts(
    r: Rewriter, rows: str, has_cell: bool, backward: bool, steps: int
) -> tuple[str, tuple[str, ...]]:
    """The states by time, and the last state, and cell, of a loop's result."""
    base = 0 if backward and not has_cell else 1
    ends = [1, steps, 1] if has_cell else [1, steps] if base else [steps, 1]
    parts = r.split(rows, ends, 0)
    position = r.weight(base if backward else base + steps - 1, np.int64)
    state = r.op("Gather", rows, position, axis=0)
    if not has_cell:
        return parts[base], (state,)
    return parts[base], (state, r.along("Squeeze", parts[0 if backward else 2], [0]))


def _unrolled(r: Rewriter, node: _Node, whole: str) -> list[tuple[str, ...]]:
    """The same with kernels for each step."""
    inputs = [r.along("Squeeze", part, [0]) for part in r.split(node.x, [1] * node.steps, 0)]
    outputs: list[list[str]] = []
    last: list[tuple[str, ...]] = []
    for d, backward in enumerate(node.backward):
        order = range(node.steps)
        state = [_initial(r, node, name, d) for name in (node.start, node.cell)]
        cell_of = _Cell(r, node, d)
        made = [""] * node.steps
        for t in reversed(order) if backward else order:
            before = rounded(r, state[0]) if node.in_bytes else state[0]
            state = cell_of.step(inputs[t], [before, state[1]])
            made[t] = state[0]
        outputs.append(made)
        last.append((state[0], state[1]))
    if whole:
        rows = []
        for t in range(node.steps):
            both = [r.along("Unsqueeze", made[t], [0]) for made in outputs]
            row = r.op("Concat", *both, axis=0) if len(both) > 1 else both[0]
            rows.append(r.along("Unsqueeze", row, [0]))
        r.op("Concat", *rows, axis=0, out=whole)
    return last


def _initial(r: Rewriter, node: _Node, name: str, direction: int) -> str:
    if not name:
        return r.weight(np.zeros((node.batch, node.hidden), np.float32))
    index = r.weight(direction, np.int64)
    return r.op("Gather", name, index, axis=0)


class _Cell:
    """One direction of one node: its weights as constants, and the formula of a step."""

    def __init__(self, r: Rewriter, node: _Node, direction: int) -> None:
        self.r, self.kind, self.hidden = r, node.kind, node.hidden
        hidden, kind = node.hidden, node.kind
        w, u, bias = (held[direction] for held in (node.w, node.u, node.bias))
        self.functions = node.functions[direction]
        rows = len(bias) // 2
        self.w, self.u = r.weight(w.T.copy()), r.weight(u.T.copy())
        self.w_bias, self.u_bias = bias[:rows], bias[rows:]
        self.bias = r.weight(self.w_bias + self.u_bias)
        self.parts = [hidden] * GATES[kind]
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
