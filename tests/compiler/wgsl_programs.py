"""Programs of every form that the WGSL compiler treats in a way of its own, in odd sizes."""

from __future__ import annotations

from kernel_harness import add, at, f32, flat, int32, times
from small_programs import matmul_bias, softmax, stage

from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    If,
    Load,
    Loop,
    Program,
    Select,
    Stage,
    Store,
    Var,
)
from nnjit_studio.compiler.spelling import program_for


def layer_norm(rows: int, columns: int) -> Program:
    """Mean, variance of the differences, then scale and shift, in three stages."""
    shape = (rows, columns)
    mean, spread = at("mean", (rows,), "i"), at("spread", (rows,), "i")
    scale = Const(1 / columns, "f32")

    def centred(var: str) -> Expr:
        return at("x", shape, "i", var) - mean * scale

    square = centred("rk") * centred("rk")
    over = Call("rsqrt", (spread * scale + 1e-5,))
    scaled = centred("j") * over * at("g", (columns,), "j")
    result = scaled + at("b", (columns,), "j")
    return Program(
        "layer_norm",
        (
            Buffer("x", "f32", shape, "input"),
            Buffer("g", "f32", (columns,), "input", True),
            Buffer("b", "f32", (columns,), "input", True),
            Buffer("y", "f32", shape, "output"),
            Buffer("mean", "f32", (rows,), "workspace"),
            Buffer("spread", "f32", (rows,), "workspace"),
        ),
        (
            _sum("mean", rows, columns, at("x", shape, "i", "rk")),
            _sum("spread", rows, columns, square),
            stage("y", {"i": rows, "j": columns}, [Store("y", flat(shape, "i", "j"), result)]),
        ),
    )


def _sum(name: str, rows: int, columns: int, term: Expr) -> Stage:
    total = at(name, (rows,), "i")
    return stage(
        name,
        {"i": rows, "rk": columns},
        [Store(name, Var("i"), total + term)],
        [Store(name, Var("i"), f32(0.0))],
    )


def arg_max(rows: int, columns: int) -> Program:
    """The place of each row's largest element, the first of equals."""
    place, value = at("place", (rows,), "i"), at("value", (rows,), "i")
    element, k = at("x", (rows, columns), "i", "rk"), Cast(Var("rk"), "i64")
    earlier = Binary("and", Binary("eq", value, element), Binary("lt", place, k))
    stays = Binary("or", Binary("gt", value, element), earlier)
    return Program(
        "arg_max",
        (
            Buffer("x", "f32", (rows, columns), "input"),
            Buffer("place", "i64", (rows,), "output"),
            Buffer("value", "f32", (rows,), "workspace"),
        ),
        (
            stage(
                "best",
                {"i": rows, "rk": columns},
                [
                    Store("place", Var("i"), Select(stays, place, k)),
                    Store("value", Var("i"), Select(stays, value, element)),
                ],
                [
                    Store("place", Var("i"), Const(-1, "i64")),
                    Store("value", Var("i"), f32(-3.4028235e38)),
                ],
            ),
        ),
    )


def column_sums(rows: int, columns: int) -> Program:
    """Sums along the axis that does not lie side by side."""
    total = Load("y", Var("j"))
    term = at("x", (rows, columns), "rk", "j")
    return Program(
        "column_sums",
        (Buffer("x", "f32", (rows, columns), "input"), Buffer("y", "f32", (columns,), "output")),
        (
            stage(
                "y",
                {"j": columns, "rk": rows},
                [Store("y", Var("j"), total + term)],
                [Store("y", Var("j"), f32(0.0))],
            ),
        ),
    )


def transposed(dtype: str, rows: int, columns: int) -> Program:
    value = at("x", (rows, columns), "i", "j")
    return Program(
        f"transposed_{dtype}",
        (
            Buffer("x", dtype, (rows, columns), "input"),
            Buffer("y", dtype, (columns, rows), "output"),
        ),
        (
            stage(
                "y",
                {"j": columns, "i": rows},
                [Store("y", flat((columns, rows), "j", "i"), value)],
            ),
        ),
    )


