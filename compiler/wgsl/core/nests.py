"""Normalised loop nests: no axes of extent 1, indices as plain sums, adjacent axes merged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nnjit_studio.compiler.ir.affine import affine, children, linear_form, variables, walk
from nnjit_studio.compiler.ir.rewrite import (
    int32,
    map_steps,
    resolve,
    resolve_value,
    substitute,
    substitute_store,
)
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Expr,
    Load,
    Stage,
    Statement,
    Store,
    Var,
    stage_expressions,
    stores_in,
)
from nnjit_studio.errors import CompileError


@dataclass(frozen=True)
class Nest:
    """A stage; the fields are as in :class:`Stage`, its axes by kind."""

    name: str
    spatial: tuple[Axis, ...]
    reduce: tuple[Axis, ...]
    body: tuple[Store, ...] = ()
    init: tuple[Store, ...] = ()
    steps: tuple[Statement, ...] = ()

    @property
    def stage(self) -> Stage:
        return Stage(self.name, (*self.spatial, *self.reduce), self.body, self.init, self.steps)

    @property
    def stores(self) -> tuple[Store, ...]:
        return (*self.init, *self.body, *stores_in(self.steps))

    @property
    def written(self) -> set[str]:
        return {store.buffer for store in self.stores}

    @property
    def reads(self) -> list[Load]:
        """Every load, those in indices among them."""
        return [e for x in stage_expressions(self.stage) for e in walk(x) if isinstance(e, Load)]

    @property
    def buffers(self) -> set[str]:
        return self.written | {load.buffer for load in self.reads}

    def map(self, values: dict[str, Expr]) -> Nest:
        """The nest with variables replaced in all expressions; the axes stay."""
        return replace(
            self,
            body=tuple(substitute_store(s, values) for s in self.body),
            init=tuple(substitute_store(s, values) for s in self.init),
            steps=map_steps(
                self.steps,
                lambda s, _: substitute_store(s, values),
                lambda e, _: substitute(e, values),
                {},
            ),
        )


def points(axes: Iterable[Axis]) -> int:
    return math.prod(axis.extent for axis in axes)


def tidy(stage: Stage) -> Nest:
    """The nest of a stage.

    Raises
    ------
    CompileError
        When a reduction's result moves with its reduce axes, or is read elsewhere than written.
    """
    ones: dict[str, Expr] = {a.var: int32(0) for a in stage.axes if a.extent == 1}
    spatial = tuple(a for a in stage.axes if a.extent > 1 and a.kind == "spatial")
    reduce = tuple(a for a in stage.axes if a.extent > 1 and a.kind == "reduce")
    plain = Nest(stage.name, spatial, reduce, stage.body, stage.init, stage.steps).map(ones)
    extents = {a.var: a.extent for a in (*spatial, *reduce)}
    nest = replace(
        plain,
        body=tuple(resolve(s, extents) for s in plain.body),
        init=tuple(resolve(s, extents) for s in plain.init),
        steps=map_steps(plain.steps, resolve, resolve_value, extents),
    )
    if nest.init:
        _check_reduction(nest)
    return nest


def _check_reduction(nest: Nest) -> None:
    moving = {axis.var for axis in nest.reduce}
    stored = {store.buffer: store.index for store in nest.body}
    strange = any(variables(index) & moving for index in stored.values()) or any(
        isinstance(e, Load) and e.buffer in stored and e.index != stored[e.buffer]
        for store in nest.body
        for e in walk(store.value)
    )
    if strange:
        raise CompileError(
            f"Stage {nest.name} reduces into elements that move with the reduction.",
            "Report the model: the importer should have split this stage.",
        )


def collapsed(nests: Sequence[Nest], kind: str, count: int | None = None) -> tuple[Nest, ...]:
    """Neighbouring axes that all indices walk as one made one.

    Parameters
    ----------
    kind
        ``spatial`` or ``reduce``.
    count
        Of the leading axes alone, which must be the same in all nests.
    """
    found = tuple(nests)
    place = 0
    while True:
        axes = getattr(found[0], kind)[:count]
        if place + 1 >= len(axes):
            return found
        a, b = axes[place], axes[place + 1]
        if all(_walks_as_one(nest, a.var, b.var, b.extent) for nest in found):
            one = replace(b, extent=a.extent * b.extent)
            moved = [nest.map({a.var: int32(0)}) for nest in found]
            found = tuple(
                _with_axes(nest, kind, (*axes[:place], one, *getattr(nest, kind)[place + 2 :]))
                for nest in moved
            )
            found = tuple(resolved(nest) for nest in found)
            count = None if count is None else count - 1
        else:
            place += 1


def _with_axes(nest: Nest, kind: str, axes: tuple[Axis, ...]) -> Nest:
    return replace(nest, spatial=axes) if kind == "spatial" else replace(nest, reduce=axes)


def resolved(nest: Nest) -> Nest:
    """Indices as plain sums again, after variables were replaced."""
    return tidy(nest.stage) if nest.init or nest.body else nest


def _walks_as_one(nest: Nest, a: str, b: str, extent: int) -> bool:
    pair = {a, b}
    indices = [load.index for load in nest.reads] + [store.index for store in nest.stores]
    for index in indices:
        terms = dict(affine(index).terms)
        if terms.pop(a, 0) != extent * terms.pop(b, 0):
            return False
        if any(not isinstance(t, str) and pair & outside_loads(t) for t in terms):
            return False
    values = [e for e in stage_expressions(nest.stage) if e not in indices]
    return not any(pair & outside_loads(value) for value in values)


def outside_loads(expr: Expr) -> set[str]:
    """Variables that a value depends on other than through an index."""
    if isinstance(expr, Load):
        return set()
    if isinstance(expr, Var):
        return {expr.name}
    return {name for child in children(expr) for name in outside_loads(child)}


def aligned(index: Expr, var: str, multiple: int) -> bool:
    """Whether neighbours along ``var`` are neighbours, from a multiple on if ``var`` is one."""
    linear = affine(index)
    terms = dict(linear.terms)
    if terms.pop(var, 0) != 1 or linear.constant % multiple:
        return False
    return all(
        c % multiple == 0 and (isinstance(t, str) or var not in variables(t))
        for t, c in terms.items()
    )


def is_row_major(nest: Nest, index: Expr) -> bool:
    """Whether an index counts the points of the spatial axes."""
    form = linear_form(index, {a.var: a.extent for a in nest.spatial})
    wanted, step = {}, 1
    for axis in reversed(nest.spatial):
        wanted[axis.var] = step
        step *= axis.extent
    return form == (0, wanted)
