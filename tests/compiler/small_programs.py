"""Programs as the importer makes them, small enough to read."""

from __future__ import annotations

from kernel_harness import at, f32, flat

from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Call,
    Load,
    Program,
    Stage,
    Store,
    Var,
)


def stage(
    name: str, axes: dict[str, int], body: list[Store], init: list[Store] | None = None
) -> Stage:
    """Axes whose name starts with ``r`` reduce."""
    kinds = [Axis(v, e, "reduce" if v.startswith("r") else "spatial") for v, e in axes.items()]
    return Stage(name, tuple(kinds), tuple(body), tuple(init or ()))


def matmul_bias(m: int, n: int, k: int) -> Program:
    """``y = x w + bias`` in two stages, w constant."""
    index = flat((m, n), "i", "j")
    total = Load("sum", index)
    product = at("x", (m, k), "i", "rk") * at("w", (k, n), "rk", "j")
    return Program(
        "matmul_bias",
        (
            Buffer("x", "f32", (m, k), "input"),
            Buffer("w", "f32", (k, n), "input", True),
            Buffer("bias", "f32", (n,), "input", True),
            Buffer("y", "f32", (m, n), "output"),
            Buffer("sum", "f32", (m, n), "workspace"),
        ),
        (
            stage(
                "sum",
                {"i": m, "j": n, "rk": k},
                [Store("sum", index, total + product)],
                [Store("sum", index, f32(0.0))],
            ),
            stage(
                "y",
                {"i": m, "j": n},
                [Store("y", index, total + Load("bias", Var("j")))],
            ),
        ),
    )


def softmax(rows: int, columns: int) -> Program:
    """Softmax of each row in four stages."""
    shape = (rows, columns)
    peak, total = at("peak", (rows,), "i"), at("total", (rows,), "i")
    shifted = Call("exp", (at("x", shape, "i", "j") - peak,))
    return Program(
        "softmax",
        (
            Buffer("x", "f32", shape, "input"),
            Buffer("y", "f32", shape, "output"),
            Buffer("peak", "f32", (rows,), "workspace"),
            Buffer("e", "f32", shape, "workspace"),
            Buffer("total", "f32", (rows,), "workspace"),
        ),
        (
            stage(
                "peak",
                {"i": rows, "rk": columns},
                [Store("peak", Var("i"), Binary("max", peak, at("x", shape, "i", "rk")))],
                [Store("peak", Var("i"), f32(-3.4028234663852886e38))],
            ),
            stage("e", {"i": rows, "j": columns}, [Store("e", flat(shape, "i", "j"), shifted)]),
            stage(
                "total",
                {"i": rows, "rk": columns},
                [Store("total", Var("i"), total + at("e", shape, "i", "rk"))],
                [Store("total", Var("i"), f32(0.0))],
            ),
            stage(
                "y",
                {"i": rows, "j": columns},
                [Store("y", flat(shape, "i", "j"), at("e", shape, "i", "j") / total)],
            ),
        ),
    )
