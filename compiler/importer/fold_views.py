"""Transposes that a matmul can do while it reads or writes: they cost no kernel then.

A call that only permutes elements is folded into all of its consumers, where
each is a matmul that still reads neighbouring columns, or else into the
matmul that produces its input, where that still writes neighbouring columns.
Attention's head splits and merges vanish so; a K that would have to be read
across its columns keeps its transpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from nnjit_studio.compiler.affine import LinearForm, linear_expr, linear_form, rewrite, walk
from nnjit_studio.compiler.contraction import Contraction
from nnjit_studio.compiler.recognize import recognize
from nnjit_studio.compiler.schedule.rewrite import substitute_store
from nnjit_studio.compiler.tensor_ir import Binary, Const, Expr, Load, Program, Stage, Store, Var
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, Origin, ProgramCall


@dataclass(frozen=True)
class _Permutation:
    """``target[to] = source[from]`` with both indices one-to-one over the same variables."""

    extents: Mapping[str, int]
    source: LinearForm
    target: LinearForm


def fold_views(calls: ImportedCalls) -> ImportedCalls:
    """The same model with fewer permuting kernels."""
    current = list(calls.calls)
    results = {value.name for value in calls.outputs}
    for call in calls.calls:
        found = _permutation(call)
        if found is None or call.outputs[0].name in results:
            continue
        changed = _into_consumers(current, call, found)
        if changed is None and call.inputs[0].name not in results:
            changed = _into_producer(current, call, found)
        if changed is not None:
            current = [c for c in changed if c is not call]
    return replace(calls, calls=tuple(current))


def _permutation(call: ProgramCall) -> _Permutation | None:
    program = call.program
    if len(program.buffers) != 2 or len(program.stages) != 1 or call.inputs[0].constant is not None:
        return None
    stage = _cut(program.stages[0])
    source, target = program.buffers
    if stage.init or len(stage.body) != 1 or source.dtype != target.dtype:
        return None
    (store,) = stage.body
    if not isinstance(store.value, Load):
        return None
    extents = {a.var: a.extent for a in stage.axes}
    to = linear_form(store.index, extents)
    origin = linear_form(store.value.index, extents)
    if to is None or origin is None:
        return None
    size = math.prod(target.shape)
    whole = size == math.prod(source.shape) == math.prod(extents.values())
    if not whole or not (_one_to_one(to, extents) and _one_to_one(origin, extents)):
        return None
    # In place order it is a reshape, which costs nothing anyway.
    return None if to == origin else _Permutation(extents, origin, to)


def _cut(stage: Stage) -> Stage:
    """Axes that an index divides become two each, so that divisions resolve."""
    for axis in stage.axes:
        parts = {
            int(e.b.value)
            for s in stage.body
            for e in (*walk(s.index), *walk(s.value))
            if isinstance(e, Binary)
            and e.op in ("floordiv", "floormod")
            and e.a == Var(axis.var)
            and isinstance(e.b, Const)
        }
        size = min(parts, default=0)
        if size < 2 or axis.extent % size or axis.extent == size:
            continue
        high, low = replace(axis, var=f"{axis.var}h", extent=axis.extent // size), f"{axis.var}l"
        joined = Binary("add", Binary("mul", Var(high.var), _int(size)), Var(low))
        values: dict[str, Expr] = {axis.var: joined}
        axes = tuple(
            part
            for a in stage.axes
            for part in ((high, replace(axis, var=low, extent=size)) if a is axis else (a,))
        )
        body = tuple(substitute_store(s, values) for s in stage.body)
        return _cut(replace(stage, axes=axes, body=body))
    return stage


def _one_to_one(form: LinearForm, extents: Mapping[str, int]) -> bool:
    """Whether the form counts every position of a dense buffer once."""
    span = 1
    for var, step in sorted(form[1].items(), key=lambda item: item[1]):
        if step != span:
            return False
        span *= extents[var]
    return form[0] == 0 and span == math.prod(extents.values())


def _moved(form: LinearForm, before: LinearForm, after: LinearForm, extents: Mapping[str, int],
           known: Mapping[str, int]) -> Expr | None:  # fmt: skip
    """An index into the ``before`` side as one into the ``after`` side, if that is linear."""
    flat = linear_expr(form)
    total: Expr = Const(after[0], "i32")
    for var, step in before[1].items():
        digit = Binary("floormod", Binary("floordiv", flat, _int(step)), _int(extents[var]))
        total = Binary("add", total, Binary("mul", digit, _int(after[1].get(var, 0))))
    moved = linear_form(total, known)
    return None if moved is None else linear_expr(moved)


def _int(value: int) -> Const:
    return Const(value, "i32")


class _Unresolved(Exception):
    """An index that does not stay a plain sum."""


def _with_buffer(
    program: Program,
    name: str,
    shape: Sequence[int],
    move: Callable[[LinearForm, Mapping[str, int]], Expr | None],
) -> Program | None:
    """The program with another layout of one buffer; None where an index has no linear form."""

    def stage(old: Stage) -> Stage:
        if old.steps:
            raise _Unresolved
        known = {a.var: a.extent for a in old.axes}

        def index(expr: Expr) -> Expr:
            form = linear_form(expr, known)
            moved = move(form, known) if form is not None else None
            if moved is None:
                raise _Unresolved
            return moved

        def change(expr: Expr) -> Expr | None:
            if isinstance(expr, Load) and expr.buffer == name:
                return Load(name, index(expr.index))
            return None

        def stores(items: Sequence[Store]) -> tuple[Store, ...]:
            return tuple(
                Store(
                    s.buffer,
                    index(s.index) if s.buffer == name else rewrite(s.index, change),
                    rewrite(s.value, change),
                )
                for s in items
            )

        return replace(old, body=stores(old.body), init=stores(old.init))

    try:
        stages = tuple(stage(s) for s in program.stages)
    except _Unresolved:
        return None
    buffers = tuple(
        replace(b, shape=tuple(shape)) if b.name == name else b for b in program.buffers
    )
    return replace(program, buffers=buffers, stages=stages)


def _into_consumers(
    calls: Sequence[ProgramCall], view: ProgramCall, found: _Permutation
) -> list[ProgramCall] | None:
    value, source = view.outputs[0], view.inputs[0]
    folded: list[ProgramCall] = []
    uses = 0
    for call in calls:
        if call is view or all(v.name != value.name for v in call.inputs):
            folded.append(call)
            continue
        program: Program | None = call.program
        for buffer, given in zip(call.program.buffers, call.inputs, strict=False):
            if given.name == value.name and program is not None:
                program = _with_buffer(
                    program,
                    buffer.name,
                    source.shape,
                    lambda form, known: _moved(
                        form, found.target, found.source, found.extents, known
                    ),
                )
        if program is None or not _still_fast(call.program, program):
            return None
        inputs = tuple(source if v.name == value.name else v for v in call.inputs)
        folded.append(replace(call, program=program, inputs=inputs, origin=_with_nodes(call, view)))
        uses += 1
    return folded if uses else None


def _into_producer(
    calls: Sequence[ProgramCall], view: ProgramCall, found: _Permutation
) -> list[ProgramCall] | None:
    source, value = view.inputs[0], view.outputs[0]
    readers = [c for c in calls if any(v.name == source.name for v in c.inputs)]
    producer = next((c for c in calls if any(v.name == source.name for v in c.outputs)), None)
    if producer is None or len(readers) != 1 or len(producer.outputs) != 1:
        return None
    output = next(b for b in producer.program.buffers if b.role == "output")
    program = _with_buffer(
        producer.program,
        output.name,
        value.shape,
        lambda form, known: _moved(form, found.source, found.target, found.extents, known),
    )
    if program is None or not _still_fast(producer.program, program):
        return None
    origin = replace(_with_nodes(producer, view), tensors=view.origin.tensors)
    merged = replace(producer, program=program, outputs=(value,), origin=origin)
    return [merged if c is producer else c for c in calls]


def _with_nodes(call: ProgramCall, view: ProgramCall) -> Origin:
    nodes = dict.fromkeys((*call.origin.nodes, *view.origin.nodes))
    return replace(call.origin, nodes=tuple(nodes))


def _still_fast(before: Program, after: Program) -> bool:
    """Whether both are matmuls, and the new one reads and writes neighbouring columns."""
    old, new = recognize(before), recognize(after)
    if old is None or new is None or old.flops != new.flops or old.packable != new.packable:
        return False
    return (new.packable or new.b.column == 1) and len(new.batch) <= len(old.batch) and _joined(new)


def _joined(contraction: Contraction) -> bool:
    """Whether every output has stride 1 along n."""
    forms = (linear_form(s.index) for s in contraction.epilogue)
    return all(f is not None and f[1].get(contraction.n_var, 0) == 1 for f in forms)
