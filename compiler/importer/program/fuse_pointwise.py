"""Elementwise calls after a matmul or a convolution fused into it as its epilogue.

TVM fuses what follows directly. Exporters put reshapes between (a Gemm of two
dimensions in a model of three), which are views for us: the value is the same
run of numbers, so what is done to each runs before it is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from nnjit_studio.compiler.importer.program.views import behind
from nnjit_studio.compiler.ir.affine import rewrite
from nnjit_studio.compiler.ir.rewrite import map_stores
from nnjit_studio.compiler.ir.tensor_ir import Buffer, Expr, Load, Program, Stage, Store
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.recognize.convolution import CHANNEL, Conv2d
from nnjit_studio.compiler.recognize.subject import Subject
from nnjit_studio.compiler.schedule.epilogue import plan_epilogue
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall


def fuse_pointwise(calls: ImportedCalls, root: Mapping[str, str]) -> ImportedCalls:
    """The same model with fewer elementwise kernels.

    Parameters
    ----------
    root
        What each view is a view of, by name: both are the same elements in
        the same order.
    """
    source = behind(root)
    current = list(calls.calls)
    results = {source(value.name) for value in calls.outputs}
    for last in calls.calls:
        if len(last.outputs) != 1 or not is_pointwise(last.program):
            continue
        for value in last.inputs:
            maker = next((c for c in current if source(value.name) in _names(c)), None)
            readers = sum(source(v.name) == source(value.name) for c in current for v in c.inputs)
            alone = readers == 1 and source(value.name) not in results
            if maker is None or not alone or len(maker.outputs) != 1:
                continue
            merged = _merged(maker, last, value.name)
            if merged is not None:
                current = [merged if c is last else c for c in current if c is not maker]
                break
    return replace(calls, calls=tuple(current))


def _names(call: ProgramCall) -> set[str]:
    return {value.name for value in call.outputs}


def is_pointwise(program: Program) -> bool:
    """Whether each element is computed by itself."""
    return all(
        not s.init and not s.steps and all(a.kind != "reduce" for a in s.axes)
        for s in program.stages
    )


def _merged(maker: ProgramCall, last: ProgramCall, value: str) -> ProgramCall | None:
    """Both calls as one at the place of the last, if it still is the matmul that it was."""
    before = subject_of(maker.program)
    if not isinstance(before, Contraction | Conv2d):
        return None
    given = zip(last.program.buffers, last.inputs, strict=False)
    program = joined(maker.program, last.program, {b.name for b, v in given if v.name == value})
    after = subject_of(program)
    if type(after) is not type(before) or after is None or _work(before) != _work(after):
        return None
    if not _keeps_sums(program, after):
        return None
    inputs = (*maker.inputs, *(v for v in last.inputs if v.name != value))
    nodes = tuple(dict.fromkeys((*maker.origin.nodes, *last.origin.nodes)))
    return ProgramCall(program, inputs, last.outputs, replace(last.origin, nodes=nodes))


def _work(subject: Subject) -> tuple[object, ...]:
    if isinstance(subject, Contraction):
        return subject.flops, subject.packable, subject.b.column, subject.a.column
    return (subject.flops,) if isinstance(subject, Conv2d) else ()


def _keeps_sums(program: Program, subject: Subject) -> bool:
    """Whether the epilogue runs on lanes, and can finish in a second sweep what is too long."""
    if isinstance(subject, Conv2d):
        subject = subject.contraction(CHANNEL)
    if not isinstance(subject, Contraction):
        return False
    epilogue = plan_epilogue(program, subject)
    return epilogue.raw is not None and epilogue.lanes


def joined(program: Program, last: Program, between: Collection[str]) -> Program:
    """The stages of both; the first one's result becomes a workspace.

    ``between`` are the inputs of the last that are this result. Buffers of either kind (inputs,
    outputs, workspaces) are those of the first, then those of the last; the result counts as
    the last workspace of the first.
    """
    counts = {"in": 0, "out": 0, "ws": 0}
    buffers: list[Buffer] = []

    def add(buffer: Buffer, role: str) -> str:
        prefix = {"input": "in", "output": "out", "workspace": "ws"}[role]
        name = f"{prefix}{counts[prefix]}"
        counts[prefix] += 1
        buffers.append(replace(buffer, name=name, role=role))
        return name

    first = {b.name: add(b, b.role) for b in program.buffers if b.role != "output"}
    result = next(b for b in program.buffers if b.role == "output")
    first[result.name] = add(result, "workspace")
    second = {
        b.name: first[result.name] if b.name in between else add(b, b.role) for b in last.buffers
    }
    order = {"input": 0, "output": 1, "workspace": 2}
    stages = (
        *(renamed(s, first) for s in program.stages),
        *(renamed(s, second) for s in last.stages),
    )
    name = f"{program.name}_{last.name}"
    return Program(name, tuple(sorted(buffers, key=lambda b: order[b.role])), stages)


def renamed(stage: Stage, names: Mapping[str, str]) -> Stage:
    """The stage on buffers of other names."""

    def change(expr: Expr) -> Expr | None:
        if isinstance(expr, Load):
            return Load(names[expr.buffer], rewrite(expr.index, change))
        return None

    def store(s: Store) -> Store:
        return Store(names[s.buffer], rewrite(s.index, change), rewrite(s.value, change))

    return map_stores(stage, store)
