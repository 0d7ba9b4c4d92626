"""Random programs under the default schedule against the float64 reference and its bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_harness import add, f32, int32, run_kernel, times

from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Call,
    Cast,
    Expr,
    Load,
    Program,
    Select,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.oracle.reference import evaluate_with_bound
from nnjit_studio.compiler.pipeline.wasm import OPTIONAL_PASSES, compile_program

EXTENTS = st.sampled_from([1, 2, 3, 4, 5, 8, 9, 12, 16, 21, 64])


@dataclass(frozen=True)
class Case:
    program: Program
    parts: int
    passes: tuple[str, ...]
    tier: str


@st.composite
def strided(draw: st.DrawFn, axes: dict[str, int]) -> tuple[Expr, int]:
    """An index over some of the axes in any order, dense in those, and the size it needs."""
    names = draw(st.permutations([a for a in axes if draw(st.booleans())]))
    index: Expr = int32(0)
    size = 1
    for name in names:
        index = (
            add(index, times(Var(name), size))
            if draw(st.booleans())
            else add(times(int32(axes[name] - 1) - Var(name), size), index)
        )
        size *= axes[name]
    return index, size


@st.composite
def flattened(draw: st.DrawFn, axes: dict[str, int]) -> tuple[Expr, int]:
    """The row-major position taken apart by div and mod and put together another way."""
    position: Expr = int32(0)
    for name, extent in axes.items():
        position = add(times(position, extent), Var(name))
    size = math.prod(axes.values())
    inner = draw(st.sampled_from([d for d in (1, 2, 3, 4, 8, 16, 64) if size % d == 0]))
    outer = size // inner
    low, high = (Binary(op, position, int32(inner)) for op in ("floormod", "floordiv"))
    return add(times(low, outer), high) if draw(st.booleans()) else add(
        times(high, inner), low
    ), size


@st.composite
def cases(draw: st.DrawFn) -> Case:
    extents = draw(st.lists(EXTENTS, min_size=1, max_size=3).filter(lambda e: math.prod(e) < 5000))
    kinds = [draw(st.sampled_from(["spatial", "spatial", "reduce"])) for _ in extents]
    kinds.sort(reverse=True)
    axes = [Axis(f"i{n}", e, k) for n, (e, k) in enumerate(zip(extents, kinds, strict=True))]
    every = {a.var: a.extent for a in axes}
    buffers: list[Buffer] = []
    leaves: list[Expr] = []
    for n in range(draw(st.integers(1, 3))):
        index, size = draw(st.one_of(strided(every), flattened(every)))
        dtype = draw(st.sampled_from(["f32", "f32", "f32", "i32", "i64", "bool"]))
        buffers.append(Buffer(f"x{n}", dtype, (size,), "input"))
        load: Expr = Load(f"x{n}", index)
        leaves.append(load if dtype == "f32" else Cast(load, "f32"))
    leaves.append(Cast(Var(draw(st.sampled_from(list(every)))), "f32"))
    value = leaves[0]
    for leaf in leaves[1:]:
        op = draw(st.sampled_from(["add", "sub", "mul", "max", "select", "call"]))
        if op == "select":
            value = Select(Binary("lt", value, f32(0.3)), leaf, value)
        elif op == "call":
            value = Call("tanh", (value,)) + leaf
        else:
            value = Binary(op, value, leaf)
    spatial = {a.var: a.extent for a in axes if a.kind == "spatial"}
    out: Expr = int32(0)
    for name, extent in spatial.items():
        out = add(times(out, extent), Var(name))
    size = math.prod(spatial.values())
    if any(a.kind == "reduce" for a in axes):
        body = Store("t", out, Binary(draw(st.sampled_from(["add", "max"])), Load("t", out), value))
        init = (Store("t", out, f32(-1.0)),)
    else:
        body, init = Store("t", out, value), ()
    stages = [Stage("t", tuple(axes), (body,), init)]
    last = Store("y", out, Load("t", out) * 0.5)
    left = tuple(a for a in axes if a.kind == "spatial")
    stages.append(Stage("y", left, (last,)))
    buffers += [Buffer("y", "f32", (size,), "output"), Buffer("t", "f32", (size,), "workspace")]
    return Case(
        Program("random", tuple(buffers), tuple(stages)),
        draw(st.integers(1, 3)),
        tuple(p for p in OPTIONAL_PASSES if draw(st.booleans())),
        draw(st.sampled_from(["simd128", "relaxed-simd"])),
    )


@settings(max_examples=150)
@given(cases())
def test_random_program(case: Case) -> None:
    rng = np.random.default_rng(7)
    program = case.program
    inputs = {}
    for b in program.buffers:
        if b.role == "input":
            draw = rng.standard_normal(b.shape)
            inputs[b.name] = draw.astype(np.float32) if b.dtype == "f32" else draw.round() * 2
            if b.dtype in ("i32", "i64", "bool"):
                kind = {"i32": np.int32, "i64": np.int64, "bool": np.bool_}[b.dtype]
                inputs[b.name] = inputs[b.name].astype(kind)
    kernel = compile_program(program, None, case.tier, case.passes)
    parts = min(case.parts, kernel.parallel_extent)
    got = run_kernel(program, kernel.data, kernel.parallel_extent, inputs, (), parts)["y"]
    expected, bound = evaluate_with_bound(program, inputs)["y"]
    expected, bound = np.ravel(expected), np.ravel(bound)
    off = np.abs(got - expected) > bound + 2.0**-23 * np.abs(expected) + 2.0**-120
    assert not off.any()
    assert np.isfinite(bound).mean() > 0.9
