"""Tensor IR: the programs that the importer hands to the schedules, free of TVM.

A :class:`Program` is the body of one fused operator: a list of stages, each a
perfect nest of loops around a few statements, which are stores or, for
scatters, scans and sorts, serial loops and conditions around stores. Buffers are flat; every index
is one expression in elements. The importer makes it from TVM's PrimFuncs
after inlining, so a schedule never waits for TVM.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from nnjit_studio.errors import CompileError

BINARY_OPS = (
    "add", "sub", "mul", "div", "floordiv", "floormod", "truncdiv", "truncmod",
    "min", "max", "pow", "lt", "le", "gt", "ge", "eq", "ne", "and", "or",
    "bitand", "bitor", "bitxor", "shl", "shr",
)  # fmt: skip
CALLS = (
    "exp", "tanh", "erf", "sqrt", "rsqrt", "log", "sigmoid", "abs", "neg", "floor", "ceil",
    "round", "trunc", "not", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "asinh", "acosh", "atanh", "bitnot", "bits", "from_bits",
)  # fmt: skip
GIVES = {"not": "bool", "bits": "i32", "from_bits": "f32"}
"""Calls whose result has another dtype than their argument, with it; ``bits`` are an f32's."""
POLYNOMIALS = ("exp", "exp_below", "tanh", "erf", "log", "sigmoid", "sin", "cos")
"""Calls that kernels evaluate as polynomials, tens of operations each; ``exp_below``, the ``exp``
of what is not positive, is one that schedules make."""
BYTE_DOT_FLIP = "byte_dot_flip"
"""A call that schedules of the relaxed tier make, of any i32: what to flip in four signed bytes, so
that the engine's dot product of signed bytes with them is exact: nothing where it takes them as
signed, the highest bits where it takes them as unsigned; :data:`NO_FLIP` where it is not exact."""
NO_FLIP = 1
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne", "and", "or")


class _Arithmetic:
    """Expressions are put together with Python's operators; a plain int is an i32 constant, a
    plain float an f32 one."""

    def __add__(self, other: Expr | float) -> Binary:
        return _binary("add", self, other)

    def __sub__(self, other: Expr | float) -> Binary:
        return _binary("sub", self, other)

    def __mul__(self, other: Expr | float) -> Binary:
        return _binary("mul", self, other)

    def __truediv__(self, other: Expr | float) -> Binary:
        return _binary("div", self, other)

    def __floordiv__(self, other: Expr | int) -> Binary:
        return _binary("floordiv", self, other)

    def __mod__(self, other: Expr | int) -> Binary:
        return _binary("floormod", self, other)


def _binary(op: str, a: Any, b: Any) -> Binary:
    if not isinstance(b, _Arithmetic):
        b = Const(b, "f32" if isinstance(b, float) else "i32")
    return Binary(op, a, b)


@dataclass(frozen=True)
class Const(_Arithmetic):
    """A scalar constant; ``bool`` constants are 0 or 1."""

    value: float | int
    dtype: str


@dataclass(frozen=True)
class Var(_Arithmetic):
    """A loop variable: i32, 0 <= value < the extent of its axis."""

    name: str


@dataclass(frozen=True)
class Load(_Arithmetic):
    """Element ``index`` of a flat buffer."""

    buffer: str
    index: Expr


@dataclass(frozen=True)
class Binary(_Arithmetic):
    """``op`` is one of ``BINARY_OPS``; both operands have one dtype, comparisons give bool.

    Integers wrap; a division or remainder by zero gives 0; ``shr`` repeats the
    sign of signed dtypes, and shifts by the dtype's width or more give 0
    (``shr`` of a negative number -1).
    """

    op: str
    a: Expr
    b: Expr


@dataclass(frozen=True)
class Call(_Arithmetic):
    """``fn`` is one of ``CALLS``, elementwise, the dtype of its argument or what ``GIVES`` says."""

    fn: str
    args: tuple[Expr, ...]


