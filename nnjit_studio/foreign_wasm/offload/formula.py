"""What each element of an output is, for the page: expressions as nested lists (``rounding.js``).

The first of a list is the operation, as in tensor IR, or ``const``, ``scalar``, ``load``, ``sum``,
``reduce``. Loops are numbered, those around an output first.
"""

from __future__ import annotations

import struct
from typing import Any

from nnjit_studio.foreign_wasm.offload.dependence import reach
from nnjit_studio.foreign_wasm.offload.detect import Found
from nnjit_studio.foreign_wasm.offload.lift.terms import (
    Atom,
    Const,
    Expr,
    Load,
    Op,
    Reduce,
    Scalar,
    children,
    walk,
)
from nnjit_studio.foreign_wasm.offload.lower import ELEMENT, Lowered, ordered
from nnjit_studio.foreign_wasm.offload.reroll import Output

Formula = list[Any]


def formulas(found: Found) -> list[Formula]:
    """The expression of each output of a nest."""
    return [_formula(found.lowered, output) for output in found.nest.outputs]


def _formula(lowered: Lowered, output: Output) -> Formula:
    sums = [e.loops for e in walk(output.value) if isinstance(e, Reduce)]
    trips = dict(pair for loops in (ordered(output), *sums) for pair in loops)
    return _data(output.value, lowered, trips, {atom: i for i, atom in enumerate(trips)})


def _data(
    expr: Expr, lowered: Lowered, trips: dict[Atom, int], numbers: dict[Atom, int]
) -> Formula:
    if isinstance(expr, Const):
        return ["const", *struct.unpack("<I", struct.pack("<f", expr.value))]
    if isinstance(expr, Scalar):
        return ["scalar", lowered.scalars.index(expr.atom)]
    if isinstance(expr, Load):
        return ["load", *_place(expr, lowered, trips, numbers)]
    parts = [_data(child, lowered, trips, numbers) for child in children(expr)]
    if isinstance(expr, Reduce):
        return ["reduce", [[numbers[atom], n] for atom, n in expr.loops], *parts]
    return [expr.name if isinstance(expr, Op) else "sum", *parts]


def _place(
    load: Load, lowered: Lowered, trips: dict[Atom, int], numbers: dict[Atom, int]
) -> Formula:
    """The input, the element of it in the first iteration, and the step of each loop."""
    low, _ = reach(load.address, trips)
    entry = load.address.of_kind("entry")
    input_ = next(
        i
        for i, window in enumerate(lowered.inputs)
        if window.base.of_kind("entry") == entry and 0 <= low - window.base.constant < window.nbytes
    )
    first = load.address.constant - lowered.inputs[input_].base.constant
    steps = load.address.of_kind("iter").terms
    return [input_, first // ELEMENT, *([numbers[atom], c // ELEMENT] for atom, c in steps)]
