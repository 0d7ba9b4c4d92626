"""Grouping of stages into dispatches, and the division of a dispatch's work among threads.

A group is a run of stages whose leading axes (the *outer* ones) can be walked
together: each outer point touches elements of its own of every result. A
*team* of threads computes one outer point, stage after stage:

- one thread: pointwise work and long reductions with many results, where a
  thread keeps a tile of neighbouring points in registers;
- several, up to a workgroup: a row of a softmax or of a normalisation, whose
  reductions end in a tree over workgroup memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnjit_studio.compiler.ir.affine import affine, bounds_of, loads, rewrite, stride, variables
from nnjit_studio.compiler.ir.apart import Walk, stay_apart
from nnjit_studio.compiler.ir.dtypes import BYTES
from nnjit_studio.compiler.ir.numbers_in_front import MOST_AHEAD
from nnjit_studio.compiler.ir.rewrite import int32, loops_in, map_steps, substitute
from nnjit_studio.compiler.ir.tensor_ir import Axis, Expr, Load, Program, Store, Var
from nnjit_studio.compiler.recognize.recurrent import widest
from nnjit_studio.compiler.wgsl.core.memory import GROUP, PACKED
from nnjit_studio.compiler.wgsl.core.nests import (
    Nest,
    aligned,
    collapsed,
    is_row_major,
    points,
    resolved,
    tidy,
)
from nnjit_studio.compiler.wgsl.core.reduction_tree import tree_of
from nnjit_studio.errors import CompileError

MAX_BUFFERS = 8
"""Storage buffers of a dispatch, by WebGPU's default limits."""
MAX_TEAM = 256
"""Threads of a workgroup, by WebGPU's default limits."""
ROW_BYTES = 8192
"""Workgroup memory for rows between stages; half of WebGPU's default limit."""
_ENOUGH_ROWS = 32
_SMALL_ROW = 1 << 13  # elements that one workgroup may work through, however few there are
_ENOUGH_THREADS = 1 << 14
_FULL = 1 << 16  # threads that keep any GPU busy
_SMALLEST_TEAM = 8


@dataclass(frozen=True)
class Group:
    """Nests of one dispatch; the first ``len(outer)`` spatial axes of each are ``outer``."""

    nests: tuple[Nest, ...]
    outer: tuple[Axis, ...]
    team: int = 1
    """Threads that share an outer point."""
    tile: tuple[tuple[str, int], ...] = ()
    """Neighbouring points along an outer axis that a thread computes, by name; team 1 only."""
    across: bool = False
    """Whether neighbouring threads belong to neighbouring teams."""
    local: tuple[tuple[str, int], ...] = ()
    """Workspaces that live in workgroup memory, with their elements a team."""
    ahead: tuple[Nest, ...] = ()
    """Nests of single numbers that each workgroup computes before all others."""

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return MAX_TEAM if self.across else max(self.team, 64)

    @property
    def buffers(self) -> set[str]:
        return {b for nest in (*self.ahead, *self.nests) for b in nest.buffers}

    def inner(self, nest: Nest) -> tuple[Axis, ...]:
        return nest.spatial[len(self.outer) :]


@dataclass(frozen=True)
class Held:
    """What a schedule keeps where a program comes at other sizes.

    ``rows`` are workspaces that may live in workgroup memory, because no size changes theirs.
    Teams and tiles are those of ``groups``.
    """

    groups: tuple[Group, ...]
    rows: frozenset[str]


def groups_of(program: Program, plain: frozenset[str], held: Held | None = None) -> list[Group]:
    """The dispatches of a program, in order; ``plain`` buffers have a word for each element.

    Raises
    ------
    CompileError
        When they are others than those of what is held.
    """
    found: list[Group] = []
    nests: list[Nest] = []
    for stage in program.stages:
        nest = tidy(stage)
        together = _together(program, [*nests, nest], plain) if nests else None
        if together is None:
            nests = []
            found.append(_alone(program, nest, plain))
        else:
            found[-1] = together
        nests.append(nest)
    found = _with_ahead(program, found)
    if held is None:
        teams = [_with_team(program, group, plain) for group in found]
    elif len(found) == len(held.groups):
        teams = [
            replace(group, team=like.team, tile=like.tile, across=like.across)
            for group, like in zip(found, held.groups, strict=True)
        ]
    else:
        raise CompileError(
            f"The program has {len(found)} dispatches at one size and {len(held.groups)} at "
            "another.",
            "Fix its sizes.",
        )
    rows = None if held is None else held.rows
    return [_with_rows(program, teams, i, rows) for i in range(len(teams))]


