"""Results that a template computes and the model wants in f16 are rounded by a call of their own.

Templates write float32: with the rounding in its epilogue a product had the default schedule, and
attention no kernel on a GPU. An f16 output of the model is all that is left of half precision here,
so it is one small kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nnjit_studio.compiler.importer.program.fuse_pointwise import renamed
from nnjit_studio.compiler.ir.rewrite import map_stores
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Buffer,
    Cast,
    Load,
    Program,
    Stage,
    Store,
    Var,
    stores_in,
)
from nnjit_studio.compiler.templates import match
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, Origin, ProgramCall, Value


def round_apart(calls: ImportedCalls) -> ImportedCalls:
    """The same model, what templates compute in float32 and rounded behind them."""
    return replace(calls, calls=tuple(part for call in calls.calls for part in _parts(call)))


def _parts(call: ProgramCall) -> Iterator[ProgramCall]:
    program, given = call.program, call.outputs
    results = [b.name for b in program.buffers if b.role == "output"]
    halves = {b.name for b in program.buffers if b.role == "output" and b.dtype == "f16"}
    if not halves or not _rounded_last(program, halves) or match(program) is None:
        yield call
        return
    pairs = list(zip(results, given, strict=True))
    wide = tuple(
        replace(v, name=f"{v.name}//f32", dtype="f32") if name in halves else v for name, v in pairs
    )
    named = zip(results, _tensors(call), strict=True)
    tensors = tuple("" if name in halves else tensor for name, tensor in named)
    yield replace(
        call,
        program=_widened(program, halves),
        outputs=wide,
        origin=replace(call.origin, tensors=tensors),
    )
    for (name, value), source, tensor in zip(pairs, wide, _tensors(call), strict=True):
        if name in halves:
            origin = Origin(call.origin.nodes[-1:], (tensor,))
            yield ProgramCall(_rounding(value), (source,), (value,), origin)


def _tensors(call: ProgramCall) -> tuple[str, ...]:
    return call.origin.tensors or ("",) * len(call.outputs)


def _rounded_last(program: Program, halves: set[str]) -> bool:
    """Whether all that is stored to them is rounded just there."""
    bodies = [s for stage in program.stages for s in stage.body]
    others = [s for stage in program.stages for s in (*stage.init, *stores_in(stage.steps))]
    rounded = all(isinstance(s.value, Cast) for s in bodies if s.buffer in halves)
    return rounded and not any(s.buffer in halves for s in others)


def _widened(program: Program, halves: set[str]) -> Program:
    def wide(store: Store) -> Store:
        if store.buffer in halves and isinstance(store.value, Cast):
            return replace(store, value=store.value.value)
        return store

    buffers = [replace(b, dtype="f32") if b.name in halves else b for b in program.buffers]
    stages: list[Stage] = []
    for stage in (map_stores(s, wide) for s in program.stages):
        kept = _copied(stage, buffers)
        if kept is None:
            stages.append(stage)
            continue
        # Nothing but the rounding was done there: the program is that of a model in float32.
        source, result = kept
        names = {b.name: b.name for b in buffers} | {source: result}
        stages = [renamed(s, names) for s in stages]
        buffers = [b for b in buffers if b.name != source]
    return replace(program, buffers=tuple(buffers), stages=tuple(stages))


def _copied(stage: Stage, buffers: Sequence[Buffer]) -> tuple[str, str] | None:
    """The workspace that a stage only copies, as a whole, into a result; and that result."""
    sizes = {b.name: (b.dtype, math.prod(b.shape)) for b in buffers}
    inner = {b.name for b in buffers if b.role == "workspace"}
    match stage.body:
        case (Store(result, place, Load(source, at)),) if at == place and source in inner:
            return (source, result) if sizes[source] == sizes[result] else None
    return None


def _rounding(value: Value) -> Program:
    place, axes = Var("i"), (Axis("i", math.prod(value.shape)),)
    buffers = (
        Buffer("in0", "f32", value.shape, "input"),
        Buffer("out0", "f16", value.shape, "output"),
    )
    store = Store("out0", place, Cast(Load("in0", place), "f16"))
    return Program("cast", buffers, (Stage("cast", axes, (store,)),))
