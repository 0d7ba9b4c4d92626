"""Symbolic values: affine integers, expressions of float32, four lanes of them."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

WRAP = 1 << 32


@dataclass(frozen=True, order=True)
class Atom:
    """A symbol of an affine form.

    Attributes
    ----------
    kind
        ``entry``: a value that is fixed while the loop nest runs. ``phi``: a local at the head of
        a loop, before it is known what the loop does to it. ``iter``: the iterations of a loop,
        from 0.
    number
        Tells those of a kind apart: a serial number, or the place of the loop in the code.
    local
        The local of a ``phi``, with its lane where it is a vector; (-1, 0) otherwise.
    """

    kind: str
    number: int
    local: tuple[int, int] = (-1, 0)


def signed(value: int) -> int:
    """A number modulo 2**32, as the signed i32 with these bits."""
    return (value + WRAP // 2) % WRAP - WRAP // 2


@dataclass(frozen=True)
class Linear:
    """``sum(coefficient * atom) + constant`` modulo 2**32; coefficients as signed i32."""

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    @staticmethod
    def of(terms: Mapping[Atom, int], constant: int) -> Linear:
        kept = ((atom, signed(c)) for atom, c in sorted(terms.items()))
        return Linear(tuple((atom, c) for atom, c in kept if c), signed(constant))

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """This and ``factor`` times the other."""
        terms = dict(self.terms)
        for atom, c in other.terms:
            terms[atom] = terms.get(atom, 0) + factor * c
        return Linear.of(terms, self.constant + factor * other.constant)

    def times(self, factor: int) -> Linear:
        return Linear().plus(self, factor)

    def of_atom(self, atom: Atom) -> int:
        """The atom's coefficient."""
        return dict(self.terms).get(atom, 0)

    def of_kind(self, kind: str) -> Linear:
        """The terms of a kind, without the constant."""
        return Linear(tuple(t for t in self.terms if t[0].kind == kind))

    def replaced(self, values: Mapping[Atom, Linear]) -> Linear:
        result = Linear((), self.constant)
        for atom, c in self.terms:
            result = result.plus(values.get(atom, Linear(((atom, 1),))), c)
        return result


I32, F32, V128 = 0x7F, 0x7D, 0x7B


def number(value: int) -> Linear:
    return Linear((), signed(value))


def atom_of(atom: Atom) -> Linear:
    return Linear(((atom, 1),))


@dataclass(frozen=True)
class Const:
    """A float32 constant."""

    value: float


@dataclass(frozen=True)
class Scalar:
    """A float32 that is an atom."""

    atom: Atom


@dataclass(frozen=True)
class Load:
    """The float32 at an address, in bytes."""

    address: Linear