def _with_ahead(program: Program, groups: list[Group]) -> list[Group]:
    """Around bytes: numbers that follow from a few elements, computed by who reads them next.

    A dispatch of its own takes longer than it does in each workgroup.
    """
    if len(groups) < 2 or not any(b.dtype in BYTES for b in program.buffers):
        return groups
    first, second, *rest = groups
    numbers = not any(n.spatial or n.steps for n in first.nests)
    numbers = numbers and all(tree_of(n) is not None for n in first.nests if n.init)
    few = sum(points(n.reduce) for n in first.nests) <= MOST_AHEAD
    joined = replace(second, ahead=first.nests)
    plain_rows = second.outer and not any(n.steps for n in second.nests)
    later = {b for group in (second, *rest) for b in group.buffers}
    inner = {b.name for b in program.buffers if b.role == "workspace"} - later  # in registers
    if not (numbers and few and plain_rows and len(joined.buffers - inner) <= MAX_BUFFERS):
        return groups
    return [joined, *rest]


def _alone(program: Program, nest: Nest, plain: frozenset[str]) -> Group:
    (nest,) = collapsed(collapsed([nest], "spatial"), "reduce")
    if not whole_words(program, nest, (), plain):
        nest = flattened(nest)
    return Group((nest,), nest.spatial)


def flattened(nest: Nest) -> Nest:
    """All spatial axes as one; indices that count its points become its variable."""
    axis = Axis("flat", points(nest.spatial))
    values: dict[str, Expr] = {}
    inner = axis.extent
    for i, a in enumerate(nest.spatial):
        inner //= a.extent
        value: Expr = Var(axis.var) // inner if inner > 1 else Var("flat")
        values[a.var] = value % a.extent if i else value

    def visit(expr: Expr) -> Expr | None:
        if isinstance(expr, Load) and is_row_major(nest, expr.index):
            return Load(expr.buffer, Var(axis.var))
        return None

    def stores(given: Sequence[Store]) -> tuple[Store, ...]:
        return tuple(Store(s.buffer, Var(axis.var), rewrite(s.value, visit)) for s in given)

    whole = replace(nest, body=stores(nest.body), init=stores(nest.init)).map(values)
    return replace(whole, spatial=(axis,))


def _together(program: Program, nests: Sequence[Nest], plain: frozenset[str]) -> Group | None:
    """The nests walked together, None where that is not possible or not useful."""
    for count in range(min(len(nest.spatial) for nest in nests), -1, -1):
        outer = nests[0].spatial[:count]
        if not outer and any(nest.steps for nest in nests):
            continue  # serial loops would run on one thread with all that goes with them
        extents = [a.extent for a in outer]
        if any([a.extent for a in n.spatial[:count]] != extents for n in nests):
            continue
        if not _stay_apart(nests, count):
            continue
        renamed = [_renamed(nest, i, outer) for i, nest in enumerate(nests)]
        tidied = collapsed(renamed, "spatial", count)
        left = count - (len(renamed[0].spatial) - len(tidied[0].spatial))
        tidied = tuple(collapsed([_collapsed_inner(n, left)], "reduce")[0] for n in tidied)
        group = Group(tidied, tidied[0].spatial[:left])
        if _useful(program, group, plain):
            return group
    return None


