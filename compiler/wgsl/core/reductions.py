"""Reductions that the members of a team share: some elements each, then a tree or subgroups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnjit_studio.compiler.ir.rewrite import plus, substitute
from nnjit_studio.compiler.ir.tensor_ir import Axis, Expr
from nnjit_studio.compiler.wgsl.core.memory import GROUP, VALUE_TYPES
from nnjit_studio.compiler.wgsl.core.nests import Nest, points
from nnjit_studio.compiler.wgsl.core.points import Points
from nnjit_studio.compiler.wgsl.core.reduction_tree import Tree, neutral, renamed, tree_of
from nnjit_studio.compiler.wgsl.core.values import Block, convert

_SUBGROUP = {"add": "Add", "mul": "Mul", "min": "Min", "max": "Max"}


class Reductions(Points):
    """Points, and what teams do together."""

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
            start, apart = "member", self._turns(nest.reduce, size)
        else:
            self._decode(top, "member", axes, steps)
            names = self._accumulators(top, nest.body, tree.leaves)
            top.forget_points(a.var for a in nest.reduce)
            start = f"member + {team}"
            apart = [0]
        inside = Block(self.context, top)
        self._decode(inside, "q", axes, steps)
        unrolled = [
            {v: plus(e, a) for v, e in lane.items()} if a else lane
            for a in apart
            for lane in unrolled
        ]
        leaves = [[substitute(leaf, lane) for leaf in tree.leaves] for lane in unrolled]
        inside.expect(leaf for row in leaves for leaf in row)
        for leaf in tree.leaves:
            self._load_fours(inside, leaf, unrolled)
        for row in leaves:
            self._join(inside, tree, names, [inside.value(leaf) for leaf in row], row)
        top.dealt(start, count // size // len(apart), team, inside)
        totals = self._subgroup_totals(tree, names) or self._tree_totals(tree, names)
        first = {s.buffer: s.value for s in nest.init}
        whole = self._accumulators(top, nest.body, [first[s.buffer] for s in nest.body])
        self._join_names(top, tree, whole, totals)
        results = [(s, [name]) for s, name in zip(nest.body, whole, strict=True)]
        self._write(top, results, [{}], self._first_member())

    def _turns(self, axes: Sequence[Axis], size: int) -> list[int]:
        """Where a member's vectors of ``size`` lie behind its first one, if all loads can be under
        way together: few turns along one axis, as many for all members; else the first alone."""
        stride = size * self.group.team
        turns, rest = divmod(points(axes), stride)
        whole = len(axes) == 1 and size == GROUP and not rest and turns <= GROUP
        return [turn * stride for turn in range(turns)] if whole else [0]

    def _join(
        self,
        block: Block,
        tree: Tree,
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

    def _tree_totals(self, tree: Tree, names: Sequence[str]) -> list[str]:
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
