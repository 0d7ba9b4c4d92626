"""Code of one dispatch: the work of each thread, then nest after nest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

from nnjit_studio.compiler.ir.affine import loads, variables, walk
from nnjit_studio.compiler.ir.rewrite import plus
from nnjit_studio.compiler.ir.tensor_ir import Load, Var
from nnjit_studio.compiler.wgsl.core.document import Dispatch, Shader
from nnjit_studio.compiler.wgsl.core.functions import used_functions
from nnjit_studio.compiler.wgsl.core.groups import Group, is_packed
from nnjit_studio.compiler.wgsl.core.memory import GROUP, VALUE_TYPES
from nnjit_studio.compiler.wgsl.core.nests import Nest, points
from nnjit_studio.compiler.wgsl.core.points import Buffers, Found, Lane
from nnjit_studio.compiler.wgsl.core.reduction_tree import tree_of
from nnjit_studio.compiler.wgsl.core.team_steps import TeamSteps
from nnjit_studio.compiler.wgsl.core.values import Block, is_costly

LARGEST_GRID = 65535


def emit_group(
    buffers: Buffers, group: Group, needed: Iterable[str], subgroups: bool, folds: bool = False
) -> tuple[Dispatch, bool]:
    """The dispatch of a group, and whether it uses subgroups.

    Parameters
    ----------
    needed
        Buffers that later dispatches read; other workspaces need not be stored.
    folds
        Whether the code does for any number of workgroups, in rows of :data:`LARGEST_GRID` where
        there are more.
    """
    trial = _Emitter(buffers, group, None, frozenset(needed), subgroups)
    trial.folds = folds
    trial.run()
    context = trial.context
    found = Found(frozenset(context.grouped - context.scattered), frozenset(context.loaded))
    emitter = _Emitter(buffers, group, found, frozenset(needed), subgroups)
    emitter.folds = folds
    emitter.run()
    return emitter.dispatch(), emitter.uses_subgroups


class _Emitter(TeamSteps):
    """The whole shader."""

    folds = False

    @property
    def workgroups(self) -> int:
        group = self.group
        tile = dict(group.tile)
        count = math.prod(-(-a.extent // tile.get(a.var, 1)) for a in group.outer)
        return -(-count // (group.threads // group.team))

    def dispatch(self) -> Dispatch:
        """What :meth:`run` left, as a whole."""
        shader = Shader(("subgroups",) if self.uses_subgroups else ())
        program = self.buffers.program
        for b in program.buffers:
            if b.name in self.context.loaded | self.stored and b.name not in self.local:
                memory = self.context.memory[b.name]
                access = "read" if b.role == "input" else "read_write"
                shader.bind(memory.name, memory.name, f"array<{memory.element}>", access)
        for name, size in self.local.items():
            memory = self.context.memory[name]
            if name in self.context.loaded | self.stored:
                count = size // GROUP if memory.vectors else size
                shader.workgroup(memory.name, f"array<{memory.element}, {count}>")
        for name, type_ in self.arrays:
            shader.workgroup(name, f"array<{type_}, {self.group.threads}>")
        functions = used_functions("\n".join(self.top.lines))
        if functions:
            shader.line(functions.rstrip("\n"))
        groups = self.workgroups
        grid = (groups, 1, 1)
        if groups > LARGEST_GRID and not self.folds:
            grid = (LARGEST_GRID, -(-groups // LARGEST_GRID), 1)
        builtins = ", @builtin(subgroup_size) subgroup: u32" if self.uses_subgroups else ""
        return shader.dispatch(self.group.threads, grid, self.top.lines, builtins)

    def run(self) -> None:
        self.context.ranges.update({a.var: (0, a.extent - 1) for a in self.group.outer})
        self._ahead()
        if self.group.team == 1:
            self._single_threads()
        else:
            self._teams()

    def _ahead(self) -> None:
        """Numbers in registers of every thread, by the workgroup as one team; the first workgroup
        stores them."""
        outside, group = self.top, self.group
        if not group.ahead:
            return
        self.top = Block(self.context, outside)
        self.group = replace(group, outer=(), team=group.threads, across=False, nests=group.ahead)
        self.live = "all(wg == vec3<u32>())"
        self.top.lines.append("let member = i32(li);")
        for nest in group.ahead:
            if nest.init:
                self._reduce_together(nest)
            else:
                self._point(self.top, nest, [{}], self._first_member())
        for load in [Load(s.buffer, s.index) for nest in group.ahead for s in nest.body]:
            number, dtype = self.context.fresh("number"), self._dtype(load.buffer)
            outside.lines.append(f"var {number}: {VALUE_TYPES[dtype]};")
            self.top.lines.append(f"{number} = {self.top.known[load]};")
            outside.known[load] = number
        outside.inner("{", self.top)
        self.top, self.group, self.live = outside, group, ""

    def _workgroup(self) -> str:
        one = self.workgroups <= LARGEST_GRID and not self.folds
        return "wg.x" if one else f"(wg.y * {LARGEST_GRID}u + wg.x)"

    def _single_threads(self) -> None:
        tile = dict(self.group.tile)
        axes = [replace(a, extent=-(-a.extent // tile.get(a.var, 1))) for a in self.group.outer]
        self.top.lines += [
            f"let p = i32({self._workgroup()} * {self.group.threads}u + li);",
            f"if (p >= {points(axes)}) {{ return; }}",
        ]
        self._decode(self.top, "p", axes, tile)
        for nest in self.group.nests:
            if self.group.inner(nest):
                self._row(nest, "0")
            else:
                self._point(self.top, nest, self._tile_lanes(), [])

    def _teams(self) -> None:
        group, lines = self.group, self.top.lines
        teams, count = group.threads // group.team, points(group.outer)
        workgroup = self._workgroup()
        if teams == 1:
            lines += ["let member = i32(li);", f"let team = i32({workgroup});"]
        else:
            low, high = f"i32(li) % {teams if group.across else group.team}", "i32(li) / "
            high += f"{teams if group.across else group.team}"
            member, team = (high, low) if group.across else (low, high)
            lines += [f"let member = {member};", f"let team = i32({workgroup}) * {teams} + {team};"]
        whole = count % teams == 0 and self.workgroups <= LARGEST_GRID and not self.folds
        self.live = "" if whole else f"team < {count}"
        lines.append("let p = team;" if whole else f"let p = min(team, {count - 1});")
        self._decode(self.top, "p", group.outer, {})
        for number, nest in enumerate(group.nests):
            if nest.steps:
                self._steps_together(nest)
            elif group.inner(nest):
                self._row(nest, "member")
            elif nest.init and tree_of(nest) is not None:
                self._reduce_together(nest)
            else:
                self._point(self.top, nest, [{}], self._first_member())
            awaited = self._awaited(nest, group.nests[number + 1 :])
            if awaited - self.local.keys():
                self.top.lines.append("storageBarrier();")
            if awaited:
                self.top.lines.append("workgroupBarrier();")

    def _awaited(self, nest: Nest, later: Sequence[Nest]) -> set[str]:
        """Buffers that one member reads or writes before, and another after the other way."""
        loaded = self.found.loaded if self.found else self.group.buffers
        read = {load.buffer for load in nest.reads} & loaded
        read_later = {load.buffer for n in later for load in n.reads} & loaded
        return nest.written & read_later | read & {b for n in later for b in n.written}

    def _tile_lanes(self) -> list[Lane]:
        """The points of a thread's tile, the last axis fastest."""
        tile = dict(self.group.tile)
        names = [a.var for a in self.group.outer if a.var in tile]
        return [
            {v: plus(Var(v), i) for v, i in zip(names, at, strict=True)}
            for at in product(*(range(tile[v]) for v in names))
        ]

    def _row(self, nest: Nest, member: str) -> None:
        """The inner points of a nest, dealt out to the members of a team."""
        inner, team = self.group.inner(nest), self.group.team
        axis, count = inner[-1], points(inner)
        plain = self.buffers.plain | self.local.keys()
        packed = any(is_packed(self.buffers.program, s.buffer, plain) for s in nest.stores)
        by_four = packed or (
            not nest.init and not nest.steps and axis.extent % GROUP == 0 and count >= 2 * team
        )
        size = GROUP if by_four else 1
        apart = self._turns(inner, size) if by_four and member == "member" else [0]
        lanes = [{axis.var: plus(Var(axis.var), a + i)} for a in apart for i in range(size)]
        axes = [*inner[:-1], replace(axis, extent=axis.extent // size)]
        self.top.forget(nest.written)
        self._hoist(nest)
        block = Block(self.context, self.top)
        self.context.ranges.update({a.var: (0, a.extent - 1) for a in inner})
        self._decode(block, "q", axes, {axis.var: size})
        self._point(block, nest, lanes if by_four else [{}], [self.live] if self.live else [])
        self.top.dealt(member, count // len(lanes), team, block)
        self.top.forget(nest.written)

    def _hoist(self, nest: Nest) -> None:
        """What is the same for a whole row and takes long is computed once."""
        known = {a.var for a in self.group.outer}
        for store in nest.body:
            for expr in walk(store.value):
                fixed = variables(expr) <= known and is_costly(expr)
                if fixed and not any(x.buffer in nest.written for x in loads(expr)):
                    name = self.top.value(expr)
                    if not name.isidentifier():
                        name = self.top.let(name)
                    self.top.known[expr] = name
