"""Points of a nest as WGSL: their values, lanes side by side, stores, and loops of one thread."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nnjit_studio.compiler.ir.affine import loads, rewrite
from nnjit_studio.compiler.ir.rewrite import plus, replace_loads, substitute
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Buffer,
    Const,
    Expr,
    If,
    Load,
    Loop,
    Program,
    Statement,
    Store,
    Var,
    stores_in,
)
from nnjit_studio.compiler.wgsl.core.groups import Group
from nnjit_studio.compiler.wgsl.core.memory import GROUP, VALUE_TYPES, Memory
from nnjit_studio.compiler.wgsl.core.nests import Nest, aligned, points
from nnjit_studio.compiler.wgsl.core.values import Block, Context, identifier

_UNROLLED = 64  # products that the body of a loop may hold

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
class Found:
    """What a trial shows: buffers to declare as vectors, and those that are read from memory."""

    vectors: frozenset[str]
    loaded: frozenset[str]


class Points:
    """What a shader says of points, nest after nest, into the block ``top``."""

    def __init__(
        self,
        buffers: Buffers,
        group: Group,
        found: Found | None,
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
        memory = {b.name: self._memory_of(b) for b in buffers.program.buffers}
        self.may_be_vectors = {
            name
            for name, one in memory.items()
            if one.may_be_vectors
            and self._size(name) % GROUP == 0
            and (found is None or name in found.vectors)
        }
        if found:
            memory |= {n: replace(memory[n], vectors=True) for n in self.may_be_vectors}
        self.context = Context(memory)
        self.top = Block(self.context)

    def _memory_of(self, b: Buffer) -> Memory:
        if b.name in self.local:
            return Memory(f"row{list(self.local).index(b.name)}", b.dtype, True)
        name, plain = self.buffers.names[b.name], b.name in self.buffers.plain
        return Memory(name, b.dtype, plain, single=not b.shape)

    def _size(self, name: str) -> int:
        return self.local.get(name) or math.prod(self.buffers.program.buffer(name).shape)

    def _dtype(self, buffer: str) -> str:
        return self.context.memory[buffer].dtype

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
            else:
                self._nested(block, step, self._steps)

    def _nested(
        self,
        block: Block,
        step: Loop | If,
        steps: Callable[[Block, Sequence[Statement]], None],
    ) -> None:
        """A loop or a condition; ``steps`` writes the statements inside."""
        if isinstance(step, Loop):
            inside = Block(self.context, block)
            inside.forget({s.buffer for s in stores_in(step.body)})
            self.context.ranges[step.var] = (0, step.extent - 1)
            steps(inside, step.body)
            block.inner(loop_head(step.var, step.extent), inside)
            return
        condition = block.typed(step.condition, "bool")
        for head, body in ((condition, step.then), (f"!({condition})", step.otherwise)):
            if body:
                inside = Block(self.context, block)
                steps(inside, body)
                block.inner(f"if ({head}) {{", inside)

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
            head = loop_head(axis.var, axis.extent, len(unrolled) if axis is nest.reduce[-1] else 1)
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


def _without(expr: Expr, buffers: set[str]) -> Expr:
    """The expression without loads of these buffers."""
    return rewrite(
        expr, lambda e: Const(0, "f32") if isinstance(e, Load) and e.buffer in buffers else None
    )


def loop_head(var: str, extent: int, step: int = 1) -> str:
    name = identifier(var)
    return f"for (var {name} = 0; {name} < {extent}; {name} += {step}) {{"
