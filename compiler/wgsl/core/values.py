"""Tensor IR expressions as WGSL values, with names for what is used again."""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeGuard

import numpy as np

from nnjit_studio.compiler.ir.affine import Bounds, bounds, loads, variables, walk
from nnjit_studio.compiler.ir.dtypes import computed, dtype_of
from nnjit_studio.compiler.ir.tensor_ir import (
    COMPARISONS,
    Binary,
    Call,
    Const,
    Expr,
    Load,
    Select,
    Var,
)
from nnjit_studio.compiler.wgsl.core.memory import VALUE_TYPES, Memory, Rounded
from nnjit_studio.errors import CompileError

_I32 = 2**31
_F32_MAX = float(np.finfo(np.float32).max)
_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
    "ne": "!=", "bitand": "&", "bitor": "|", "bitxor": "^",
}  # fmt: skip
_DIVISIONS = {
    "floordiv": "floor_div", "floormod": "floor_mod",
    "truncdiv": "trunc_div", "truncmod": "trunc_mod",
}  # fmt: skip
_BITS = {"i8": 8, "u8": 8}
_BUILTIN = ("abs", "floor", "ceil", "round", "trunc")
_CHEAP = ("neg", "not", "abs", "bitnot", "bits", "from_bits")
_BITS_OF = {"bits": "i32", "from_bits": "f32"}
MOST_TURNS = 16
"""Of a loop whose length is made a constant."""


@dataclass
class Context:
    """The names of a shader, and the facts known about them."""

    memory: dict[str, Memory]
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Smallest and largest value of each loop variable."""
    locals: dict[str, str] = field(default_factory=dict)
    """Dtype of each accumulator; expressions read it as a variable."""
    loaded: set[str] = field(default_factory=set)
    """Buffers that were read."""
    grouped: set[str] = field(default_factory=set)
    """Buffers that were read or written four elements at once."""
    scattered: set[str] = field(default_factory=set)
    """Buffers that were written one element at a time."""
    count: int = 0

    def fresh(self, stem: str = "t") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def __post_init__(self) -> None:
        self._dtypes = {name: memory.dtype for name, memory in self.memory.items()}

    def dtype(self, expr: Expr) -> str:
        return dtype_of(expr, self._dtypes, self.locals)

    def natural(self, expr: Expr) -> bool:
        """Whether an integer expression is known to be at least 0."""
        return bounds(expr, self.ranges)[0] >= 0

    @contextmanager
    def variables(self, ranges: Bounds) -> Iterator[None]:
        """Loop variables that are known for a while."""
        before = dict(self.ranges)
        self.ranges.update(ranges)
        yield
        self.ranges = before


def identifier(var: str) -> str:
    """A loop variable's name in WGSL."""
    return "v_" + re.sub(r"\W", "_", var)


