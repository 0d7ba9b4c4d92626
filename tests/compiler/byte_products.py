"""Products of bytes as the importer writes MatMulInteger, for the compiler's tests."""

from __future__ import annotations

from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Buffer,
    Cast,
    Const,
    Expr,
    Load,
    Program,
    Stage,
    Store,
    Var,
)


def byte_product(m: int, k: int, n: int, dtype: str, dequantised: bool = False) -> Program:
    """A in u8 or i8 times a constant i8 B in words, with a scale and a bias behind it if wanted."""

    def at(*parts: tuple[str, int]) -> Expr:
        total: Expr | None = None
        for name, factor in parts:
            term = Var(name) * factor
            total = term if total is None else total + term
        assert total is not None
        return total

    place = at(("m", n), ("n", 1))
    a = Cast(Load("a", at(("m", k), ("q", 4), ("r", 1))), "i32")
    b = Cast(Load("b", at(("q", 4 * n), ("n", 4), ("r", 1))), "i32")
    target = "t" if dequantised else "y"
    total = Load(target, place) + a * b
    spatial = (Axis("m", m), Axis("n", n))
    stages = [
        Stage(
            "sum",
            (*spatial, Axis("q", k // 4, "reduce"), Axis("r", 4, "reduce")),
            (Store(target, place, total),),
            (Store(target, place, Const(0, "i32")),),
        )
    ]
    buffers = [
        Buffer("a", dtype, (m, k), "input"),
        Buffer("b", "i8", (k // 4 + 1, n, 4), "input", True),
    ]
    if not dequantised:
        return Program("product", (*buffers, Buffer("y", "i32", (m, n), "output")), tuple(stages))
    scaled = Cast(Load("t", place), "f32") * 0.5
    value = scaled + Load("bias", Var("n"))
    stages.append(Stage("end", spatial, (Store("y", place, value),)))
    buffers += [
        Buffer("bias", "f32", (n,), "input", True),
        Buffer("y", "f32", (m, n), "output"),
        Buffer("t", "i32", (m, n), "workspace"),
    ]
    return Program("product", tuple(buffers), tuple(stages))
