"""A lifted loop as a nest in normal form: outputs over merged loops, every access affine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from nnjit_studio.foreign_wasm.offload.dependence import WIDTH, check_order, reach
from nnjit_studio.foreign_wasm.offload.lift.machine import Store
from nnjit_studio.foreign_wasm.offload.lift.refusal import Refused
from nnjit_studio.foreign_wasm.offload.lift.terms import (
    Atom,
    Expr,
    Lanes,
    Linear,
    Load,
    Reduce,
    Unknown,
    added,
    atom_of,
    is_float,
    number,
    rebuilt,
    total,
    walk,
    with_addresses,
)
from nnjit_studio.foreign_wasm.offload.lift.walk import Lifted
from nnjit_studio.foreign_wasm.offload.reroll import Loops, Output, Reroller

RESULT = Atom("entry", 0)
"""The base of sums that stay in locals: 4 bytes for each."""


@dataclass(frozen=True)
class Nest:
    """A nest of loops that may run in any order.

    Attributes
    ----------
    begin, end
        Instructions of the outermost loop.
    outputs
        What it stores; what is based on ``RESULT`` goes to ``results``.
    results
        Local and lane of each sum that stays in a local.
    finals
        Other locals that are used behind the nest.
    """

    begin: int
    end: int
    outputs: tuple[Output, ...]
    results: tuple[tuple[int, int], ...]
    finals: Mapping[int, Linear]


def normalise(lifted: Lifted, live: frozenset[int]) -> Nest:
    """The normal form of a lifted loop.

    Parameters
    ----------
    live
        Locals that are read behind the loop before they are set.

    Raises
    ------
    Refused
    """
    stores = lifted.after.stores
    trips = dict(pair for store in stores for pair in store.loops)
    loads = lifted.after.loads
    trips |= {atom: n for s in stores for atom, n in reductions(s.value)}  # type: ignore[arg-type]
    finals, results = _locals_after(lifted, live)
    trips |= {atom: n for _, _, value in results for atom, n in reductions(value)}
    _check_ranges(lifted, trips)
    summed = [_summed(store) for store in stores]
    values = [*(s.value for s in stores), *(value for _, _, value in results)]
    used = {e.address for value in values for e in walk(value) if isinstance(e, Load)}  # type: ignore[arg-type]
    kept = [(a, order) for a, order in loads if a in used]
    # What was loaded by the iteration before, or before the nest, was read before any store.
    kept += [(a, 0) for a in sorted(used - {a for a, _ in loads}, key=repr)]
    check_order([(s.address, s.order) for s in stores], kept, trips)
    summed += [
        Output(Linear(((RESULT, 1),), 4 * i), (), value) for i, (_, _, value) in enumerate(results)
    ]
    if not summed:
        raise Refused(_lacking(lifted))
    outputs = [_merged(_without_ones(o)) for o in Reroller().outputs(summed)]
    places = tuple((local, lane) for local, lane, _ in results)
    return Nest(lifted.begin, lifted.end, tuple(outputs), places, finals)


def _check_ranges(lifted: Lifted, trips: Mapping[Atom, int]) -> None:
    for form, low, high in lifted.after.ranges:
        if any(atom not in trips for atom, _ in form.terms):
            raise Refused("dynamic-trip-count")
        least, behind = reach(form, trips)
        if least < low or behind - WIDTH >= high:
            raise Refused("dynamic-trip-count")


def reductions(value: Expr) -> Loops:
    """The loops that sums of a value run over."""
    return tuple(pair for e in walk(value) if isinstance(e, Reduce) for pair in e.loops)


def _lacking(lifted: Lifted) -> str:
    """Why a loop without results has none."""
    ends = [lifted.after.locals[x] for x in lifted.written]
    known = [v.reason for v in ends if isinstance(v, Unknown) and v.reason != "live-out"]
    return known[0] if known else "nothing"


def _locals_after(
    lifted: Lifted, live: frozenset[int]
) -> tuple[dict[int, Linear], list[tuple[int, int, Expr]]]:
    finals: dict[int, Linear] = {}
    results: list[tuple[int, int, Expr]] = []
    for x in sorted(live & frozenset(lifted.written)):
        value = lifted.after.locals[x]
        if isinstance(value, Linear):
            if any(atom.kind != "entry" for atom, _ in value.terms):
                raise Refused("live-out")
            finals[x] = value
            continue
        parts = value.lanes if isinstance(value, Lanes) else (value,)
        if isinstance(value, Unknown):
            raise Refused(value.reason)
        for lane, part in enumerate(parts):
            if not is_float(part) or not any(isinstance(e, Reduce) for e in walk(part)):  # type: ignore[arg-type]
                raise Refused("live-out")
            results.append((x, lane, part))  # type: ignore[arg-type]
    return finals, results


def _summed(store: Store) -> Output:
    """A store; one that adds to the same place again and again adds a sum once."""
    value: Expr = store.value  # type: ignore[assignment]
    moving = {atom for atom, _ in store.address.of_kind("iter").terms}
    loops = store.loops
    still = tuple(pair for pair in loops if pair[0] not in moving and pair[1] > 1)
    if not still:
        return Output(store.address, loops, value)
    terms = added(value)
    if terms.count(Load(store.address)) != 1:
        raise Refused("recurrence")
    terms.remove(Load(store.address))
    around = [
        replace(t, loops=(*still, *t.loops)) if isinstance(t, Reduce) else Reduce(still, t)
        for t in terms
    ]
    rest = tuple(pair for pair in loops if pair not in still)
    return Output(store.address, rest, total([Load(store.address), *around]))


def _without_ones(output: Output) -> Output:
    """The output without loops of one iteration."""
    ones = {a: number(0) for a, n in (*output.loops, *reductions(output.value)) if n == 1}
    if not ones:
        return output

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Reduce):
            loops = tuple(pair for pair in expr.loops if pair[0] not in ones)
            inner = change(expr.term)
            return Reduce(loops, inner) if loops else inner
        if isinstance(expr, Load):
            return Load(expr.address.replaced(ones))
        return rebuilt(expr, change)

    loops = tuple(pair for pair in output.loops if pair[0] not in ones)
    return Output(output.address.replaced(ones), loops, change(output.value))


def _merged(output: Output) -> Output:
    """The output with loops that together are one loop merged, as of tiles."""
    value = _merged_sums(output.value)
    output = replace(output, value=value)
    addresses = [output.address, *_addresses(value)]
    while (pair := _mergeable(output.loops, addresses)) is not None:
        loops, change = _joint(output.loops, *pair)
        value = with_addresses(output.value, change)
        output = Output(change(output.address), loops, value)
        addresses = [output.address, *_addresses(value)]
    return output


def _merged_sums(expr: Expr) -> Expr:
    """The same for the loops of each reduction."""
    if not isinstance(expr, Reduce):
        return rebuilt(expr, _merged_sums)
    found = replace(expr, term=_merged_sums(expr.term))
    while (pair := _mergeable(found.loops, _addresses(found.term))) is not None:
        loops, change = _joint(found.loops, *pair)
        found = Reduce(loops, with_addresses(found.term, change))
    return found


def _mergeable(loops: Loops, addresses: list[Linear]) -> tuple[Atom, Atom] | None:
    """An outer and an inner loop whose steps continue each other in every address."""
    for outer, _ in loops:
        for inner, n in loops:
            fits = (a.of_atom(outer) == n * a.of_atom(inner) for a in addresses)
            if outer != inner and all(fits):
                return outer, inner
    return None


def _joint(loops: Loops, outer: Atom, inner: Atom) -> tuple[Loops, Callable[[Linear], Linear]]:
    """The loops with two as one, which has a symbol of its own, and addresses by it."""
    trips = dict(loops)
    extent = trips[outer] * trips[inner]
    joint = Atom("iter", inner.number, (outer.number, extent))
    values = {outer: number(0), inner: atom_of(joint)}
    rest = tuple(pair for pair in loops if pair[0] not in values)
    return (*rest, (joint, extent)), lambda address: address.replaced(values)


def _addresses(expr: Expr) -> list[Linear]:
    return [e.address for e in walk(expr) if isinstance(e, Load)]
