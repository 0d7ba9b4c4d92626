"""The operator that runs a recurrent layer of any length; TVM carries it as one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from nnjit_studio.compiler.recognize.recurrent import LANES_VAR, STAGE

RECURRENT_OP = "RecurrentLoop"
"""The ONNX operator that :mod:`nnjit_studio.compiler.importer.onnx.recurrent` writes: gates
[T, B, GH] of the inputs, weights [H, GH], the first state [B, H], and the first cell [B, H] of an
LSTM or, of a GRU that resets behind its product, that product's bias [H]. The result is the first
state and the states by time, in the order of the steps, and of an LSTM the last cell at the end
where a forward one has its last step: [T + 1, B, H], or [T + 2, B, H]. The attribute ``form`` is
what :func:`form_of` gives. An LSTM's peepholes [3H] come last."""
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
BACKWARD, ROUNDED, LINEAR, FRESH = "backward", "rounded", "linear", "fresh"
"""Words of a form: the steps from the last one on; the state in 8 bits where it is multiplied; the
reset of a GRU behind its product; a first state of zeros, which is not multiplied."""
TOGETHER = "together"
"""The word, with a number behind it, of so many elements of the batch that go through the weights
together."""
MOST_TOGETHER = 4
PEEPHOLES, COUPLED = "peepholes", "coupled"
"""Words of an LSTM: gates read the cell; it forgets as much as it takes in."""
CLIP = "clip"
"""The word, with a number behind it, of the largest argument of a gate's function."""
_WORDS = (BACKWARD, ROUNDED, LINEAR, FRESH, PEEPHOLES, COUPLED)
_ROWS = 4
"""Rows of the weights that one pass over the gates adds."""
_SEPARATOR = "_"

Statements = tuple[Statement, ...]


def form_of(kind: str, functions: Sequence[str], *words: str) -> str:
    """The name of the programs of a layer: what it computes, but for its sizes."""
    return _SEPARATOR.join((kind, *functions, *words)).lower()