def scattered_bytes(rows: int, columns: int) -> Program:
    """Bytes written one by one: columns where x is large are set, by serial loops."""
    index = flat((rows, columns), "i", "z")
    large = Binary("gt", at("x", (rows, columns), "i", "z"), f32(0.0))
    steps = (
        Loop("z", columns, (Store("y", index, Const(7, "u8")),)),
        Loop("z", columns, (If(large, (Store("y", index, Cast(Var("z"), "u8")),)),)),
    )
    return Program(
        "scattered_bytes",
        (
            Buffer("x", "f32", (rows, columns), "input"),
            Buffer("y", "u8", (rows, columns), "output"),
        ),
        (Stage("y", (Axis("i", rows),), steps=steps),),
    )


def concatenation(parts: int, size: int) -> Program:
    """More inputs than a dispatch may bind, one behind another."""
    value: Expr = at(f"x{parts - 1}", (size,), add(Var("i"), -(parts - 1) * size))
    for part in reversed(range(parts - 1)):
        here = Load(f"x{part}", add(Var("i"), -part * size) if part else Var("i"))
        value = Select(Binary("lt", Var("i"), int32((part + 1) * size)), here, value)
    inputs = tuple(Buffer(f"x{part}", "f32", (size,), "input") for part in range(parts))
    return Program(
        "concatenation",
        (*inputs, Buffer("y", "f32", (parts * size,), "output")),
        (stage("y", {"i": parts * size}, [Store("y", Var("i"), value)]),),
    )


def sum_of_many(parts: int, size: int) -> Program:
    """The same without a choice: f16 elements of many inputs, added up."""
    value: Expr = Load("x0", Var("i"))
    for part in range(1, parts):
        value = value + Load(f"x{part}", Var("i"))
    inputs = tuple(Buffer(f"x{part}", "f16", (size,), "input") for part in range(parts))
    return Program(
        "sum_of_many",
        (*inputs, Buffer("y", "f16", (size,), "output")),
        (stage("y", {"i": size}, [Store("y", Var("i"), value)]),),
    )


def gathered(rows: int, columns: int, count: int) -> Program:
    """Rows of a table by i64 numbers."""
    row = Load("ids", Var("i"))
    value = Load("table", add(times(row, columns), Var("j")))
    return Program(
        "gathered",
        (
            Buffer("table", "f32", (rows, columns), "input", True),
            Buffer("ids", "i64", (count,), "input"),
            Buffer("y", "f32", (count, columns), "output"),
        ),
        (
            stage(
                "y",
                {"i": count, "j": columns},
                [Store("y", flat((count, columns), "i", "j"), value)],
            ),
        ),
    )


def halves_of_doubled(size: int) -> Program:
    """A few f16 results of a second stage; their number is no multiple of a word's."""
    doubled = Load("x", Var("i")) * 2.0
    turned = Load("t", add(times(Var("i"), -1), size - 1))
    return Program(
        "halves_of_doubled",
        (
            Buffer("x", "f32", (size,), "input"),
            Buffer("y", "f16", (size,), "output"),
            Buffer("t", "f32", (size,), "workspace"),
        ),
        (
            stage("t", {"i": size}, [Store("t", Var("i"), doubled)]),
            stage("y", {"i": size}, [Store("y", Var("i"), turned)]),
        ),
    )


PROGRAMS: dict[str, Program] = {
    "softmax": softmax(7, 33),
    "softmax of long rows": softmax(3, 2999),
    "softmax of one row": softmax(1, 1021),
    "layer norm": layer_norm(5, 384),
    "layer norm of short rows": layer_norm(67, 5),
    "arg max": arg_max(6, 517),
    "arg max of few": arg_max(9, 3),
    "column sums": column_sums(130, 37),
    "one sum": column_sums(4099, 1),
    "bytes transposed": transposed("i8", 9, 13),
    "halves transposed": transposed("f16", 7, 3),
    "i64 transposed": transposed("i64", 5, 6),
    "scattered bytes": scattered_bytes(3, 11),
    "concatenation": concatenation(12, 5),
    "sum of many": sum_of_many(11, 7),
    "halves of doubled": halves_of_doubled(45),
    "gather": gathered(19, 12, 5),
    "product": matmul_bias(17, 9, 23),
    "product in tiles": matmul_bias(64, 1024, 8),
    "convolution": program_for("conv2d:1x3x13x11x5x3x3x2x1x1x1:f32+bias+relu"),
    "depthwise": program_for("conv2d:1x6x14x9x6x3x3x1x1x1x6:f32+bias"),
}