def _renamed(nest: Nest, number: int, outer: Sequence[Axis]) -> Nest:
    """The outer axes by one name in all nests, the others by names of the nest's own."""
    spatial = tuple(
        replace(a, var=outer[i].var if i < len(outer) else f"{a.var}.{number}")
        for i, a in enumerate(nest.spatial)
    )
    reduce = tuple(replace(a, var=f"{a.var}.{number}") for a in nest.reduce)
    old, new = (*nest.spatial, *nest.reduce), (*spatial, *reduce)
    values: dict[str, Expr] = {a.var: Var(b.var) for a, b in zip(old, new, strict=True)}
    return replace(nest.map(values), spatial=spatial, reduce=reduce)


def _collapsed_inner(nest: Nest, count: int) -> Nest:
    (one,) = collapsed([replace(nest, spatial=nest.spatial[count:])], "spatial")
    return replace(one, spatial=(*nest.spatial[:count], *one.spatial))


def _useful(program: Program, group: Group, plain: frozenset[str]) -> bool:
    if len(group.buffers) > MAX_BUFFERS:
        return False
    rows = points(group.outer)
    for nest in group.nests:
        inner = group.inner(nest)
        if not whole_words(program, nest, inner, plain):
            return False
        work = points(inner) * points(nest.reduce)
        if inner and work > _SMALL_ROW and rows < _ENOUGH_ROWS:
            return False
        # A long reduction for many results has a dispatch of its own.
        if inner and nest.reduce and points(inner) * rows > _ENOUGH_THREADS:
            return False
    return True


def whole_words(program: Program, nest: Nest, inner: Sequence[Axis], plain: frozenset[str]) -> bool:
    """Whether threads that take four points of the last axis write no other's words."""
    packed = [s for s in nest.stores if is_packed(program, s.buffer, plain)]
    if not packed:
        return True
    if nest.steps or not nest.spatial or (inner and nest.init):
        return False
    axis = nest.spatial[-1]
    if len(nest.spatial) == 1 and not inner and all(s.index == Var(axis.var) for s in packed):
        return all(points_of(program, s.buffer) == axis.extent for s in packed)
    return axis.extent % GROUP == 0 and all(aligned(s.index, axis.var, GROUP) for s in packed)


def points_of(program: Program, buffer: str) -> int:
    return math.prod(program.buffer(buffer).shape)


def is_packed(program: Program, buffer: str, plain: frozenset[str]) -> bool:
    """Whether elements of a buffer share words; a number has its own."""
    held = program.buffer(buffer)
    return buffer not in plain and held.dtype in PACKED and bool(held.shape)


def _stay_apart(nests: Sequence[Nest], count: int) -> bool:
    walks = (
        Walk(
            n.spatial[:count],
            (*n.spatial[count:], *n.reduce),
            n.steps,
            [*((s.buffer, s.index) for s in n.stores), *((x.buffer, x.index) for x in n.reads)],
        )
        for n in nests
    )
    return stay_apart(walks, {name for nest in nests for name in nest.written})