@dataclass(frozen=True)
class Select(_Arithmetic):
    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True)
class Cast(_Arithmetic):
    """From floats to integers truncating and saturating, to bool by ``!= 0``.

    To f16 rounding to the nearest even; the value is computed on as f32.
    """

    value: Expr
    dtype: str


def whole(value: float | bytes) -> int:
    """The value of an integer constant, which may stand for those of several sizes."""
    return int(value) if isinstance(value, float | bool | bytes) else value


Expr = Const | Var | Load | Binary | Call | Select | Cast


@dataclass(frozen=True)
class Store:
    buffer: str
    index: Expr
    value: Expr


@dataclass(frozen=True)
class Loop:
    """A serial loop, ``0 <= var < extent``, inside a stage."""

    var: str
    extent: int
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class If:
    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


Statement = Store | Loop | If


@dataclass(frozen=True)
class Axis:
    """A loop: ``kind`` is ``spatial`` (any order) or ``reduce``."""

    var: str
    extent: int
    kind: str = "spatial"


@dataclass(frozen=True)
class Stage:
    """A perfect loop nest: spatial axes, then reduce axes, around ``body``.

    ``init`` runs before the first reduce iteration of each spatial point; it
    is empty without reduce axes. A reduction's store has the form
    ``buf[i] = op(buf[i], f)`` with op add, mul, min or max; several stores
    that read each other (arg-reductions) run in the order given, with every
    value computed before the first store.

    ``steps`` replaces ``body`` where stores are not enough: statements that run
    in the order given, all axes spatial, each point on elements of its own.
    """

    name: str
    axes: tuple[Axis, ...]
    body: tuple[Store, ...] = ()
    init: tuple[Store, ...] = ()
    steps: tuple[Statement, ...] = ()

    @property
    def extents(self) -> dict[str, int]:
        """Of its axes, by variable."""
        return {axis.var: axis.extent for axis in self.axes}


VIRTUAL = "virtual"


@dataclass(frozen=True)
class Buffer:
    """A kernel parameter: ``role`` is ``input``, ``output``, ``workspace`` or ``virtual``.

    A virtual one stands in the description alone: the template of its program never has it in
    memory as a whole, and the parameter points at nothing.

    ``shape`` is the logical shape (row-major); indices in the IR are flat.
    ``constant`` marks an input whose bytes are known weights; those in f16 are finite.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: str
    constant: bool = False


@dataclass(frozen=True)
class Program:
    """One fused operator. ``buffers`` are in parameter order: inputs, outputs, workspaces."""

    name: str
    buffers: tuple[Buffer, ...]
    stages: tuple[Stage, ...]

    def buffer(self, name: str) -> Buffer:
        return next(b for b in self.buffers if b.name == name)

    def check_stored(self) -> None:
        """Refuse a program with virtual buffers, which only its template can do without.

        Raises
        ------
        CompileError
        """
        if any(b.role == VIRTUAL for b in self.buffers):
            raise CompileError(
                f"The default schedule would need the scores of {self.name} in memory.",
                "Choose a candidate that fits its template.",
            )


def stores_in(statements: Iterable[Statement]) -> Iterator[Store]:
    """All stores of the statements, in order."""
    for statement in statements:
        if isinstance(statement, Store):
            yield statement
        elif isinstance(statement, Loop):
            yield from stores_in(statement.body)
        else:
            yield from stores_in((*statement.then, *statement.otherwise))


def stage_expressions(stage: Stage) -> Iterator[Expr]:
    """Every index, value and condition of a stage, whole."""
    for store in (*stage.init, *stage.body, *stores_in(stage.steps)):
        yield store.index
        yield store.value
    yield from _conditions(stage.steps)


def _conditions(statements: Iterable[Statement]) -> Iterator[Expr]:
    for statement in statements:
        if isinstance(statement, Loop):
            yield from _conditions(statement.body)
        elif isinstance(statement, If):
            yield statement.condition
            yield from _conditions((*statement.then, *statement.otherwise))
