"""Copies of one statement that an unrolled or vectorised loop has become, as one loop again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from nnjit_studio.foreign_wasm.offload.lift.terms import (
    Atom,
    Expr,
    Linear,
    Load,
    Op,
    Reduce,
    Sum,
    added,
    children,
    rebuilt,
    shape,
    total,
)

LEAST_COPIES = 8
"""Added terms that count as an unrolled loop."""

T = TypeVar("T")
Loops = tuple[tuple[Atom, int], ...]


@dataclass(frozen=True)
class Output:
    """A float32 stored at each point of its loops."""

    address: Linear
    loops: Loops
    value: Expr


class Reroller:
    """Finds copies; a new loop of copies of the same kind is the same loop."""

    def __init__(self) -> None:
        self._known: dict[object, Atom] = {}

    def outputs(self, found: Iterable[Output]) -> list[Output]:
        """Stores whose addresses are in steps, and whose values differ in steps, as one."""
        current = [replace(o, value=self.value(o.value)) for o in found]
        while True:
            merged = self._merged(current)
            if len(merged) == len(current):
                return merged
            current = merged

    def value(self, expr: Expr) -> Expr:
        """An expression whose sums of similar reductions are one reduction."""
        if isinstance(expr, Reduce):
            return replace(expr, term=self.value(expr.term))
        if isinstance(expr, Op) and expr.name == "add" and (found := self._unrolled(expr)):
            return found
        if not isinstance(expr, Sum):
            return rebuilt(expr, self.value) if isinstance(expr, Op) else expr
        terms = [self.value(t) for t in expr.terms]
        while True:
            fewer = self._fewer(terms)
            if len(fewer) == len(terms):
                return total(terms)
            terms = fewer

    def _unrolled(self, expr: Expr) -> Expr | None:
        """Nested additions of many similar terms, as a loop that was unrolled leaves them."""
        groups: dict[str, list[Expr]] = {}
        for term in added(expr):
            groups.setdefault(shape(term), []).append(term)
        if all(len(copies) < LEAST_COPIES for copies in groups.values()):
            return None
        terms: list[Expr] = []
        for copies in groups.values():
            copies.sort(key=_first)
            for run in _runs(copies, self._repeated):
                terms += run if len(run) == 1 else [self._repeated(run) or run[0]]
        return total(terms) if any(isinstance(t, Reduce) for t in terms) else None

    def _repeated(self, copies: Sequence[Expr]) -> Expr | None:
        """Terms that differ in steps, as a sum over a loop."""
        if len(copies) < LEAST_COPIES:
            return None
        counter = self._counter(("sum", (), len(copies)))
        term = zipped(copies, counter)
        return term and Reduce(((counter, len(copies)),), term)

    def _fewer(self, terms: list[Expr]) -> list[Expr]:
        groups: dict[object, list[Expr]] = {}
        for i, term in enumerate(terms):
            alike = (term.loops, shape(term)) if isinstance(term, Reduce) else i
            groups.setdefault(alike, []).append(term)
        result: list[Expr] = []
        for copies in groups.values():
            copies.sort(key=_first)
            runs = _runs(copies, self._joined)
            result += [run[0] if len(run) == 1 else self._joined(run) or run[0] for run in runs]
        return result

    def _joined(self, copies: Sequence[Expr]) -> Expr | None:
        """Reductions that differ in steps, as one over one more loop."""
        first = copies[0]
        assert isinstance(first, Reduce)
        counter = self._counter(("sum", first.loops, len(copies)))
        term = zipped([c.term for c in copies if isinstance(c, Reduce)], counter)
        return term and Reduce((*first.loops, (counter, len(copies))), term)

    def _merged(self, found: list[Output]) -> list[Output]:
        groups: dict[object, list[Output]] = {}
        for output in found:
            alike = output.loops, output.address.terms, shape(output.value)
            groups.setdefault(alike, []).append(output)
        result: list[Output] = []
        for copies in groups.values():
            copies.sort(key=lambda o: o.address.constant)
            for run in _runs(copies, self._one):
                result.append(run[0] if len(run) == 1 else self._one(run) or run[0])
        return result

    def _one(self, copies: Sequence[Output]) -> Output | None:
        first, n = copies[0], len(copies)
        step = copies[1].address.constant - first.address.constant
        counter = self._counter(("store", first.loops, n, step))
        address = stepped([o.address for o in copies], counter)
        value = zipped([o.value for o in copies], counter)
        if address is None or value is None:
            return None
        return Output(address, (*first.loops, (counter, n)), value)

    def _counter(self, key: object) -> Atom:
        return self._known.setdefault(key, Atom("iter", -1 - len(self._known)))


def _runs(items: list[T], join: Callable[[list[T]], object | None]) -> list[list[T]]:
    """The items in runs, each as long as it can be joined."""
    runs: list[list[T]] = []
    at = 0
    while at < len(items):
        length = len(items) - at
        while length > 1 and join(items[at : at + length]) is None:
            length -= 1
        runs.append(items[at : at + length])
        at += length
    return runs


def _first(expr: Expr) -> tuple[int, ...]:
    """Constants of an expression's addresses, for their order."""
    if isinstance(expr, Load):
        return (expr.address.constant,)
    return tuple(c for child in children(expr) for c in _first(child))


def stepped(addresses: Sequence[Linear], counter: Atom) -> Linear | None:
    """Addresses that differ by a constant step, as one."""
    first = addresses[0]
    step = addresses[1].constant - first.constant
    same = all(
        a.terms == first.terms and a.constant == first.constant + i * step
        for i, a in enumerate(addresses)
    )
    return first.plus(Linear(((counter, 1),)), step) if same else None


def zipped(copies: Sequence[Expr], counter: Atom) -> Expr | None:
    """Expressions that differ in steps of their addresses alone, as one."""
    first = copies[0]
    if all(c == first for c in copies):
        return first
    if any(type(c) is not type(first) for c in copies):
        return None
    if isinstance(first, Load):
        address = stepped([c.address for c in copies if isinstance(c, Load)], counter)
        return None if address is None else Load(address)
    parts = [children(c) for c in copies]
    heads = {_head(c) for c in copies}
    if not parts[0] or len(heads) > 1:
        return None
    joined = [zipped(row, counter) for row in zip(*parts, strict=True)]
    if any(j is None for j in joined):
        return None
    known = iter(joined)
    return rebuilt(first, lambda child: next(known) or child)


def _head(expr: Expr) -> object:
    if isinstance(expr, Op):
        return expr.name, len(expr.args)
    return expr.loops if isinstance(expr, Reduce) else len(children(expr))
