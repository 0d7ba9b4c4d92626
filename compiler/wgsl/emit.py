"""A group of nests as one dispatch: which thread does what, then nest after nest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from nnjit_studio.compiler.affine import loads, rewrite, variables, walk
from nnjit_studio.compiler.schedule.rewrite import (
    plus,
    replace_loads,
    substitute,
)
from nnjit_studio.compiler.tensor_ir import (
    Axis,
    Const,
    Expr,
    Load,
    Loop,
    Program,
    Statement,
    Store,
    Var,
    stores_in,
)
from nnjit_studio.compiler.wgsl.document import Dispatch
from nnjit_studio.compiler.wgsl.functions import used_functions
from nnjit_studio.compiler.wgsl.groups import Group, is_packed
from nnjit_studio.compiler.wgsl.memory import GROUP, VALUE_TYPES, Memory
from nnjit_studio.compiler.wgsl.nests import Nest, aligned, points
from nnjit_studio.compiler.wgsl.shader import Shader
from nnjit_studio.compiler.wgsl.tree import Tree, neutral, renamed, tree_of
from nnjit_studio.compiler.wgsl.values import Block, Context, convert, identifier, is_costly

LARGEST_GRID = 65535
_UNROLLED = 64  # products that the body of a loop may hold
_SUBGROUP = {"add": "Add", "mul": "Mul", "min": "Min", "max": "Max"}

Lane = dict[str, Expr]
Results = list[tuple[Store, list[str]]]
"""Values of stores, one for each lane."""


@dataclass(frozen=True)
class Buffers:
    """A program's buffers: ``names`` in the document, and those with a word for each element."""

    program: Program
    names: dict[str, str]
    plain: frozenset[str]


@dataclass(frozen=True)
class _Found:
    """What a trial shows: buffers to declare as vectors, and those that are read from memory."""

    vectors: frozenset[str]
    loaded: frozenset[str]


def emit_group(
    buffers: Buffers, group: Group, needed: Iterable[str], subgroups: bool
) -> tuple[Dispatch, bool]:
    """The dispatch of a group, and whether it uses subgroups.

    Parameters
    ----------
    needed
        Buffers that later dispatches read; other workspaces need not be stored.
    """
    trial = _Emitter(buffers, group, None, frozenset(needed), subgroups)
    trial.run()
    context = trial.context
    found = _Found(frozenset(context.grouped - context.scattered), frozenset(context.loaded))
    emitter = _Emitter(buffers, group, found, frozenset(needed), subgroups)
    emitter.run()
    return emitter.dispatch(), emitter.uses_subgroups