class Block:
    """Lines of one scope, and the names of the values that it holds."""

    def __init__(self, context: Context, parent: Block | None = None) -> None:
        self.context = context
        self.lines: list[str] = []
        self.known: ChainMap[Expr, str] = parent.known.new_child() if parent else ChainMap()
        self.uses: Counter[Expr] = parent.uses if parent else Counter()

    def expect(self, exprs: Iterable[Expr]) -> None:
        """Count the common subexpressions of the next values; those get a name."""
        self.uses = Counter(e for expr in exprs for e in walk(expr))

    def let(self, text: str) -> str:
        """A name for a value."""
        name = self.context.fresh()
        self.lines.append(f"let {name} = {text};")
        return name

    def forget(self, buffers: Iterable[str]) -> None:
        """Values read from these buffers are not true any more."""
        changed = set(buffers)
        for scope in self.known.maps:
            for expr in [e for e in scope if any(x.buffer in changed for x in loads(e))]:
                del scope[expr]

    def forget_points(self, names: Iterable[str]) -> None:
        """Values at a point of these loop variables, which now stand for others."""
        changed = set(names)
        for scope in self.known.maps:
            for expr in [e for e in scope if variables(e) & changed]:
                del scope[expr]

    def inner(self, head: str, block: Block) -> None:
        """A scope of this one."""
        self.lines += [head, *(f"  {line}" for line in block.lines), "}"]

    def dealt(self, start: str, count: int, team: int, block: Block) -> None:
        """A scope for each ``q`` below ``count`` of a team's member, from ``start`` on.

        Where all members have as many, the loop's length is a constant: it can be unrolled, and
        what the turns load is under way together.
        """
        turns = count // team
        if start == "member" and count == team:
            block.lines.insert(0, "let q = member;")
            self.inner("{", block)
        elif start == "member" and count == turns * team and turns <= MOST_TURNS:
            block.lines.insert(0, f"let q = member + turn * {team};")
            self.inner(f"for (var turn = 0; turn < {turns}; turn++) {{", block)
        else:
            self.inner(f"for (var q = {start}; q < {count}; q += {team}) {{", block)

    def typed(self, expr: Expr, dtype: str) -> str:
        """The value converted to a dtype."""
        return convert(self.value(expr), self.context.dtype(expr), computed(dtype))

    def index(self, expr: Expr) -> str:
        """An index as i32."""
        return self.typed(expr, "i32")

    def value(self, expr: Expr) -> str:
        """The value in the WGSL type of its dtype."""
        found = self.known.get(expr)
        if found is not None:
            return found
        text = self._text(expr)
        if isinstance(expr, (Const, Var)) or not self._worth_a_name(expr):
            return text
        name = self.let(text)
        if not variables(expr) & self.context.locals.keys():
            self.known[expr] = name
        return name

    def _worth_a_name(self, expr: Expr) -> bool:
        if isinstance(expr, Load):
            return True
        return self.uses[expr] > 1 and self.context.dtype(expr) in ("f32", "bool")

    def _text(self, expr: Expr) -> str:
        if isinstance(expr, Const):
            return literal(expr.value, expr.dtype)
        if isinstance(expr, Var):
            return expr.name if expr.name in self.context.locals else identifier(expr.name)
        if isinstance(expr, Load):
            self.context.loaded.add(expr.buffer)
            memory = self.context.memory[expr.buffer]
            index = self.index(expr.index)
            if (memory.packed > 1 or memory.vectors) and not re.fullmatch(r"\w+", index):
                index = self.let(index)
            return memory.load(index)
        if isinstance(expr, Binary):
            return self._binary(expr)
        if isinstance(expr, Call):
            return self._call(expr)
        if isinstance(expr, Select):
            return self._select(expr)
        source = self.context.dtype(expr.value)
        value = convert(self.value(expr.value), source, computed(expr.dtype))
        return Rounded(value) if expr.dtype == "f16" else value

    def _select(self, expr: Select) -> str:
        dtype = self.context.dtype(expr)
        condition = self.typed(expr.condition, "bool")
        if not any(is_costly(e) for side in (expr.then, expr.otherwise) for e in walk(side)):
            then, otherwise = self.typed(expr.then, dtype), self.typed(expr.otherwise, dtype)
            return f"select({otherwise}, {then}, {condition})"
        name = self.context.fresh()
        self.lines.append(f"var {name}: {VALUE_TYPES[dtype]};")
        for head, side in ((f"if ({condition}) {{", expr.then), ("else {", expr.otherwise)):
            block = Block(self.context, self)
            block.lines.append(f"{name} = {block.typed(side, dtype)};")
            self.inner(head, block)
        return name

    def _call(self, expr: Call) -> str:
        argument = expr.args[0]
        dtype = self.context.dtype(argument)
        x = self.value(argument)
        if expr.fn == "not":
            return f"(!{convert(x, dtype, 'bool')})"
        if expr.fn in _BITS_OF:
            x = self.let(x) if isinstance(argument, Const) else x
            return f"bitcast<{_BITS_OF[expr.fn]}>({x})"
        if expr.fn == "neg":
            return narrow(f"(-({x}))", dtype)
        if dtype == "f32":
            if isinstance(argument, Const):
                x = self.let(x)
            return f"{expr.fn}({x})" if expr.fn in _BUILTIN else f"{expr.fn}_f32({x})"
        if expr.fn == "bitnot":
            return narrow(f"(~({x}))", dtype)
        if expr.fn == "abs":
            return narrow(f"abs({x})", dtype)
        if expr.fn in _BUILTIN:
            return x
        raise CompileError(f"{expr.fn} of {dtype} has no kernel.", "Cast its input to float32.")

    def _binary(self, expr: Binary) -> str:
        op = expr.op
        if op in ("and", "or"):
            a, b = self.typed(expr.a, "bool"), self.typed(expr.b, "bool")
            return f"({a} {'&&' if op == 'and' else '||'} {b})"
        dtype = self.context.dtype(expr.a + expr.b)
        if op in ("eq", "ne") and dtype == "f32" and expr.a == expr.b:
            return f"{'' if op == 'ne' else '!'}is_nan({self.typed(expr.a, dtype)})"
        if op == "add" and dtype == "f32":
            for product, rest in ((expr.a, expr.b), (expr.b, expr.a)):
                if self._is_product(product):
                    parts = (product.a, product.b, rest)
                    return f"fma({', '.join(self.typed(e, dtype) for e in parts)})"
        a, b = self.typed(expr.a, dtype), self.typed(expr.b, dtype)
        if isinstance(expr.a, Const) and isinstance(expr.b, Const):
            a = self.let(a)  # what WGSL computes itself it may refuse: an overflow, for one
        if op == "sub" and dtype == "f32" and expr.a == expr.b:
            return f"select(nan(), 0.0f, is_finite({a}))"  # some make it 0, infinite or not
        if dtype == "f32":
            return self._floats(op, a, b, expr.b)
        if op in COMPARISONS:
            for const, turned in ((expr.b, False), (expr.a, True)):
                if isinstance(const, Const) and dtype == "i64" and not _fits(const):
                    # What kernels keep in i32 is on a known side of it.
                    less = (const.value > 0) != turned
                    true = ("ne", "lt", "le") if less else ("ne", "gt", "ge")
                    return literal(op in true, "bool")
            if dtype == "bool" and op not in ("eq", "ne"):
                a, b = convert(a, dtype, "i32"), convert(b, dtype, "i32")
            return f"({a} {_SYMBOLS[op]} {b})"
        if dtype == "bool":
            return self._flags(op, a, b)
        return self._integers(expr, a, b, dtype)

    def _is_product(self, expr: Expr) -> TypeGuard[Binary]:
        """A product of which nothing else is needed."""
        is_product = isinstance(expr, Binary) and expr.op == "mul"
        return is_product and self.uses[expr] < 2 and self.context.dtype(expr) == "f32"

    def _floats(self, op: str, a: str, b: str, second: Expr) -> str:
        if op == "pow":
            if isinstance(second, Const) and second.value in _POWERS:
                return _POWERS[second.value].replace("x", self.let(a))
            return f"pow_f32({a}, {b})"
        if op == "div":
            return f"div_f32({a}, {b})"
        if op in ("min", "max"):
            return f"{op}_f32({a}, {b})"
        if op in _DIVISIONS:
            step = op[:5]
            if op.endswith("div"):
                return f"{step}(div_f32({a}, {b}))"
            return f"mod_{step}_f32({a}, {b})"
        if op == "ne":
            return f"differ({a}, {b})"
        return f"({a} {_SYMBOLS[op]} {b})"

    @staticmethod
    def _flags(op: str, a: str, b: str) -> str:
        symbols = {"add": "||", "max": "||", "mul": "&&", "min": "&&", "sub": "!="}
        symbol = symbols.get(op) or {"bitand": "&&", "bitor": "||", "bitxor": "!="}.get(op)
        if symbol is None:
            raise CompileError(f"{op} of bool has no kernel.", "Cast its inputs to int32.")
        return f"({a} {symbol} {b})"

    def _integers(self, expr: Binary, a: str, b: str, dtype: str) -> str:
        op = expr.op
        if op in _DIVISIONS:
            divisor = int(expr.b.value) if isinstance(expr.b, Const) else 0
            quotient = op.endswith("div")
            natural = self.context.natural(expr.a)
            if divisor > 0 and divisor & (divisor - 1) == 0 and (natural or op.startswith("floor")):
                if divisor == 1:
                    return a if quotient else "0"
                if divisor >= _I32:
                    return f"({a} >> 31u)" if quotient else a
                shift = divisor.bit_length() - 1
                return f"({a} >> {shift}u)" if quotient else f"({a} & {divisor - 1})"
            if divisor > 0 and natural:
                return f"({a} {'/' if quotient else '%'} {b})"
            return narrow(f"{_DIVISIONS[op]}({a}, {b})", dtype)
        if op in ("min", "max"):
            return f"{op}({a}, {b})"
        if op in ("shl", "shr"):
            word = f"shift_{'left' if op == 'shl' else 'right'}({a}, {b}, {_BITS.get(dtype, 32)}u)"
            return narrow(word, dtype)
        if op in ("div", "pow"):
            raise CompileError(f"{op} of {dtype} has no kernel.", "Cast its inputs to float32.")
        if dtype == "i64":
            # The low words of sums and products follow from low words.
            a, b = (
                _low_word(e) if isinstance(e, Const) and not _fits(e) else text
                for e, text in ((expr.a, a), (expr.b, b))
            )
        if op == "mul" and "1" in (a, b):
            return b if a == "1" else a
        if op == "add" and "0" in (a, b):
            return b if a == "0" else a
        return narrow(f"({a} {_SYMBOLS[op]} {b})", dtype)