def _with_team(program: Program, group: Group, plain: frozenset[str]) -> Group:
    """Threads a team, and the tile of a thread that works alone."""
    rows = points(group.outer)
    if any(nest.steps for nest in group.nests):
        lanes = [widest(nest.name, nest.steps) for nest in group.nests]
        return replace(group, team=MAX_TEAM) if all(lanes) else group
    if any(group.inner(nest) for nest in group.nests):
        work = max(points(group.inner(n)) * points(n.reduce) for n in group.nests)
        team = 1 if work < 2 * _SMALLEST_TEAM else _power_of_two(-(-work // GROUP))
        return replace(group, team=min(max(team, _SMALLEST_TEAM), MAX_TEAM) if team > 1 else 1)
    longest = max(group.nests, key=lambda nest: points(nest.reduce))
    packed = any(is_packed(program, s.buffer, plain) for n in group.nests for s in n.stores)
    if not packed and all(tree_of(nest) is not None for nest in group.nests if nest.init):
        across = _runs_across(longest, group.outer)
        most = min(MAX_TEAM // 8 if across else MAX_TEAM, _FULL // rows)
        team = _power_of_two(min(points(longest.reduce) // GROUP, most))
        if team >= _SMALLEST_TEAM:
            return replace(group, team=team, across=across)
    return replace(group, tile=_tile(longest, group, packed))


def _power_of_two(limit: int) -> int:
    """The largest one that is not above the limit."""
    return 1 << (max(limit, 1).bit_length() - 1)


def _runs_across(nest: Nest, outer: Sequence[Axis]) -> bool:
    """Whether neighbouring results read neighbouring elements, and a reduction's steps do not."""
    if not outer or not nest.reduce:
        return False
    along = [stride(load.index, nest.reduce[-1].var) for load in nest.reads]
    beside = [stride(load.index, outer[-1].var) for load in nest.reads]
    return 1 in beside and 1 not in along


def _tile(nest: Nest, group: Group, packed: bool) -> tuple[tuple[str, int], ...]:
    """Points of a thread: four along the last axis, of a reduction also along another."""
    if not group.outer:
        return ()
    x = group.outer[-1]
    sizes = {x.var: GROUP if packed or x.extent >= GROUP else 1}
    if nest.reduce:
        reads = {load for store in nest.body for load in loads(store.value)}
        reads -= {load for load in reads if load.buffer in nest.written}
        shared = [
            a for a in group.outer[:-1] if any(a.var not in variables(load.index) for load in reads)
        ]
        if shared:
            y = max(shared, key=lambda a: min(a.extent, GROUP))
            sizes[y.var] = min(y.extent, GROUP)
    limits = [a.var for a in group.outer if a.var in sizes and not (packed and a is x)]
    for var in limits:
        while sizes[var] > 1 and points(group.outer) < _ENOUGH_THREADS * math.prod(sizes.values()):
            sizes[var] //= 2
    return tuple((var, size) for var, size in sizes.items() if size > 1)


def _with_rows(
    program: Program, groups: Sequence[Group], number: int, allowed: frozenset[str] | None
) -> Group:
    """Rows that only this group uses, moved to workgroup memory; None allows all."""
    group = groups[number]
    if group.team == 1 or group.threads != group.team:
        return group
    others = {b for i, g in enumerate(groups) if i != number for b in g.buffers}
    rows: dict[str, int] = {}
    for name in sorted({b for nest in group.nests for b in nest.written} - others):
        if program.buffer(name).role == "workspace" and (allowed is None or name in allowed):
            rows[name] = _row_size(group, name)
    if 4 * sum(rows.values()) > ROW_BYTES:
        return group
    values: dict[str, Expr] = {a.var: int32(0) for a in group.outer}
    moved = tuple(_with_indices(nest, set(rows), values) for nest in group.nests)
    return replace(group, nests=moved, local=tuple(rows.items()))


def _row_size(group: Group, name: str) -> int:
    size = 1
    for nest in group.nests:
        known = {a.var: (0, a.extent - 1) for a in (*nest.spatial, *nest.reduce)}
        known.update({loop.var: (0, loop.extent - 1) for loop in loops_in(nest.steps)})
        known.update({a.var: (0, 0) for a in group.outer})
        found = [s.index for s in nest.stores if s.buffer == name]
        found += [load.index for load in nest.reads if load.buffer == name]
        size = max([size, *(bounds_of(affine(index), known)[1] + 1 for index in found)])
    return size


def _with_indices(nest: Nest, buffers: set[str], values: dict[str, Expr]) -> Nest:
    """Indices into some buffers with variables replaced."""

    def visit(expr: Expr) -> Expr | None:
        if isinstance(expr, Load) and expr.buffer in buffers:
            return Load(expr.buffer, substitute(expr.index, values))
        return None

    def store(s: Store) -> Store:
        index = substitute(s.index, values) if s.buffer in buffers else rewrite(s.index, visit)
        return Store(s.buffer, index, rewrite(s.value, visit))

    body, init = (tuple(store(s) for s in stores) for stores in (nest.body, nest.init))
    steps = map_steps(nest.steps, lambda s, _: store(s), lambda e, _: rewrite(e, visit), {})
    return resolved(replace(nest, body=body, init=init, steps=steps))
