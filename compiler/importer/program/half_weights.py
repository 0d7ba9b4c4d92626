"""Weights kept in f16: two bytes each in the file, in transfer and in memory.

The importer computes with float32. Afterwards a weight whose values are all representable in f16 is
stored as f16 again where its kernel can widen four values at once cheaply: products, which read B
by vectors, scales of 4-bit weights, and lookups. Elsewhere (convolutions read weights one by one)
it stays f32. On request, other weights are rounded to f16 in the same places, but no scales.

Halves are stored :data:`HALF_SCALE` times as large, and programs say so: a product's sum, or what
was looked up, is divided by it. So no small weight is a denormal half, whose widening takes some
processors a hundred cycles: of weights of deviation 0.02 one in 400 is, which doubled the time of a
row vector's product. Weights of 64 or more overflow then and stay f32.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, MutableMapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.ir.affine import loads, rewrite
from nnjit_studio.compiler.ir.rewrite import map_stores
from nnjit_studio.compiler.ir.tensor_ir import Const, Expr, Load, Program, Store, stage_expressions
from nnjit_studio.compiler.onnx_file.check import content_key
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.recognize.quantised import Quantised
from nnjit_studio.compiler.recognize.subject import Subject
from nnjit_studio.compiler.templates import prepared, subject_of
from nnjit_studio.compiler.tvm_adapter import ProgramCall, Value
from nnjit_studio.model.plan import HALF_SCALE

SMALLEST = 1024
"""Elements; a smaller weight, such as a bias, is not worth its widening."""


def keep_halves(
    calls: Iterable[ProgramCall], rounded: bool, names: MutableMapping[tuple[Any, ...], str]
) -> Iterator[ProgramCall]:
    """The same calls, constants that are halves by value read as f16 where that is cheap.

    With ``rounded`` others are made halves. ``names`` are those of weights by content, and
    get the new contents.
    """
    known: dict[str, Value | None] = {}
    for call in calls:
        subject = subject_of(call.program)
        cheap = set(_read_by_vectors(call.program, subject))
        changed: dict[str, Value] = {}
        inputs = list(call.inputs)
        for i, (buffer, value) in enumerate(zip(call.program.buffers, inputs, strict=False)):
            if buffer.name in cheap and value.constant is not None and value.dtype == "f32":
                if value.name not in known:
                    rounds = rounded and not isinstance(subject, Quantised)
                    known[value.name] = _as_half(value, value.constant, rounds)
                    if rounds and (made := known[value.name]) is not None:
                        name = names.get(content_key(value.constant), "")
                        names.setdefault(content_key(imported(made)), name)
                if (half := known[value.name]) is not None:
                    changed[buffer.name] = inputs[i] = half
        program = _reading_halves(call.program, changed.keys()) if changed else call.program
        yield replace(call, program=program, inputs=tuple(inputs))


def imported(value: Value) -> NDArray[Any]:
    """The data of a constant as the imported model has it."""
    assert value.constant is not None
    if value.dtype != "f16":
        return value.constant
    found: NDArray[Any] = value.constant.astype(np.float32) / np.float32(HALF_SCALE)
    return found


def _reading_halves(program: Program, names: Collection[str]) -> Program:
    def scaled(expr: Expr) -> Expr | None:
        if not isinstance(expr, Load) or expr.buffer not in names:
            return None
        return expr * Const(1 / HALF_SCALE, "f32")

    def reading(store: Store) -> Store:
        return replace(store, value=rewrite(store.value, scaled))

    stages = tuple(map_stores(stage, reading) for stage in program.stages)
    buffers = tuple(replace(b, dtype="f16") if b.name in names else b for b in program.buffers)
    # Kernels of halves need another workspace.
    return prepared(replace(program, buffers=buffers, stages=stages))


def _read_by_vectors(program: Program, subject: Subject | None) -> Iterator[str]:
    """Constant buffers whose elements a kernel widens four at once, or once."""
    if isinstance(subject, Quantised):
        if subject.scale and program.buffer(subject.scale).constant:
            yield subject.scale
    elif isinstance(subject, Contraction):
        if program.buffer(subject.b.buffer).constant:
            yield subject.b.buffer
    elif subject is None and not any(stage.init or stage.steps for stage in program.stages):
        read = {
            load.buffer
            for stage in program.stages
            for expr in stage_expressions(stage)
            for load in loads(expr)
        }
        yield from (b.name for b in program.buffers if b.constant and b.name in read)


def _as_half(value: Value, data: NDArray[Any], rounded: bool) -> Value | None:
    """The value in f16, if all are finite in it and no element changes, or may."""
    if data.size < SMALLEST or not np.isfinite(data).all():
        return None
    with np.errstate(over="ignore"):
        half = (data * np.float32(HALF_SCALE)).astype(np.float16)
    found = Value(f"{value.name} as f16", value.shape, "f16", half)
    exact = rounded or np.array_equal(imported(found), data)
    return found if exact and np.isfinite(half).all() else None
