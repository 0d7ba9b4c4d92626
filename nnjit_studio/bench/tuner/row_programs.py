"""Softmax and layer normalisation over rows, in the stages that the importer gives them."""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Call,
    Expr,
    Load,
    Program,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.programs.parts import f32, row_major

LOWEST = -3.4028234663852886e38


def softmax_program(rows: int, columns: int) -> Program:
    """``exp(x - max) / sum(exp(x - max))`` of each row."""
    here = row_major((("i", rows), ("j", columns)))
    peak, total, raised = Load("peak", Var("i")), Load("total", Var("i")), Load("raised", here)
    shifted = Call("exp", (Load("x", here) - peak,))
    return Program(
        "softmax",
        (
            Buffer("x", "f32", (rows, columns), "input"),
            Buffer("y", "f32", (rows, columns), "output"),
            Buffer("peak", "f32", (rows,), "workspace"),
            Buffer("raised", "f32", (rows, columns), "workspace"),
            Buffer("total", "f32", (rows,), "workspace"),
        ),
        (
            _reduced("peak", rows, columns, "max", Load("x", _along(rows, columns)), LOWEST),
            _pointwise("raised", rows, columns, shifted),
            _reduced("total", rows, columns, "add", Load("raised", _along(rows, columns)), 0.0),
            _pointwise("y", rows, columns, raised / total),
        ),
    )


def layernorm_program(rows: int, columns: int) -> Program:
    """``(x - mean) / sqrt(variance + 1e-5) * scale + shift`` of each row."""
    here = row_major((("i", rows), ("j", columns)))
    x = Load("x", _along(rows, columns))
    mean = Load("sum", Var("i")) / f32(columns)
    mean_of_squares = Load("squares", Var("i")) / f32(columns)
    variance = mean_of_squares - mean * mean
    inverse = Call("rsqrt", (variance + f32(1e-5),))
    normal = (Load("x", here) - mean) * inverse
    scaled = normal * Load("scale", Var("j"))
    return Program(
        "layernorm",
        (
            Buffer("x", "f32", (rows, columns), "input"),
            Buffer("scale", "f32", (columns,), "input", True),
            Buffer("shift", "f32", (columns,), "input", True),
            Buffer("y", "f32", (rows, columns), "output"),
            Buffer("sum", "f32", (rows,), "workspace"),
            Buffer("squares", "f32", (rows,), "workspace"),
        ),
        (
            _reduced("sum", rows, columns, "add", x, 0.0),
            _reduced("squares", rows, columns, "add", x * x, 0.0),
            _pointwise("y", rows, columns, scaled + Load("shift", Var("j"))),
        ),
    )


def _along(rows: int, columns: int) -> Expr:
    return row_major((("i", rows), ("r", columns)))


def _reduced(buffer: str, rows: int, columns: int, op: str, value: Expr, start: float) -> Stage:
    place = Var("i")
    store = Store(buffer, place, Binary(op, Load(buffer, place), value))
    return _stage(buffer, [("i", rows), ("r", columns)], store, Store(buffer, place, f32(start)))


def _pointwise(buffer: str, rows: int, columns: int, value: Expr) -> Stage:
    points = [("i", rows), ("j", columns)]
    return _stage(buffer, points, Store(buffer, row_major(points), value))


def _stage(
    name: str, points: Sequence[tuple[str, int]], store: Store, init: Store | None = None
) -> Stage:
    axes = tuple(Axis(v, extent, "reduce" if v == "r" else "spatial") for v, extent in points)
    return Stage(name, axes, (store,), (init,) if init else ())
