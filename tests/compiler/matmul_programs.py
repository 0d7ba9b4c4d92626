"""Small programs with a matmul in them, for the tests of this room."""

from __future__ import annotations

import math
from dataclasses import replace

from nnjit_studio.compiler.ir.affine import rewrite
from nnjit_studio.compiler.ir.rewrite import map_stores
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.recognize.contraction import ACCUMULATOR, Contraction, Operand


def plus(*terms: Expr) -> Expr:
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


def times(var: str, factor: int) -> Expr:
    return Var(var) * factor


def f32(value: float) -> Const:
    return Const(value, "f32")


def gelu(x: Expr) -> Expr:
    erf = Call("erf", (x / f32(2**0.5),))
    return x * (f32(1.0) + erf) * 0.5


def sum_stage(m: int, k: int, n: int, target: str) -> Stage:
    index = plus(times("i", n), Var("j"))
    product = Load("a", plus(times("i", k), Var("r"))) * Load("w", plus(times("r", n), Var("j")))
    return Stage(
        "sum",
        (Axis("i", m), Axis("j", n), Axis("r", k, "reduce")),
        (Store(target, index, Load(target, index) + product),),
        (Store(target, index, f32(0.0)),),
    )


def rebuilt(program: Program, found: Contraction) -> Program:
    """The contraction written out as a program again, in two plain stages."""
    points = (*found.batch, Axis("m", found.m), Axis("n", found.n))
    sizes = [axis.extent for axis in points]
    place = plus(*(times(a.var, math.prod(sizes[i + 1 :])) for i, a in enumerate(points)))

    def view(operand: Operand, row: str, column: str) -> Load:
        batch = (times(a.var, s) for a, s in zip(found.batch, operand.batch, strict=True))
        inner = (times(row, operand.row), times(column, operand.column))
        return Load(operand.buffer, plus(Const(operand.offset, "i32"), *batch, *inner))

    def finished(expr: Expr) -> Expr | None:
        return Load("sum", place) if expr == Var(ACCUMULATOR) else None

    product = view(found.a, "m", "k") * view(found.b, "k", "n")
    total = Store("sum", place, Load("sum", place) + product)
    start = Store("sum", place, f32(0.0))
    tail = tuple(Store(s.buffer, s.index, rewrite(s.value, finished)) for s in found.epilogue)
    kept = tuple(b for b in program.buffers if b.role != "workspace")
    return Program(
        "rebuilt",
        (*kept, Buffer("sum", "f32", tuple(sizes), "workspace")),
        (
            Stage("sum", (*points, Axis("k", found.k, "reduce")), (total,), (start,)),
            Stage("tail", points, tail),
        ),
    )


def dense(m: int, k: int, n: int, epilogue: str = "bias") -> Program:
    """``[m, k] x [k, n]``; epilogue ``none``, ``bias``, ``gelu`` or ``heads``.

    ``heads`` stores the biased result as ``[n / 4, m, 4]``.
    """
    weights = Buffer("w", "f32", (k, n), "input", True)
    inputs = (Buffer("a", "f32", (m, k), "input"), weights)
    if epilogue == "none":
        out = Buffer("out", "f32", (m, n), "output")
        return Program("matmul", (*inputs, out), (sum_stage(m, k, n, "out"),))
    inner = 4 if epilogue == "heads" else n
    position = plus(times("x", n), times("h", inner), Var("d"))
    column = plus(times("h", inner), Var("d"))
    value: Expr = Load("acc", position) + Load("bias", column)
    if epilogue == "gelu":
        value = gelu(value)
    target = plus(times("h", m * inner), times("x", inner), Var("d"))
    stage = Stage(
        "tail",
        (Axis("x", m), Axis("h", n // inner), Axis("d", inner)),
        (Store("out", target, value),),
    )
    buffers = (
        *inputs,
        Buffer("bias", "f32", (n,), "input", True),
        Buffer("out", "f32", (n // inner, m, inner), "output"),
        Buffer("acc", "f32", (m, n), "workspace"),
    )
    return Program("matmul_" + epilogue, buffers, (sum_stage(m, k, n, "acc"), stage))


def in_bytes(program: Program, dtype: str, zero: float) -> Program:
    """The program with its constant matrix in bytes that count from ``zero`` on."""
    buffers = tuple(
        replace(b, dtype=dtype) if b.constant and len(b.shape) == 2 else b for b in program.buffers
    )
    names = {b.name for b in buffers if b.dtype == dtype}

    def less_zero(expr: Expr) -> Expr | None:
        if not isinstance(expr, Load) or expr.buffer not in names:
            return None
        return Cast(expr, "f32") - Const(zero, "f32") if zero else Cast(expr, "f32")

    def reading(store: Store) -> Store:
        return replace(store, value=rewrite(store.value, less_zero))

    stages = tuple(map_stores(stage, reading) for stage in program.stages)
    return replace(program, buffers=buffers, stages=stages)


def with_rounded_weights(program: Program, steps: float) -> Program:
    """Attention whose weights are rounded to bytes, as QDQ models have it."""

    def stepped(store: Store) -> Store:
        whole = Call("round", (store.value * Const(steps, "f32"),))
        low = Binary("max", whole, Const(0.0, "f32"))
        return replace(
            store, value=Cast(Cast(Binary("min", low, Const(255.0, "f32")), "u8"), "f32")
        )

    stages = tuple(
        map_stores(stage, stepped) if stage.name == "weights" else stage for stage in program.stages
    )
    return replace(program, stages=stages)


def in_halves(program: Program) -> Program:
    """The program with its constant matrix in f16."""
    buffers = tuple(
        replace(b, dtype="f16") if b.constant and len(b.shape) == 2 else b for b in program.buffers
    )
    return replace(program, buffers=buffers)
