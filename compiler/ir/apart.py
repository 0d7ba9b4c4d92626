"""Whether points of outer axes, walked by threads of their own, stay out of each other's way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nnjit_studio.compiler.ir.affine import affine, bounds_of, variables
from nnjit_studio.compiler.ir.rewrite import loops_in
from nnjit_studio.compiler.ir.tensor_ir import Axis, Expr, Statement


@dataclass(frozen=True)
class Walk:
    """A nest with its accesses, ``(buffer, index)``; ``outer`` axes are walked by the threads."""

    outer: Sequence[Axis]
    inner: Sequence[Axis]
    steps: Sequence[Statement]
    accesses: Iterable[tuple[str, Expr]]


def stay_apart(walks: Iterable[Walk], written: set[str]) -> bool:
    """Whether each point of the outer axes touches a part of its own of all that is written."""
    parts: dict[str, tuple[int, ...]] = {}
    for walk in walks:
        names = {a.var for a in walk.outer}
        known = {a.var: (0, a.extent - 1) for a in walk.inner}
        known.update({loop.var: (0, loop.extent - 1) for loop in loops_in(walk.steps)})
        known.update({name: (0, 0) for name in names})
        for buffer, index in walk.accesses if names else ():
            if buffer not in written:
                continue
            linear = affine(index)
            factors = dict(linear.terms)
            mine = tuple(factors.get(a.var, 0) for a in walk.outer)
            mixed = any(not isinstance(t, str) and variables(t) & names for t in factors)
            low, high = bounds_of(linear, known)
            if mixed or parts.setdefault(buffer, mine) != mine or low < 0 or high >= mine[-1]:
                return False
            for i, axis in enumerate(walk.outer[1:]):
                if mine[i] < axis.extent * mine[i + 1]:
                    return False
    return True