class RecurrentLoop(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """The layer as one call."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        form = attr["form"].decode()
        kind = form.partition(_SEPARATOR)[0].upper()
        steps, batch, gates = (int(d) for d in inputs[0].ty.shape)
        shape = relax.ShapeExpr([steps + 1 + (kind == "LSTM"), batch, gates // GATES[kind]])
        result = type(inputs[0].ty)(shape, inputs[0].ty.dtype)
        return relax.call_pure_packed(form, *inputs, ty_args=result)


def recurrent_program(form: str, inputs: Sequence[Any], output: Any) -> Program:
    """The program of a carried call, from the values that it takes and gives."""
    kind, *words = form.split(_SEPARATOR)
    together = next((int(w[len(TOGETHER) :]) for w in words if w.startswith(TOGETHER)), 1)
    clip = next((float(w[len(CLIP) :]) for w in words if w.startswith(CLIP)), None)
    names = [w for w in words if w not in _WORDS and not w.startswith((TOGETHER, CLIP))]
    backward, rounded = BACKWARD in words, ROUNDED in words
    length, batch, gates = inputs[0].shape
    layer = _Layer(
        length, batch, output.shape[2], gates, backward, rounded, FRESH in words, tuple(names),
        together, Var("e"), PEEPHOLES in words, COUPLED in words, clip,
    )  # fmt: skip
    step = {"lstm": layer.lstm, "gru": layer.gru, "rnn": layer.rnn}[kind]
    loop = Loop("t", length, step(LINEAR in words))
    buffers = [
        Buffer(f"in{i}", v.dtype, v.shape, "input", v.constant is not None)
        for i, v in enumerate(inputs)
    ]
    buffers.append(Buffer("out0", output.dtype, output.shape, "output"))
    axis, steps = Axis("b", batch // together), (*layer.start(kind == "lstm"), loop)
    stage = Stage(STAGE, (axis,), steps=steps)
    workspaces = [(batch, gates)]
    if rounded or (kind == "gru" and LINEAR not in words):
        workspaces.append((batch, layer.hidden))
    if rounded:
        workspaces.append((batch, 4))
    buffers += [
        Buffer(f"ws{i}", output.dtype, shape, "workspace") for i, shape in enumerate(workspaces)
    ]
    return Program(form, tuple(buffers), (stage,))


@dataclass(frozen=True)
class _Layer:
    """The statements of one element of the batch; `ws0` has the gates of a step."""

    steps: int
    batch: int
    hidden: int
    gates: int
    backward: bool
    rounded: bool
    fresh: bool
    functions: tuple[str, ...]
    together: int
    """Elements of the batch that a thread has: their products read the weights once."""
    element: Expr
    peepholes: bool
    coupled: bool
    clip: float | None

    t, j, k = Var("t"), Var(LANES_VAR), Var("k")

    @property
    def b(self) -> Expr:
        return Var("b") if self.together == 1 else Var("b") * self.together + self.element

    def each(self, *statements: Statement) -> Statements:
        """What every element does by itself."""
        return statements if self.together == 1 else (Loop("e", self.together, statements),)

    def row(self, at: Expr, along: Expr) -> Expr:
        """Index into the output."""
        place: Expr = (at * self.batch + self.b) * self.hidden + along
        return place

    @property
    def first(self) -> int:
        """The row of the first step's state: an LSTM that goes backward has its cell before."""
        return 0 if self.backward and self.gates != GATES["LSTM"] * self.hidden else 1

    @property
    def time(self) -> Expr:
        return int32(self.steps - 1) - self.t if self.backward else self.t

    def before(self, along: Expr) -> Load:
        """The state that a step begins with."""
        return Load(
            "out0", self.row(self.time + (self.first + (1 if self.backward else -1)), along)
        )

    def set_state(self, value: Expr) -> Loop:
        place = self.row(self.time + self.first, self.j)
        return Loop(LANES_VAR, self.hidden, (Store("out0", place, value),))

    @property
    def cell(self) -> Load:
        last = 0 if self.backward else self.steps + 1
        return Load("out0", self.row(int32(last), self.j))

    def start(self, cell: bool) -> Statements:
        """The first state, and cell, to their places."""
        own = self.b * self.hidden + self.j
        row = int32(self.first + (self.steps if self.backward else -1))
        puts = [Store("out0", self.row(row, self.j), Load("in2", own))]
        if cell:
            puts.append(Store("out0", self.cell.index, Load("in3", own)))
        return self.each(*(Loop(LANES_VAR, self.hidden, (put,)) for put in puts))

    def given(self, along: Expr) -> Load:
        """What a step's input adds to a gate."""
        return Load("in0", (self.time * self.batch + self.b) * self.gates + along)

    def gate(self, position: int) -> Load:
        return Load("ws0", self.b * self.gates + (self.j + position * self.hidden))

    def seeing(self, position: int) -> Expr:
        """A gate with what its peephole sees of the cell."""
        if not self.peepholes:
            return self.gate(position)
        return self.gate(position) + Load("in4", self.j + position * self.hidden) * self.cell

    def apply(self, position: int, value: Expr) -> Expr:
        """The layer's function of this number; the one of a cell has no bound."""
        name = self.functions[position]
        if self.clip is not None and position != 2:
            bound = Const(self.clip, "f32")
            value = Binary("max", Binary("min", value, bound), Const(-self.clip, "f32"))
        if name == "relu":
            return Binary("max", value, Const(0.0, "f32"))
        return Call(name, (value,))

    def taken(self, columns: int) -> Loop:
        """The first columns of a step's gates, from its input."""
        store = Store("ws0", self.b * self.gates + self.j, self.given(self.j))
        return Loop(LANES_VAR, columns, (store,))

    def product(
        self, state: Callable[[_Layer, Expr], Expr], first: int, columns: int
    ) -> Statements:
        """Gates from ``first`` on plus a state times their columns of the weights."""

        def added(layer: _Layer, rows: int, start: Expr) -> Store:
            place = layer.b * self.gates + (self.j + first)
            value: Expr = Load("ws0", place)
            for r in range(rows):
                weight = Load("in1", (start + r) * self.gates + (self.j + first))
                value = value + state(layer, start + r) * weight
            return Store("ws0", place, value)

        def sums(rows: int, start: Expr) -> Loop:
            layers = [replace(self, element=int32(e)) for e in range(self.together)]
            return Loop(LANES_VAR, columns, tuple(added(one, rows, start) for one in layers))

        whole, rest = divmod(self.hidden, _ROWS)
        loops: Statements = ()
        if whole:
            loops = (Loop("k", whole, (sums(_ROWS, self.k * _ROWS),)),)
        if rest:
            loops += (sums(rest, int32(whole * _ROWS)),)
        return (If(Binary("gt", self.t, int32(0)), loops),) if self.fresh else loops

    def second(self, along: Expr) -> Load:
        """Of a state that is another one where it is multiplied."""
        return Load("ws1", self.b * self.hidden + along)

    def lstm(self, linear: bool) -> Statements:
        """Gates in the order input, output, forget, cell."""
        gate, apply = self.seeing, self.apply
        into = apply(0, gate(0))
        forget = Const(1.0, "f32") - into if self.coupled else apply(0, gate(2))
        new = into * apply(1, self.gate(3))
        kept = forget * self.cell
        state = apply(0, gate(1)) * apply(2, self.cell)
        multiplied = _Layer.second if self.rounded else _Layer.before
        rounding = _rounding(self.b, self.hidden, self.before) if self.rounded else ()
        cell = Loop(LANES_VAR, self.hidden, (Store("out0", self.cell.index, kept + new),))
        return (
            *self.each(self.taken(self.gates), *rounding),
            *self.product(multiplied, 0, self.gates),
            *self.each(cell, self.set_state(state)),
        )

    def gru(self, linear: bool) -> Statements:
        """Gates in the order update, reset, new."""
        n, apply, new = self.hidden, self.apply, self.gate(2)
        both = Load("ws0", self.b * self.gates + self.j)
        gates = Loop(LANES_VAR, 2 * n, (Store("ws0", both.index, apply(0, both)),))
        value: Expr = new
        if linear:
            bias = Loop(LANES_VAR, n, (Store("ws0", new.index, Load("in3", self.j)),))
            value = self.given(self.j + 2 * n) + self.gate(1) * new
            before: Statements = (
                *self.each(self.taken(2 * n), bias),
                *self.product(_Layer.before, 0, self.gates),
            )
            after: Statements = (gates,)
        else:
            part = Store("ws1", self.second(self.j).index, self.gate(1) * self.before(self.j))
            before = (
                *self.each(self.taken(self.gates)),
                *self.product(_Layer.before, 0, 2 * n),
                *self.each(gates, Loop(LANES_VAR, n, (part,))),
                *self.product(_Layer.second, 2 * n, n),
            )
            after = ()
        kept = self.gate(0) * self.before(self.j)
        state = (Const(1.0, "f32") - self.gate(0)) * apply(1, value) + kept
        return (*before, *self.each(*after, self.set_state(state)))

    def rnn(self, linear: bool) -> Statements:
        return (
            *self.each(self.taken(self.gates)),
            *self.product(_Layer.before, 0, self.gates),
            *self.each(self.set_state(self.apply(0, self.gate(0)))),
        )


def _rounding(b: Expr, hidden: int, state: Callable[[Expr], Expr]) -> Statements:
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
