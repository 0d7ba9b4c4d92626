"""A nest as a program of our compiler: its buffers are windows of the module's memory."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

from nnjit_studio.compiler.ir import tensor_ir as ir
from nnjit_studio.compiler.ir.program_text import program_text
from nnjit_studio.compiler.programs.parts import f32
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.foreign_wasm.offload.dependence import reach
from nnjit_studio.foreign_wasm.offload.lift.refusal import Refused
from nnjit_studio.foreign_wasm.offload.lift.terms import (
    Atom,
    Const,
    Expr,
    Linear,
    Load,
    Op,
    Reduce,
    Scalar,
    Sum,
    walk,
)
from nnjit_studio.foreign_wasm.offload.nest import RESULT, Nest, reductions
from nnjit_studio.foreign_wasm.offload.reroll import Loops, Output

ELEMENT = 4
LEAST_POINTS = 64
MOST_BYTES = 1 << 32
"""What a module's memory can have."""

MOST_BUFFERS = 8
"""Storage buffers that every device binds at once."""

_CALLS = ("abs", "neg", "sqrt", "ceil", "floor", "trunc", "round", "not")


@dataclass(frozen=True)
class Window:
    """Bytes of memory that a kernel reads; ``base`` is of the first."""

    base: Linear
    nbytes: int


@dataclass(frozen=True)
class Target:
    """What a kernel writes: densely for itself, in memory at steps of bytes for each extent."""

    base: Linear
    dims: tuple[tuple[int, int], ...]

    @property
    def is_result(self) -> bool:
        return self.base.of_atom(RESULT) != 0


@dataclass(frozen=True)
class Lowered:
    """A nest that the compiler takes.

    Attributes
    ----------
    kind
        ``element-wise``, ``dot``, ``gemv``, ``matmul`` or ``reduction``.
    flops
        Operations on float32, with those of reductions.
    scalars
        Fixed values, in the order of the program's buffer of them, which comes last of the inputs.
    """

    program: ir.Program
    kind: str
    flops: int
    points: int
    inputs: tuple[Window, ...]
    targets: tuple[Target, ...]
    scalars: tuple[Atom, ...]

    @property
    def fingerprint(self) -> str:
        """Of the canonical form: equal nests have equal ones, wherever their memory lies."""
        dims = repr([t.dims for t in self.targets])
        return hashlib.sha256((program_text(self.program) + dims).encode()).hexdigest()[:16]


def lower(nest: Nest) -> Lowered:
    """The program of a nest.

    Raises
    ------
    Refused
    """
    lowering = _Lowering(nest)
    program = lowering.program()
    if not lowering.flops:
        raise Refused("copy")
    if lowering.points < LEAST_POINTS:
        raise Refused("small")
    return Lowered(
        program,
        _kind(nest, program),
        lowering.flops,
        lowering.points,
        tuple(lowering.windows),
        tuple(lowering.targets),
        tuple(lowering.scalars),
    )


def _kind(nest: Nest, program: ir.Program) -> str:
    to_locals = all(o.address.of_atom(RESULT) for o in nest.outputs)
    if not any(isinstance(e, Reduce) for o in nest.outputs for e in walk(o.value)):
        return "element-wise"
    subject = subject_of(program)
    if isinstance(subject, Contraction) and not to_locals:
        return "gemv" if 1 in (subject.m, subject.n) else "matmul"
    products = all(
        isinstance(e.term, Op)
        and e.term.name == "mul"
        and all(isinstance(a, Load) for a in e.term.args)
        for o in nest.outputs for e in walk(o.value) if isinstance(e, Reduce)
    )  # fmt: skip
    if not products:
        return "reduction"
    return "dot" if to_locals else "gemv"


