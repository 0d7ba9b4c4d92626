"""The scheduled program: loops with an order, vector lanes and accumulators in locals.

It records what a schedule decides; addresses and instructions follow from that in the lowering.
Expressions are those of the tensor IR and a few that only exist after scheduling. Loops that a
schedule unrolls are unrolled when it writes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nnjit_studio.compiler.ir.affine import Affine
from nnjit_studio.compiler.ir.tensor_ir import Expr, Store

BEGIN, END = "$begin", "$end"
"""Variables: the range of the outermost loop that a call of the kernel covers."""


@dataclass(slots=True, eq=False)
class Element:
    """Four f32 from ``index`` on (``lanes`` 4), fewer with zeros behind them, or 0: a splat."""

    buffer: str
    index: Affine
    lanes: int


@dataclass(slots=True, eq=False)
class MultiplyAdd:
    """``a * b + c`` on f32x4 locals."""

    a: str
    b: str
    c: str


@dataclass(slots=True, eq=False)
class Add:
    """``a + b`` on f32x4 locals."""

    a: str
    b: str


@dataclass(slots=True, eq=False)
class Widened:
    """Eight bytes from ``index`` on as i16 lanes, or with ``splat`` four of them, twice."""

    buffer: str
    index: Affine
    splat: bool


@dataclass(slots=True, eq=False)
class Dot:
    """``c`` (i32x4) plus the sums of neighbouring products of ``a`` and ``b`` (i16x8)."""

    a: str
    b: str
    c: str


@dataclass(slots=True, eq=False)
class ByteDot:
    """``c`` (i32x4) plus the sums of four neighbouring products of ``a`` and ``b`` (i8x16).

    Values of ``b`` beyond 127 are what the engine makes of them. An instruction of the relaxed
    tier alone.
    """

    a: str
    b: str
    c: str


@dataclass(slots=True, eq=False)
class Apply:
    """A lane-wise instruction on locals, by the name that it has in Wasm."""

    op: str
    args: tuple[str, ...]


@dataclass(slots=True, eq=False)
class PairSums:
    """Sums of the neighbouring lanes of ``low``, then of ``high``."""

    low: str
    high: str


@dataclass(slots=True, eq=False)
class EveryOther:
    """Lanes 0 and 2 of ``low``, then of ``high``; with ``odd`` lanes 1 and 3. f32x4 locals."""

    low: str
    high: str
    odd: bool


VectorValue = Element | MultiplyAdd | Add | Widened | Dot | ByteDot | Apply | PairSums | EveryOther


@dataclass(slots=True, eq=False)
class AssignVector:
    """Set a local of four lanes; None is zero."""

    local: str
    value: VectorValue | None
    dtype: str = "f32"


@dataclass(slots=True, eq=False)
class StoreVector:
    """The first ``lanes`` of a f32x4 local to ``index``, or only lane ``lane``."""

    local: str
    buffer: str
    index: Affine
    lanes: int
    lane: int = -1


@dataclass(slots=True, eq=False)
class Assign:
    """Set accumulators, all values computed before the first is set.

    Expressions read an accumulator as a variable of its name. With ``along``
    it holds four lanes along that variable.
    """

    locals: tuple[tuple[str, str], ...]  # name and dtype
    values: tuple[Expr, ...]
    along: str = ""


@dataclass(slots=True, eq=False)
class Reduce:
    """``local = op(local, all lanes of vector)``, both of one dtype: f32, or i32 in a sum."""

    local: str
    op: str
    vector: str


@dataclass(slots=True, eq=False)
class Put:
    """Stores of the tensor IR, of four lanes along ``along`` if that is given.

    All values are computed before the first of them is stored.
    """

    stores: tuple[Store, ...]
    along: str = ""


@dataclass(slots=True, eq=False)
class Let:
    """A name for an index within ``body``."""

    var: str
    value: Expr
    body: list[Statement]


@dataclass(slots=True, eq=False)
class For:
    """``for var in range(begin, end, step)``; the bounds are i32 expressions."""

    var: str
    begin: Expr
    end: Expr
    step: int
    body: list[Statement]


@dataclass(slots=True, eq=False)
class When:
    condition: Expr
    then: list[Statement]
    otherwise: list[Statement]


Statement = AssignVector | StoreVector | Assign | Reduce | Put | Let | For | When


@dataclass(frozen=True)
class Scheduled:
    """A kernel's loops; ``panels`` are (argument index, width)."""

    body: list[Statement]
    parallel_extent: int
    panels: tuple[tuple[int, int], ...] = ()


def has_turns(begin: int, end: int) -> bool:
    """Whether a loop between two bounds runs; where they are numbers at several sizes, at any."""
    return any(n > 0 for n in getattr(end - begin, "values", (end - begin,)))


def stored_buffers(body: Iterable[Statement]) -> set[str]:
    """Names of all buffers that the statements write."""
    names: set[str] = set()
    for statement in body:
        if isinstance(statement, Put):
            names.update(store.buffer for store in statement.stores)
        elif isinstance(statement, StoreVector):
            names.add(statement.buffer)
        elif isinstance(statement, (For, Let)):
            names |= stored_buffers(statement.body)
        elif isinstance(statement, When):
            names |= stored_buffers((*statement.then, *statement.otherwise))
    return names