class _Emitter:
    def __init__(
        self,
        buffers: Buffers,
        group: Group,
        found: _Found | None,
        needed: frozenset[str],
        subgroups: bool,
    ) -> None:
        self.buffers, self.group, self.found = buffers, group, found
        self.kept = needed | {b.name for b in buffers.program.buffers if b.role == "output"}
        if found:
            self.kept |= found.loaded
        self.subgroups = subgroups
        self.uses_subgroups = False
        self.local = dict(group.local)
        self.arrays: list[tuple[str, str]] = []
        self.stored: set[str] = set()
        self.live = ""
        memory = {}
        for b in buffers.program.buffers:
            if b.name in self.local:
                one = Memory(f"row{list(self.local).index(b.name)}", b.dtype, True)
            else:
                one = Memory(buffers.names[b.name], b.dtype, b.name in buffers.plain)
            whole = one.may_be_vectors and self._size(b.name) % GROUP == 0
            wanted = found is None or b.name in found.vectors
            memory[b.name] = replace(one, vectors=whole and wanted and one.packed == 1)
        if found is None:
            self.may_be_vectors = {n for n, m in memory.items() if m.vectors}
            memory = {n: replace(m, vectors=False) for n, m in memory.items()}
        else:
            self.may_be_vectors = {n for n, m in memory.items() if m.vectors}
        self.context = Context(memory)
        self.top = Block(self.context)

    def _size(self, name: str) -> int:
        return self.local.get(name) or math.prod(self.buffers.program.buffer(name).shape)

    def _dtype(self, buffer: str) -> str:
        return self.context.memory[buffer].dtype

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
        if groups > LARGEST_GRID:
            grid = (LARGEST_GRID, -(-groups // LARGEST_GRID), 1)
        builtins = ", @builtin(subgroup_size) subgroup: u32" if self.uses_subgroups else ""
        return shader.dispatch(self.group.threads, grid, self.top.lines, builtins)

    # Which thread does what.

    def run(self) -> None:
        self.context.ranges.update({a.var: (0, a.extent - 1) for a in self.group.outer})
        if self.group.team == 1:
            self._single_threads()
        else:
            self._teams()

    def _workgroup(self) -> str:
        return "wg.x" if self.workgroups <= LARGEST_GRID else f"(wg.y * {LARGEST_GRID}u + wg.x)"

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
        whole = count % teams == 0 and self.workgroups <= LARGEST_GRID
        self.live = "" if whole else f"team < {count}"
        lines.append("let p = team;" if whole else f"let p = min(team, {count - 1});")
        self._decode(self.top, "p", group.outer, {})
        for number, nest in enumerate(group.nests):
            if group.inner(nest):
                self._row(nest, "member")
            elif nest.init and tree_of(nest) is not None:
                self._reduce_together(nest)
            else:
                self._point(self.top, nest, [{}], self._first_member())
            later = {load.buffer for n in group.nests[number + 1 :] for load in n.reads}
            if self.found:
                later &= self.found.loaded
            awaited = nest.written & later
            if awaited - self.local.keys():
                self.top.lines.append("storageBarrier();")
            if awaited:
                self.top.lines.append("workgroupBarrier();")

    def _first_member(self) -> list[str]:
        return [*([self.live] if self.live else []), "member == 0"]

    def _decode(self, block: Block, index: str, axes: Sequence[Axis], step: dict[str, int]) -> None:
        """Loop variables from their common number; some count in steps."""
        inner = points(axes)
        for i, axis in enumerate(axes):
            inner //= axis.extent
            value = f"{index} / {inner}" if inner > 1 else index
            if axis.extent == 1:
                value = "0"
            elif i > 0:
                value = f"({value}) % {axis.extent}"
            size = step.get(axis.var, 1)
            value = f"({value}) * {size}" if size > 1 else value
            block.lines.append(f"let {identifier(axis.var)} = {value};")

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
        program, plain = self.buffers.program, self.buffers.plain - self.local.keys()
        packed = any(is_packed(program, s.buffer, plain | self.local.keys()) for s in nest.stores)
        by_four = packed or (
            not nest.init and not nest.steps and axis.extent % GROUP == 0 and count >= 2 * team
        )
        size = GROUP if by_four else 1
        lanes = [{axis.var: plus(Var(axis.var), i)} for i in range(size)]
        axes = [*inner[:-1], replace(axis, extent=axis.extent // size)]
        self.top.forget(nest.written)
        self._hoist(nest)
        block = Block(self.context, self.top)
        self.context.ranges.update({a.var: (0, a.extent - 1) for a in inner})
        self._decode(block, "q", axes, {axis.var: size})
        self._point(block, nest, lanes if by_four else [{}], [self.live] if self.live else [])
        head = f"for (var q = {member}; q < {count // size}; q += {team}) {{"
        self.top.inner(head, block)
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

    # Points.

    def _point(
        self, block: Block, nest: Nest, lanes: Sequence[Lane], guards: Sequence[str]
    ) -> None:
        """One point of a nest, or several that differ by their lane."""
        if nest.steps:
            inside = Block(self.context, block)
            inside.forget(nest.written)
            inside.expect(())
            self._steps(inside, nest.steps)
            block.inner(f"if ({' && '.join(guards)}) {{" if guards else "{", inside)
        elif nest.init:
            self._write(block, self._reduced(block, nest, lanes), lanes, guards)
        else:
            values = [substitute(s.value, lane) for s in nest.body for lane in lanes]
            block.expect(values)
            for store in nest.body:
                self._load_fours(block, store.value, lanes)
            results = [
                (s, [block.typed(substitute(s.value, a), self._dtype(s.buffer)) for a in lanes])
                for s in nest.body
            ]
            self._write(block, results, lanes, guards)

    def _load_fours(self, block: Block, value: Expr, lanes: Sequence[Lane]) -> None:
        """Loads of four neighbours at once, where the lanes stand side by side in fours."""
        if len(lanes) % GROUP:
            return
        var = list(lanes[0])[-1]
        if lanes[1][var] != plus(lanes[0][var], 1):
            return
        for load in loads(value):
            if not self._in_fours(load.buffer, load.index, var):
                continue
            for first in range(0, len(lanes), GROUP):
                four = [substitute(load, lane) for lane in lanes[first : first + GROUP]]
                if four[0] in block.known:
                    continue
                assert isinstance(four[0], Load)
                index = block.let(block.index(four[0].index))
                fresh = self.context.fresh("w")
                lines, values = self.context.memory[load.buffer].load_group(index, fresh)
                block.lines += lines
                block.known.update(zip(four, values, strict=True))
                self.context.grouped.add(load.buffer)
                self.context.loaded.add(load.buffer)

    def _in_fours(self, buffer: str, index: Expr, var: str) -> bool:
        memory = self.context.memory[buffer]
        ready = memory.packed > 1 or buffer in self.may_be_vectors
        return ready and aligned(index, var, GROUP)

    def _write(
        self, block: Block, results: Results, lanes: Sequence[Lane], guards: Sequence[str]
    ) -> None:
        """Store the values of all lanes; who reads them again finds them in registers."""
        read = {load.buffer for nest in self.group.nests for load in nest.reads}
        out = Block(self.context, block)
        for store, values in results:
            if store.buffer in read:
                values[:] = [v if v.isidentifier() else block.let(v) for v in values]
        for store, values in results:
            if self.found is None or store.buffer in self.kept:
                self._write_one(out, store, values, lanes)
        if out.lines and guards:
            block.inner(f"if ({' && '.join(guards)}) {{", out)
        else:
            block.lines += out.lines
        block.forget({store.buffer for store, _ in results})
        for store, values in results:
            for lane, value in zip(lanes, values, strict=True):
                block.known[Load(store.buffer, substitute(store.index, lane))] = value

    def _write_one(
        self, block: Block, store: Store, values: Sequence[str], lanes: Sequence[Lane]
    ) -> None:
        self.stored.add(store.buffer)
        memory = self.context.memory[store.buffer]
        var = list(lanes[0])[-1] if lanes[0] else ""
        fours = (
            len(lanes) % GROUP == 0
            and lanes[1][var] == plus(lanes[0][var], 1)
            and self._in_fours(store.buffer, store.index, var)
            and (memory.packed > 1 or not self._ends(lanes[GROUP - 1], var))
        )
        if not fours:
            self.context.scattered.add(store.buffer)
        for first in range(0, len(lanes), GROUP if fours else 1):
            lane = lanes[first]
            guards = [g for v in lane for g in self._ends(lane, v)]
            index = block.let(block.index(substitute(store.index, lane)))
            if fours:
                self.context.grouped.add(store.buffer)
                lines = memory.store_group(index, values[first : first + GROUP])
                size = self._size(store.buffer)
                if len(lines) > 1 and 0 < size % GROUP < 3:
                    # What is written behind the end may land on the last word.
                    lines[1] = f"if ({index} + 2 < {size}) {{ {lines[1]} }}"
            elif self.found is None:
                lines = []  # how single elements are stored is only known after the trial
            else:
                lines = [memory.store(index, values[first])]
            if guards:
                lines = [f"if ({' && '.join(guards)}) {{", *(f"  {x}" for x in lines), "}"]
            block.lines += lines

    def _ends(self, lane: Lane, var: str) -> list[str]:
        """The condition under which a lane is inside the axis, where that is not certain."""
        extent = next((a.extent for a in self.group.outer if a.var == var), 0)
        size = dict(self.group.tile).get(var, 1)
        if extent % size == 0 or lane[var] == Var(var):
            return []
        return [f"{self.top.index(lane[var])} < {extent}"]

    def _steps(self, block: Block, steps: Sequence[Statement]) -> None:
        """Statements in their order, by one thread."""
        for step in steps:
            if isinstance(step, Store):
                memory = self.context.memory[step.buffer]
                value = block.typed(step.value, memory.dtype)
                index = block.index(step.index)
                self.stored.add(step.buffer)
                self.context.scattered.add(step.buffer)
                block.lines.append("" if self.found is None else memory.store(index, value))
                block.forget({step.buffer})
            elif isinstance(step, Loop):
                inside = Block(self.context, block)
                inside.forget({s.buffer for s in stores_in(step.body)})
                self.context.ranges[step.var] = (0, step.extent - 1)
                self._steps(inside, step.body)
                block.inner(_loop(step.var, step.extent), inside)
            else:
                condition = block.typed(step.condition, "bool")
                for head, body in ((condition, step.then), (f"!({condition})", step.otherwise)):
                    if body:
                        inside = Block(self.context, block)
                        self._steps(inside, body)
                        block.inner(f"if ({head}) {{", inside)

    # Reductions.

    def _accumulators(
        self, block: Block, stores: Sequence[Store], values: Sequence[Expr]
    ) -> list[str]:
        names = []
        for store, value in zip(stores, values, strict=True):
            dtype = self._dtype(store.buffer)
            name = self.context.fresh("sum")
            text = block.typed(value, dtype)
            block.lines.append(f"var {name}: {VALUE_TYPES[dtype]} = {text};")
            self.context.locals[name] = "f32" if dtype == "f16" else dtype
            names.append(name)
        return names

    def _reduced(self, block: Block, nest: Nest, lanes: Sequence[Lane]) -> Results:
        """The whole reduction by one thread, its results in variables."""
        first = {s.buffer: s.value for s in nest.init}
        sums: list[list[str]] = []
        for lane in lanes:
            values = [substitute(first[s.buffer], lane) for s in nest.body]
            sums.append(self._accumulators(block, nest.body, values))
        inside = Block(self.context, block)
        self.context.ranges.update({a.var: (0, a.extent - 1) for a in nest.reduce})
        parts = [s.value for s in nest.body]
        unrolled = self._unrolled(nest.reduce, parts, len(lanes))
        body = []
        for steps in unrolled:
            for lane, names in zip(lanes, sums, strict=True):
                at = {**lane, **steps}
                own = {
                    (s.buffer, substitute(s.index, at)): Var(n)
                    for s, n in zip(nest.body, names, strict=True)
                }
                values = [replace_loads(substitute(part, at), dict(own)) for part in parts]
                body.append((names, values))
        inside.expect(value for _, values in body for value in values)
        for part in parts:
            part = _without(part, nest.written)
            if len(unrolled) > 1:
                for lane in lanes:
                    self._load_fours(inside, substitute(part, lane), unrolled)
            for steps in unrolled:
                self._load_fours(inside, substitute(part, steps), lanes)
        for names, values in body:
            self._assign(inside, names, values)
        lines = inside.lines
        for axis in reversed(nest.reduce):
            head = _loop(axis.var, axis.extent, len(unrolled) if axis is nest.reduce[-1] else 1)
            lines = [head, *(f"  {line}" for line in lines), "}"]
        block.lines += lines
        return [(s, [names[i] for names in sums]) for i, s in enumerate(nest.body)]

    def _unrolled(self, axes: Sequence[Axis], values: Sequence[Expr], lanes: int) -> list[Lane]:
        """Steps of the innermost loop done at once: four where that makes loads of four."""
        if not axes or axes[-1].extent % GROUP or lanes * GROUP > _UNROLLED:
            return [{}]
        var = axes[-1].var
        if not any(self._in_fours(x.buffer, x.index, var) for v in values for x in loads(v)):
            return [{}]
        return [{var: plus(Var(var), i)} for i in range(GROUP)]

    def _assign(self, block: Block, names: Sequence[str], values: Sequence[Expr]) -> None:
        """New values of accumulators, all computed before the first is set."""
        dtypes = [self.context.locals[name] for name in names]
        texts = [block.typed(v, d) for v, d in zip(values, dtypes, strict=True)]
        if len(names) > 1:
            texts = [block.let(text) for text in texts]
        block.lines += [f"{name} = {text};" for name, text in zip(names, texts, strict=True)]

    def _reduce_together(self, nest: Nest) -> None:
        """A reduction by all members of a team: everyone some elements, then a tree."""
        tree = tree_of(nest)
        assert tree is not None
        top, count, team = self.top, points(nest.reduce), self.group.team
        if not tree.ops and count < team:
            self._point(top, nest, [{}], self._first_member())
            return
        self.context.ranges.update({a.var: (0, a.extent - 1) for a in nest.reduce})
        unrolled = self._unrolled(nest.reduce, tree.leaves, 1)
        if not tree.ops or count < len(unrolled) * team:
            unrolled = [{}]
        size = len(unrolled)
        axes = [*nest.reduce[:-1], *(replace(a, extent=a.extent // size) for a in nest.reduce[-1:])]
        steps = {a.var: size for a in nest.reduce[-1:]}
        if tree.ops:
            neutrals = [
                neutral(op, self.context.dtype(leaf))
                for op, leaf in zip(tree.ops, tree.leaves, strict=True)
            ]
            names = self._accumulators(top, nest.body, neutrals)
            start = "member"
        else:
            self._decode(top, "member", axes, steps)
            names = self._accumulators(top, nest.body, tree.leaves)
            top.forget({load.buffer for leaf in tree.leaves for load in loads(leaf)})
            start = f"member + {team}"
        inside = Block(self.context, top)
        self._decode(inside, "q", axes, steps)
        leaves = [[substitute(leaf, lane) for leaf in tree.leaves] for lane in unrolled]
        inside.expect(leaf for row in leaves for leaf in row)
        for leaf in tree.leaves:
            self._load_fours(inside, leaf, unrolled)
        for row in leaves:
            self._join(inside, tree, nest.body, names, [inside.value(leaf) for leaf in row], row)
        top.inner(f"for (var q = {start}; q < {count // size}; q += {team}) {{", inside)
        totals = self._subgroup_totals(tree, names) or self._tree_totals(tree, nest.body, names)
        first = {s.buffer: s.value for s in nest.init}
        whole = self._accumulators(top, nest.body, [first[s.buffer] for s in nest.body])
        self._join_names(top, tree, whole, totals)
        self._write(
            top, [(s, [n]) for s, n in zip(nest.body, whole, strict=True)], [{}],
            self._first_member(),
        )  # fmt: skip

    def _join(
        self,
        block: Block,
        tree: Tree,
        stores: Sequence[Store],
        names: Sequence[str],
        values: Sequence[str],
        leaves: Sequence[Expr],
    ) -> None:
        """Take new elements into accumulators."""
        others = []
        for name, value, leaf in zip(names, values, leaves, strict=True):
            dtype = self.context.locals[name]
            other = block.let(convert(value, self.context.dtype(leaf), dtype))
            self.context.locals[other] = dtype
            others.append(other)
        self._join_names(block, tree, names, others)

    def _join_names(
        self, block: Block, tree: Tree, names: Sequence[str], others: Sequence[str]
    ) -> None:
        self._assign(block, names, renamed(tree.joined, names, others))

    def _tree_totals(self, tree: Tree, stores: Sequence[Store], names: Sequence[str]) -> list[str]:
        """The sum of a team in every member, by halves over workgroup memory."""
        top, group = self.top, self.group
        beside = group.threads // group.team if group.across else 1
        arrays = []
        for name in names:
            type_ = "f32" if self.context.locals[name] == "f32" else "i32"
            arrays.append((f"part{len(self.arrays)}", type_))
            self.arrays.append(arrays[-1])
            value = convert(name, self.context.locals[name], type_)
            top.lines.append(f"{arrays[-1][0]}[li] = {value};")
        top.lines.append("workgroupBarrier();")
        half = Block(self.context, top)
        partner = half.let(f"li + u32(s * {beside})" if beside > 1 else "li + u32(s)")
        others = self._read_parts(half, arrays, names, partner)
        self._join_names(half, tree, names, others)
        for (array, type_), name in zip(arrays, names, strict=True):
            half.lines.append(f"{array}[li] = {convert(name, self.context.locals[name], type_)};")
        loop = Block(self.context, top)
        loop.inner("if (member < s) {", half)
        loop.lines.append("workgroupBarrier();")
        top.inner(f"for (var s = {group.team // 2}; s > 0; s = s >> 1u) {{", loop)
        teams = group.threads // group.team
        base = "0u" if teams == 1 else top.let(f"li - u32(member * {beside})")
        return self._read_parts(top, arrays, names, base)

    def _read_parts(
        self, block: Block, arrays: Sequence[tuple[str, str]], names: Sequence[str], index: str
    ) -> list[str]:
        read = []
        for (array, type_), name in zip(arrays, names, strict=True):
            dtype = self.context.locals[name]
            read.append(block.let(convert(f"{array}[{index}]", type_, dtype)))
            self.context.locals[read[-1]] = dtype
        return read

    def _subgroup_totals(self, tree: Tree, names: Sequence[str]) -> list[str]:
        """The same with subgroup operations, where a team is the workgroup; else nothing.

        Subgroups may have 4 to 128 threads, and the workgroup may be smaller than
        one. Their sums lie in workgroup memory in order of their first threads.
        """
        group, top = self.group, self.top
        dtypes = [self.context.locals[name] for name in names]
        if not self.subgroups or not tree.ops or group.team != group.threads or "bool" in dtypes:
            return []
        self.uses_subgroups = True
        first = top.let("subgroupMin(li)")
        arrays = []
        for op, name, dtype in zip(tree.ops, names, dtypes, strict=True):
            total = top.let(f"subgroup{_SUBGROUP[op]}({name})")
            if dtype == "f32" and op in ("min", "max"):
                # What these make of a NaN is not defined.
                total = top.let(f"select({total}, nan(), subgroupAny(is_nan({name})))")
            arrays.append((f"part{len(self.arrays)}", VALUE_TYPES[dtype]))
            self.arrays.append(arrays[-1])
            top.lines.append(
                f"if (li == {first}) {{ {arrays[-1][0]}[{first} / subgroup] = {total}; }}"
            )
        top.lines.append("workgroupBarrier();")
        starts = []
        for op, dtype in zip(tree.ops, dtypes, strict=True):
            start = self.context.fresh("sum")
            self.context.locals[start] = dtype
            text = top.typed(neutral(op, dtype), dtype)
            top.lines.append(f"var {start}: {VALUE_TYPES[dtype]} = {text};")
            starts.append(start)
        inside = Block(self.context, top)
        others = self._read_parts(inside, arrays, names, "i")
        self._join_names(inside, tree, starts, others)
        count = f"({group.threads}u + subgroup - 1u) / subgroup"
        top.inner(f"for (var i = 0u; i < {count}; i++) {{", inside)
        return starts


def _without(expr: Expr, buffers: set[str]) -> Expr:
    """The expression without loads of these buffers."""
    return rewrite(
        expr, lambda e: Const(0, "f32") if isinstance(e, Load) and e.buffer in buffers else None
    )


def _loop(var: str, extent: int, step: int = 1) -> str:
    name = identifier(var)
    return f"for (var {name} = 0; {name} < {extent}; {name} += {step}) {{"
