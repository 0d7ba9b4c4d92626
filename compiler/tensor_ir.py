"""Tensor IR: what the importer hands to the schedules, free of TVM.

A :class:`Program` is the body of one fused operator: a list of stages, each a
perfect nest of loops around a few statements. Buffers are flat; every index
is one expression in elements. The importer makes it from TVM's PrimFuncs
after inlining, so a schedule never waits for TVM.
"""

from __future__ import annotations

from dataclasses import dataclass

BINARY_OPS = (
    "add", "sub", "mul", "div", "floordiv", "floormod", "truncdiv", "truncmod",
    "min", "max", "pow", "lt", "le", "gt", "ge", "eq", "ne", "and", "or",
)  # fmt: skip
CALLS = (
    "exp", "tanh", "erf", "sqrt", "rsqrt", "log", "sigmoid", "abs", "neg", "floor", "ceil",
    "round", "trunc", "not", "sin", "cos",
)  # fmt: skip
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne", "and", "or")


@dataclass(frozen=True)
class Const:
    """A scalar constant; ``bool`` constants are 0 or 1."""

    value: float | int
    dtype: str


@dataclass(frozen=True)
class Var:
    """A loop variable: i32, 0 <= value < the extent of its axis."""

    name: str


@dataclass(frozen=True)
class Load:
    """Element ``index`` of a flat buffer."""

    buffer: str
    index: Expr


@dataclass(frozen=True)
class Binary:
    """``op`` is one of ``BINARY_OPS``; both operands have one dtype, comparisons give bool."""

    op: str
    a: Expr
    b: Expr


@dataclass(frozen=True)
class Call:
    """``fn`` is one of ``CALLS``, elementwise, the dtype of its argument."""

    fn: str
    args: tuple[Expr, ...]


@dataclass(frozen=True)
class Select:
    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True)
class Cast:
    """To integers truncating and saturating, to bool by ``!= 0``."""

    value: Expr
    dtype: str


Expr = Const | Var | Load | Binary | Call | Select | Cast


@dataclass(frozen=True)
class Store:
    buffer: str
    index: Expr
    value: Expr


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
    """

    name: str
    axes: tuple[Axis, ...]
    body: tuple[Store, ...]
    init: tuple[Store, ...] = ()


@dataclass(frozen=True)
class Buffer:
    """A kernel parameter: ``role`` is ``input``, ``output`` or ``workspace``.

    ``shape`` is the logical shape (row-major); indices in the IR are flat.
    ``constant`` marks an input whose bytes are known weights.
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