_POWERS = {
    0.5: "sqrt_f32(x)",
    1.0: "x",
    2.0: "(x * x)",
    3.0: "((x * x) * x)",
    4.0: "((x * x) * (x * x))",
}


def is_costly(expr: Expr) -> bool:
    """Worth a branch to avoid it, or a name outside a loop."""
    if isinstance(expr, Binary):
        return expr.op == "pow"
    return isinstance(expr, Call) and expr.fn not in (*_CHEAP, *_BUILTIN)


def _fits(const: Const) -> bool:
    return -_I32 <= const.value < _I32


def _low_word(const: Const) -> str:
    low = int(const.value) % 2**32
    return literal(low - 2**32 if low >= _I32 else low, "i32")


def literal(value: float | int, dtype: str) -> str:
    """A constant; floats that are not finite have no literal in WGSL."""
    if dtype == "bool":
        return "true" if value else "false"
    if computed(dtype) != "f32":
        number = max(-_I32, min(int(value), _I32 - 1))
        if number == -_I32:
            return f"(-{_I32 - 1} - 1)"
        return str(number) if number >= 0 else f"({number})"
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if np.isnan(single):
        return "nan()"
    if np.isinf(single):
        return "inf()" if single > 0 else "(-inf())"
    if abs(single) < np.finfo(np.float32).tiny:
        return "0.0f" if not np.signbit(single) else "(-0.0f)"
    # the shortest digits of the largest number are more than it is, which Chromium refuses
    text = f"{single!s}f" if abs(float(str(single))) <= _F32_MAX else f"{float(single)!r}f"
    return f"({text})" if np.signbit(single) else text


def narrow(text: str, dtype: str) -> str:
    """Wraps the result of 8-bit arithmetic, which runs in i32."""
    if dtype == "u8":
        return f"({text} & 255)"
    return f"(({text} << 24u) >> 24u)" if dtype == "i8" else text


def convert(text: str, source: str, target: str) -> str:
    """A cast: float to integer truncates and saturates, wide to narrow integer wraps."""
    if source == target or {source, target} == {"i32", "i64"}:
        return text
    if target == "f32":
        return f"select(0.0f, 1.0f, {text})" if source == "bool" else f"f32({text})"
    if target == "bool":
        return f"(magnitude({text}) != 0u)" if source == "f32" else f"({text} != 0)"
    if source == "bool":
        return f"select(0, 1, {text})"
    if source == "f32":
        limits = {"u8": "0, 255", "i8": "-128, 127"}.get(target)
        return f"to_i32({text})" if limits is None else f"clamp(to_i32({text}), {limits})"
    return narrow(text, target)
