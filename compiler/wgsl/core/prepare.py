"""Preparation of a program for WGSL: a place for every result that threads can write.

Three rewrites. A workspace that the plan lays over an output *is* that output,
because WebGPU lets no two writable bindings overlap. A stage of more buffers
than a dispatch may bind becomes several: of a choice (a long concatenation) one
for each, of another value first a part of it, into scratch. And results that
share words (f16, bytes, flags) where no thread would own whole words first go
to scratch, a word for each element; a last stage packs them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from nnjit_studio.compiler.ir.affine import loads, rewrite, variables, walk
from nnjit_studio.compiler.ir.dtypes import BYTES, dtype_of
from nnjit_studio.compiler.ir.in_place import in_place
from nnjit_studio.compiler.ir.rewrite import int32, times
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Buffer,
    Call,
    Expr,
    If,
    Load,
    Loop,
    Program,
    Select,
    Stage,
    Statement,
    Store,
    Var,
)
from nnjit_studio.compiler.recognize.quantised import without_vectors
from nnjit_studio.compiler.wgsl.core.groups import (
    MAX_BUFFERS,
    flattened,
    groups_of,
    is_packed,
    whole_words,
)
from nnjit_studio.compiler.wgsl.core.nests import collapsed, is_row_major, tidy
from nnjit_studio.errors import CompileError

SCRATCH = "scratch"
"""The role of buffers that only the document knows."""


@dataclass(frozen=True)
class Prepared:
    """A program whose every stage fits a dispatch."""

    program: Program
    names: dict[str, str]
    """Of all buffers in the document."""
    plain: frozenset[str]
    """Buffers with a word for each element."""


def prepare(program: Program, rows: frozenset[str] | None = None) -> Prepared:
    """The program to plan loops for.

    Parameters
    ----------
    rows
        Workspaces that may live in workgroup memory; None for all.

    Raises
    ------
    CompileError
        When a stage needs more buffers than a dispatch may bind.
    """
    names = {b.name: f"a{i}" for i, b in enumerate(program.buffers)}
    if any(b.dtype in BYTES for b in program.buffers):
        program = without_vectors(program)  # else a dispatch each
    shared = in_place(program)
    if shared:
        # Rows in workgroup memory are not bound, so they may stay what they are.
        groups = groups_of(program, frozenset(b.name for b in program.buffers))
        local = {name for group in groups for name, _ in group.local}
        local = local if rows is None else local & rows
        shared = {name: output for name, output in shared.items() if name not in local}
    # A binding has one dtype: a sum of integers keeps room of its own where its result is float32.
    dtypes = {b.name: b.dtype for b in program.buffers}
    apart = {name for name, output in shared.items() if dtypes[name] != dtypes[output]}
    own = {name: f"{name}.own" for name in apart}
    found = _renamed(program, shared | own)
    made = (replace(program.buffer(name), name=to, role=SCRATCH) for name, to in own.items())
    splitter = _Splitter(program, list(made))
    stages = tuple(s for stage in found.stages for s in splitter.split(stage))
    found = Program(program.name, (*program.buffers, *splitter.made), stages)
    plain = frozenset(b.name for b in splitter.made)
    torn = _torn(found, plain)
    widened = _renamed(found, {name: f"{name}.words" for name in torn})
    scratch = [*splitter.made]
    for name in torn:
        buffer = program.buffer(name)
        scratch.append(replace(buffer, name=f"{name}.words", role=SCRATCH, constant=False))
    names |= {b.name: f"s{i}" for i, b in enumerate(scratch)}
    packing = tuple(_packing(program.buffer(n)) for n in torn if program.buffer(n).role == "output")
    whole = Program(program.name, (*program.buffers, *scratch), (*widened.stages, *packing))
    return Prepared(whole, names, frozenset(b.name for b in scratch))


def _torn(program: Program, plain: frozenset[str]) -> list[str]:
    """Packed buffers whose words several threads would have to write, in parameter order."""
    torn: set[str] = set()
    for stage in program.stages:
        nest = tidy(stage)
        packed = {s.buffer for s in nest.stores if is_packed(program, s.buffer, plain)}
        if not packed:
            continue
        (alone,) = collapsed([nest], "spatial")
        if whole_words(program, alone, (), plain):
            continue
        flat = not nest.steps and all(is_row_major(alone, s.index) for s in alone.stores)
        if not (flat and alone.spatial and whole_words(program, flattened(alone), (), plain)):
            torn |= packed
    return [b.name for b in program.buffers if b.name in torn]


def _packing(buffer: Buffer) -> Stage:
    axis = Axis("element", math.prod(buffer.shape))
    store = Store(buffer.name, Var(axis.var), Load(f"{buffer.name}.words", Var(axis.var)))
    return Stage(f"{buffer.name}.packed", (axis,), (store,))


@dataclass
class _Splitter:
    """Stages that bind more buffers than a dispatch may, in parts; ``made`` holds the values
    that one part leaves for another.
    """

    program: Program
    made: list[Buffer] = field(default_factory=list)

    def split(self, stage: Stage) -> Iterator[Stage]:
        """The stage, or stages that together do the same."""
        if _fits(stage):
            yield stage
        elif stage.steps or len(stage.body) != 1:
            raise _too_many(stage)
        elif isinstance(stage.body[0].value, Select) and not stage.init:
            yield from self._choices(stage, stage.body[0].value, ())
        else:
            yield from self._parts(stage)

    def _choices(self, stage: Stage, value: Expr, conditions: tuple[Expr, ...]) -> Iterator[Stage]:
        """Stages that store ``value`` where the conditions hold, as many choices as fit in each."""
        made = _guarded(stage, replace(stage.body[0], value=value), conditions)
        if _fits(made):
            yield made
        elif isinstance(value, Select):
            yield from self._choices(stage, value.then, (*conditions, value.condition))
            other = Call("not", (value.condition,))
            yield from self._choices(stage, value.otherwise, (*conditions, other))
        else:
            raise _too_many(stage)

    def _parts(self, stage: Stage) -> Iterator[Stage]:
        """The part of the value that needs the most buffers goes to scratch first."""
        (store,) = stage.body
        parts = [(len(_buffers(e)), e) for e in walk(store.value) if not _reads(e, store.buffer)]
        fitting = [(count, e) for count, e in parts if 1 < count < MAX_BUFFERS]
        if not fitting:
            raise _too_many(stage)
        part = max(fitting, key=lambda item: item[0])[1]
        dtypes = {b.name: b.dtype for b in (*self.program.buffers, *self.made)}
        needed = variables(part)
        axes = tuple(replace(a, kind="spatial") for a in stage.axes if a.var in needed)
        name = f"{stage.name}.part{len(self.made)}"
        extents = tuple(a.extent for a in axes)
        self.made.append(Buffer(name, dtype_of(part, dtypes, {}), extents, SCRATCH))
        index: Expr = int32(0)
        for axis in axes:
            index = times(index, axis.extent) + Var(axis.var)
        yield Stage(name, axes, (Store(name, index, part),))
        rest = rewrite(store.value, lambda e: Load(name, index) if e == part else None)
        yield from self.split(replace(stage, body=(replace(store, value=rest),)))


def _fits(stage: Stage) -> bool:
    return len(tidy(stage).buffers) <= MAX_BUFFERS


def _buffers(expr: Expr) -> set[str]:
    return {load.buffer for load in loads(expr)}


def _reads(expr: Expr, buffer: str) -> bool:
    return buffer in _buffers(expr)


def _guarded(stage: Stage, store: Store, conditions: tuple[Expr, ...]) -> Stage:
    steps: tuple[Statement, ...] = (store,)
    for condition in reversed(conditions):
        steps = (If(condition, steps),)
    return replace(stage, body=(), steps=steps)


def _too_many(stage: Stage) -> CompileError:
    return CompileError(
        f"Stage {stage.name} needs more than {MAX_BUFFERS} buffers at once, "
        "which is all that WebGPU grants by default.",
        "Use the Wasm backend for this model, or split the operator.",
    )


def _renamed(program: Program, names: dict[str, str]) -> Program:
    """The stages on other buffers."""
    if not names:
        return program

    def visit(expr: Expr) -> Expr | None:
        if isinstance(expr, Load) and expr.buffer in names:
            return Load(names[expr.buffer], rewrite(expr.index, visit))
        return None

    def store(s: Store) -> Store:
        index, value = rewrite(s.index, visit), rewrite(s.value, visit)
        return Store(names.get(s.buffer, s.buffer), index, value)

    def steps(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
        result: list[Statement] = []
        for s in statements:
            if isinstance(s, Store):
                result.append(store(s))
            elif isinstance(s, Loop):
                result.append(replace(s, body=steps(s.body)))
            else:
                condition = rewrite(s.condition, visit)
                result.append(If(condition, steps(s.then), steps(s.otherwise)))
        return tuple(result)

    stages = (
        replace(
            stage,
            body=tuple(store(s) for s in stage.body),
            init=tuple(store(s) for s in stage.init),
            steps=steps(stage.steps),
        )
        for stage in program.stages
    )
    return replace(program, stages=tuple(stages))
