"""Schedules of padding: copies into a box, with a constant around it.

A condition on each element would keep the copy from running on lanes, because
it guards a load. Loops over the box and over what lies around it need none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnjit_studio.compiler.ir.affine import LANES, linear_form, loads
from nnjit_studio.compiler.ir.loops import For, Put, Statement, When, has_turns
from nnjit_studio.compiler.ir.rewrite import int32
from nnjit_studio.compiler.ir.tensor_ir import Axis, Binary, Expr, Select, Store, Var
from nnjit_studio.compiler.recognize.zero_padding import limits_of


@dataclass(frozen=True)
class Padding:
    """What is stored inside the box and around it; ``box`` has half-open ranges by variable."""

    inside: Store
    outside: Store
    box: Mapping[str, tuple[int, int]]


def padding_of(body: Sequence[Store], extents: Mapping[str, int]) -> Padding | None:
    """The padding that a stage is, with indices that are plain sums of its variables."""
    if len(body) != 1 or not isinstance(body[0].value, Select):
        return None
    (store,) = body
    value = store.value
    assert isinstance(value, Select)
    box = limits_of(value.condition, extents)
    if not box or any(low >= high for low, high in box.values()):
        return None
    indices = [load.index for side in (value.then, value.otherwise) for load in loads(side)]
    if any(linear_form(index, extents) is None for index in indices):
        return None
    inside, outside = (Store(store.buffer, store.index, v) for v in (value.then, value.otherwise))
    return Padding(inside, outside, box)


def padded(padding: Padding, axes: Sequence[Axis], lanes: str) -> list[Statement]:
    """Loops over ``axes``, ``lanes`` the last; the box's other variables are bound."""
    own = {axis.var for axis in axes}
    body = _inside(padding, axes, lanes)
    for var, (low, high) in padding.box.items():
        if var not in own:
            within = Binary("and", _le(int32(low), Var(var)), _le(Var(var), int32(high - 1)))
            body = [When(within, body, _filled(padding.outside, axes, lanes))]
    return body


def _le(a: Expr, b: Expr) -> Binary:
    return Binary("le", a, b)


def _inside(padding: Padding, axes: Sequence[Axis], lanes: str) -> list[Statement]:
    if not axes:
        return [Put((padding.inside,))]
    axis, *rest = axes
    low, high = padding.box.get(axis.var, (0, axis.extent))
    around = (
        _range(padding.outside, axis.var, begin, end, rest, lanes)
        for begin, end in ((0, low), (high, axis.extent))
    )
    before, after = around
    if rest:
        within: list[Statement] = [
            For(axis.var, int32(low), int32(high), 1, _inside(padding, rest, lanes))
        ]
    else:
        within = _range(padding.inside, axis.var, low, high, rest, lanes)
    return [*before, *within, *after]


def _filled(store: Store, axes: Sequence[Axis], lanes: str) -> list[Statement]:
    if not axes:
        return [Put((store,))]
    axis, *rest = axes
    return _range(store, axis.var, 0, axis.extent, rest, lanes)


def _range(
    store: Store, var: str, begin: int, end: int, rest: Sequence[Axis], lanes: str
) -> list[Statement]:
    """The store for all points of ``rest`` and those of one axis between two bounds."""
    if not has_turns(begin, end):
        return []
    if var != lanes:
        return [For(var, int32(begin), int32(end), 1, _filled(store, rest, lanes))]
    whole = begin + (end - begin) // LANES * LANES
    parts = ((begin, whole, LANES, Put((store,), var)), (whole, end, 1, Put((store,))))
    return [
        For(var, int32(a), int32(b), step, [put]) for a, b, step, put in parts if has_turns(a, b)
    ]