class _Lowering:
    """The buffers of a nest, then its stages."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.names: dict[Atom, str] = {}
        for o in nest.outputs:
            for atom, _ in (*ordered(o), *reductions(o.value)):
                self.names.setdefault(atom, f"i{len(self.names)}")
        found = [e for o in nest.outputs for e in walk(o.value)]
        self.scalars = list(dict.fromkeys(e.atom for e in found if isinstance(e, Scalar)))
        self.trips = dict(p for o in nest.outputs for p in (*o.loops, *reductions(o.value)))
        loads = dict.fromkeys(e.address for e in found if isinstance(e, Load))
        self.windows, self.places = windows(list(loads), self.trips)
        self.targets = [
            Target(o.address.of_kind("entry").plus(Linear((), o.address.constant)),
                   tuple((o.address.of_atom(a), n) for a, n in ordered(o)))
            for o in nest.outputs
        ]  # fmt: skip
        if len(self.windows) + len(self.targets) + bool(self.scalars) > MOST_BUFFERS:
            raise Refused("size")
        self.flops = self.points = 0
        self.workspaces: list[ir.Buffer] = []

    def program(self) -> ir.Program:
        inputs = [
            ir.Buffer(f"in{i}", "f32", (w.nbytes // ELEMENT,), "input")
            for i, w in enumerate(self.windows)
        ]
        if self.scalars:
            inputs.append(ir.Buffer("scalars", "f32", (len(self.scalars),), "input"))
        outputs, stages = [], []
        for i, output in enumerate(self.nest.outputs):
            shape = tuple(n for _, n in ordered(output))
            outputs.append(ir.Buffer(f"out{i}", "f32", shape, "output"))
            stages += self._stages(output, f"out{i}")
        return ir.Program("nest", (*inputs, *outputs, *self.workspaces), tuple(stages))

    def _stages(self, output: Output, name: str) -> list[ir.Stage]:
        loops = ordered(output)
        axes, place = self._axes(loops), self._dense(loops)
        spatial = math.prod(n for _, n in loops)
        groups = _groups(output.value)
        stages = []
        sums: dict[Reduce, ir.Expr] = {}
        for around, members in groups:
            over = math.prod(n for _, n in around)
            terms = [self._value(m.term) for m in members]
            body = terms[0]
            for term in terms[1:]:
                body = ir.Binary("add", body, term)
            alone = output.value == members[0]
            target = name if alone else f"ws{len(self.workspaces)}"
            if not alone:
                shape = tuple(n for _, n in loops)
                self.workspaces.append(ir.Buffer(target, "f32", shape, "workspace"))
            total = ir.Load(target, place)
            step = ir.Store(target, place, ir.Binary("add", total, body))
            first = ir.Store(target, place, f32(0.0))
            reduce = self._axes(around, "reduce")
            stages.append(ir.Stage(f"sum_{target}", (*axes, *reduce), (step,), (first,)))
            self._count(spatial * over, [m.term for m in members], len(members))
            sums |= {m: total if m is members[0] else f32(0.0) for m in members}
        if output.value in sums:
            return stages
        self._count(spatial, [output.value])
        value = self._value(output.value, sums)
        return [*stages, ir.Stage(f"store_{name}", axes, (ir.Store(name, place, value),))]

    def _count(self, points: int, values: list[Expr], sums: int = 0) -> None:
        self.flops += points * (sum(_operations(v) for v in values) + sums)
        self.points += points

    def _axes(self, loops: Loops, kind: str = "spatial") -> tuple[ir.Axis, ...]:
        return tuple(ir.Axis(self.names[atom], n, kind) for atom, n in loops)

    def _dense(self, loops: Loops) -> ir.Expr:
        index: ir.Expr = ir.Const(0, "i32")
        step = 1
        for atom, n in reversed(loops):
            index = _plus(index, _scaled(self.names[atom], step))
            step *= n
        return index

    def _index(self, address: Linear) -> tuple[str, ir.Expr]:
        window = self.places[address]
        form = address.plus(self.windows[window].base, -1)
        index: ir.Expr = ir.Const(0, "i32")
        ordered = sorted(form.terms, key=lambda t: -abs(t[1]))
        for atom, c in ordered:
            index = _plus(index, _scaled(self.names[atom], c // ELEMENT))
        if form.constant:
            index = _plus(index, ir.Const(form.constant // ELEMENT, "i32"))
        return f"in{window}", index

    def _value(self, expr: Expr, sums: Mapping[Reduce, ir.Expr] | None = None) -> ir.Expr:
        if isinstance(expr, Const):
            return f32(expr.value)
        if isinstance(expr, Scalar):
            return ir.Load("scalars", ir.Const(self.scalars.index(expr.atom), "i32"))
        if isinstance(expr, Load):
            return ir.Load(*self._index(expr.address))
        if isinstance(expr, Reduce):
            if sums is None:
                raise Refused("kernel")
            return sums[expr]
        parts = [self._value(c, sums) for c in (expr.terms if isinstance(expr, Sum) else expr.args)]
        if isinstance(expr, Sum):
            kept = [p for p in parts if p != f32(0.0)]
            total = kept[0]
            for part in kept[1:]:
                total = ir.Binary("add", total, part)
            return total
        if expr.name == "select":
            return ir.Select(*parts)
        if expr.name in _CALLS:
            return ir.Call(expr.name, tuple(parts))
        return ir.Binary(expr.name, *parts)


def windows(
    addresses: list[Linear], trips: Mapping[Atom, int]
) -> tuple[list[Window], dict[Linear, int]]:
    """The windows of memory that these addresses read, and the window of each.

    Raises
    ------
    Refused
        When elements are not apart by multiples of their size.
    """
    bases: dict[Linear, list[tuple[int, int, Linear]]] = {}
    for address in addresses:
        low, high = reach(address, trips)
        bases.setdefault(address.of_kind("entry"), []).append((low, high, address))
    found: list[Window] = []
    places: dict[Linear, int] = {}
    for base, spans in bases.items():
        start = end = None
        for low, high, address in sorted(spans, key=lambda s: s[:2]):
            if end is None or start is None or low > end:
                start, end = low, high
                found.append(Window(base.plus(Linear((), start)), 0))
            end = max(end, high)
            found[-1] = Window(found[-1].base, end - start)
            places[address] = len(found) - 1
            if end - start > MOST_BYTES:
                raise Refused("size")
            steps = [c for _, c in address.of_kind("iter").terms]
            if any(step % ELEMENT for step in (low - start, *steps)):
                raise Refused("index")
    return found, places


def ordered(output: Output) -> Loops:
    """The loops of an output, those with the largest steps outermost."""
    return tuple(sorted(output.loops, key=lambda pair: -abs(output.address.of_atom(pair[0]))))


def _groups(value: Expr) -> list[tuple[Loops, list[Reduce]]]:
    """The reductions of a value, those that are terms of one sum over the same loops together."""
    sums = [e for e in walk(value) if isinstance(e, Sum)]
    together: dict[Loops, list[Reduce]] = {}
    groups: list[tuple[Loops, list[Reduce]]] = []
    for found in dict.fromkeys(e for e in walk(value) if isinstance(e, Reduce)):
        if len(sums) == 1 and sums[0].terms.count(found) == 1 and found.loops in together:
            together[found.loops].append(found)
            continue
        members = [found]
        groups.append((found.loops, members))
        if len(sums) == 1 and sums[0].terms.count(found) == 1:
            together[found.loops] = members
    return groups


def _operations(expr: Expr) -> int:
    if isinstance(expr, Reduce):
        return 0
    own = {Op: 1, Sum: 1}.get(type(expr), 0)
    parts = expr.args if isinstance(expr, Op) else expr.terms if isinstance(expr, Sum) else ()
    return own + sum(_operations(p) for p in parts)


def _scaled(name: str, step: int) -> ir.Expr:
    return ir.Var(name) if step == 1 else ir.Var(name) * step


def _plus(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return b if a == ir.Const(0, "i32") else a + b
