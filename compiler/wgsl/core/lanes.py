"""The values of an epilogue on neighbouring columns, as lines of WGSL.

Each subexpression becomes a ``let`` of ``width`` lanes, written once however
often it is used. Additions and products are vector operations; functions are
called lane by lane. What has no such form is refused, and is then computed one
column at a time by :mod:`nnjit_studio.compiler.wgsl.core.values`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from nnjit_studio.compiler.ir.affine import affine, depends, loads, stride
from nnjit_studio.compiler.ir.tensor_ir import Binary, Call, Const, Expr, Load, Program, Select, Var
from nnjit_studio.compiler.recognize.contraction import ACCUMULATOR
from nnjit_studio.compiler.wgsl.core.syntax import plus, times, vector
from nnjit_studio.compiler.wgsl.core.values import literal
from nnjit_studio.errors import CompileError

_VECTOR_OPS = {
    "add": "+", "sub": "-", "mul": "*", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "and": "&", "or": "|",
}  # fmt: skip
_BY_LANE = {"div": "div_f32", "min": "min_f32", "max": "max_f32", "pow": "pow_f32"}
_VECTOR_CALLS = {"neg": "-", "not": "!", "abs": "abs", "floor": "floor", "ceil": "ceil"}
_LANE_CALLS = ("exp", "tanh", "erf", "sqrt", "rsqrt", "log", "sigmoid", "sin", "cos")


class NoLanesError(CompileError):
    """An epilogue that has to be computed one column at a time."""


@dataclass
class Lanes:
    """Collects the lines that compute values at ``width`` columns from ``column`` on."""

    program: Program
    names: Mapping[str, str]
    """Variables of the buffers."""
    wide: frozenset[str]
    """Buffers that are bound as vectors of ``width``, all others as single f32."""
    width: int
    column: str
    quick: frozenset[Expr] = frozenset()
    """Sigmoids that may be those of the device's exp, of x off by up to 3 + 2 |x| ulp, and lose
    that x is no number: for what is only summed, where a dispatch of its own has 50 instructions
    for each element."""
    lines: list[str] = field(default_factory=list)
    _known: dict[Expr, str] = field(default_factory=dict)

    def places(self, index: Expr) -> list[str]:
        """Where each lane's element lies."""
        step = stride(index, self.column)
        if step is None:
            raise _refuse("has columns that stand at no fixed distance")
        return [plus(_index(index), str(lane * step)) for lane in range(self.width)]

    def vector_place(self, index: Expr) -> str:
        """The place of ``width`` aligned elements, in vectors."""
        form = affine(index)
        parts = []
        for atom, factor in form.terms:
            text = _index(Var(atom) if isinstance(atom, str) else atom)
            own = atom == self.column
            parts.append(f"{text} / {self.width}u" if own else times(text, factor // self.width))
        return plus(*parts, str(form.constant // self.width))

    def value(self, expr: Expr) -> str:
        """A name or literal for the value on all lanes."""
        if expr == Var(ACCUMULATOR):
            return "sum"
        if isinstance(expr, Const):
            return f"{vector(self.width)}({_number(expr)})"
        if expr not in self._known:
            text = self._made(expr)
            name = f"v{len(self._known)}"
            self.lines.append(f"let {name} = {text};")
            self._known[expr] = name
        return self._known[expr]

    def _made(self, expr: Expr) -> str:
        if isinstance(expr, Load):
            return self._load(expr)
        if isinstance(expr, Binary) and expr.op in _VECTOR_OPS:
            return f"{self.value(expr.a)} {_VECTOR_OPS[expr.op]} {self.value(expr.b)}"
        if isinstance(expr, Binary) and expr.op in _BY_LANE:
            return self._by_lane(_BY_LANE[expr.op], expr.a, expr.b)
        if isinstance(expr, Call) and expr.fn in _VECTOR_CALLS:
            call, value = _VECTOR_CALLS[expr.fn], self.value(expr.args[0])
            return f"{call}({value})" if call.isalpha() else f"{call}{value}"
        if isinstance(expr, Call) and expr in self.quick:
            one, most = f"{vector(self.width)}(1.0)", f"{vector(self.width)}(80.0)"
            return f"{one} / ({one} + exp(min(-{self.value(expr.args[0])}, {most})))"
        if isinstance(expr, Call) and expr.fn in _LANE_CALLS:
            return self._by_lane(f"{expr.fn}_f32", *expr.args)
        if isinstance(expr, Select):
            parts = (self.value(e) for e in (expr.otherwise, expr.then, expr.condition))
            return f"select({', '.join(parts)})"
        raise _refuse("has an operation that is not made for vectors")

    def _load(self, expr: Load) -> str:
        if self.program.buffer(expr.buffer).dtype != "f32" or loads(expr.index):
            raise _refuse(f"reads {expr.buffer}, which is no float32 at a plain index")
        name = self.names[expr.buffer]
        if expr.buffer in self.wide:
            return f"{name}[{self.vector_place(expr.index)}]"
        if not depends(expr.index, self.column):
            return f"{vector(self.width)}({name}[{_index(expr.index)}])"
        return self._joined(f"{name}[{place}]" for place in self.places(expr.index))

    def _by_lane(self, function: str, *arguments: Expr) -> str:
        def lane(argument: Expr) -> Callable[[str], str]:
            if isinstance(argument, Const):
                number = _number(argument)
                return lambda _: number
            value = self.value(argument)
            return lambda e: f"{value}.{e}"

        parts = [lane(argument) for argument in arguments]
        return self._joined(
            f"{function}({', '.join(part(e) for part in parts)})" for e in "xyzw"[: self.width]
        )

    def _joined(self, parts: Iterable[str]) -> str:
        return f"{vector(self.width)}({', '.join(parts)})"


def _refuse(what: str) -> NoLanesError:
    return NoLanesError(f"The epilogue {what}.", "It is computed one column at a time.")


def _number(constant: Const) -> str:
    if constant.dtype != "f32":
        raise _refuse(f"has a constant of {constant.dtype}")
    return literal(constant.value, constant.dtype)


def _index(expr: Expr) -> str:
    """An index as u32: sums of products of the axes."""
    form = affine(expr)
    if form.constant < 0 or any(not isinstance(v, str) or f < 0 for v, f in form.terms):
        raise _refuse("has an index that is not a sum of its axes")
    return plus(*(times(str(atom), factor) for atom, factor in form.terms), str(form.constant))