class _Compound:
    """What has parts. They are counted once: an expression may hold another in many places."""

    @cached_property
    def size(self) -> int:
        """How many parts it has, written out."""
        return 1 + sum(p.size if isinstance(p, _Compound) else 1 for p in self._parts())

    @cached_property
    def depth(self) -> int:
        """How many of them lie in one another."""
        return 1 + max((p.depth for p in self._parts() if isinstance(p, _Compound)), default=0)

    def _parts(self) -> tuple[Expr, ...]:
        return children(self)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Op(_Compound):
    """An operation on float32, named as in tensor IR; comparisons give a truth value."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True)
class Sum(_Compound):
    """The sum of terms, in any order."""

    terms: tuple[Expr, ...]


@dataclass(frozen=True)
class Reduce(_Compound):
    """The sum of a term over the iterations of loops."""

    loops: tuple[tuple[Atom, int], ...]
    term: Expr


Expr = Const | Scalar | Load | Op | Sum | Reduce


@dataclass(frozen=True)
class Lanes:
    """A vector of four float32, four truth values, or four integers."""

    lanes: tuple[Expr | Linear, ...]


@dataclass(frozen=True)
class Compare:
    """A comparison of two integers by the name of the instruction, such as ``lt_u``."""

    name: str
    a: Linear
    b: Linear


@dataclass(frozen=True)
class Unknown:
    """A value that nothing is known of; ``reason`` is why, where a loop nest needs it."""

    reason: str


Value = Linear | Expr | Lanes | Compare | Unknown


def symbol(type_: int, atom: Callable[[int], Atom]) -> Value:
    """A value of a type of which nothing is known but its atom, by lane."""
    if type_ == I32:
        return atom_of(atom(0))
    if type_ == F32:
        return Scalar(atom(0))
    if type_ == V128:
        return Lanes(tuple(Scalar(atom(lane)) for lane in range(4)))
    return Unknown("f64" if type_ == 0x7C else "integer")


def as_integer(value: Value) -> Linear | None:
    """The bits of a value as an integer, where they are an affine form."""
    if isinstance(value, Scalar):
        return atom_of(value.atom)
    if isinstance(value, Const) and not math.isnan(value.value):
        return number(int.from_bytes(struct.pack("<f", value.value), "little"))
    return value if isinstance(value, Linear) else None


COMMUTATIVE = ("add", "mul")
NOTHING = Const(0.0)


MOST_PARTS, MOST_DEPTH = 2000, 200


def is_too_large(expr: Expr) -> bool:
    """Whether an expression is not followed: it is long, or deeper than functions can recurse."""
    return isinstance(expr, _Compound) and (expr.size > MOST_PARTS or expr.depth > MOST_DEPTH)


def is_float(value: Value) -> bool:
    return isinstance(value, (Const, Scalar, Load, Op, Sum, Reduce))


def children(expr: Expr) -> tuple[Expr, ...]:
    if isinstance(expr, Op):
        return expr.args
    if isinstance(expr, Sum):
        return expr.terms
    return (expr.term,) if isinstance(expr, Reduce) else ()


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all in it, outside in."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def rebuilt(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The expression with its children changed."""
    if isinstance(expr, Op):
        return op(expr.name, *(change(a) for a in expr.args))
    if isinstance(expr, Sum):
        return total([change(t) for t in expr.terms])
    return replace(expr, term=change(expr.term)) if isinstance(expr, Reduce) else expr


def with_addresses(expr: Expr, change: Callable[[Linear], Linear]) -> Expr:
    """The expression with the address of every load changed."""
    if isinstance(expr, Load):
        return Load(change(expr.address))
    return rebuilt(expr, lambda child: with_addresses(child, change))


def shape(expr: Expr) -> str:
    """What expressions that differ in the constants of addresses have in common; orders them."""
    if isinstance(expr, Load):
        return f"load{[(a.kind, a.number, c) for a, c in expr.address.terms]}"
    if isinstance(expr, (Const, Scalar)):
        return repr(expr)
    head = expr.name if isinstance(expr, Op) else type(expr).__name__
    loops = [(a.number, n) for a, n in expr.loops] if isinstance(expr, Reduce) else ""
    return f"{head}{loops}({','.join(shape(c) for c in children(expr))})"


def op(name: str, *args: Expr) -> Expr:
    """An operation; a sum with a reduction in it is a :class:`Sum`."""
    if name == "add" and any(isinstance(a, (Sum, Reduce)) for a in args):
        return total(list(args))
    if name in COMMUTATIVE:
        args = tuple(sorted(args, key=shape))
    return Op(name, args)


def total(terms: list[Expr]) -> Expr:
    """The sum of terms; sums among them are flattened, zeros left out."""
    flat: list[Expr] = []
    for term in terms:
        flat += term.terms if isinstance(term, Sum) else [term]
    flat = [t for t in flat if t != NOTHING]
    return Sum(tuple(flat)) if len(flat) > 1 else flat[0] if flat else NOTHING


def added(expr: Expr) -> list[Expr]:
    """The terms of nested additions."""
    if isinstance(expr, Sum) or (isinstance(expr, Op) and expr.name == "add"):
        return [t for child in children(expr) for t in added(child)]
    if isinstance(expr, Op) and expr.name == "sub":
        return [*added(expr.args[0]), *(_negated(t) for t in added(expr.args[1]))]
    return [expr]


def _negated(expr: Expr) -> Expr:
    if isinstance(expr, Reduce):
        return replace(expr, term=Op("neg", (expr.term,)))
    return Op("neg", (expr,))
