"""The default schedule against NumPy on the programs that models are made of."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_harness import NUMPY, add, at, f32, flat, int32, run_kernel, times
from small_programs import softmax, stage

from nnjit_studio.compiler.ir.tensor_ir import (
    Binary,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Program,
    Select,
    Store,
    Var,
)
from nnjit_studio.compiler.pipeline.passes import Artifact
from nnjit_studio.compiler.pipeline.wasm import OPTIONAL_PASSES, compile_program

TIERS = ("simd128", "relaxed-simd")


def run(
    program: Program, inputs: dict[str, np.ndarray], tier: str = "relaxed-simd", parts: int = 1
) -> tuple[dict[str, np.ndarray], Artifact]:
    """Outputs; they must not depend on which passes run or how the range is cut."""
    results = []
    kernel = compile_program(program, None, tier)
    for passes in (OPTIONAL_PASSES, (), *((p,) for p in OPTIONAL_PASSES)):
        kernel = compile_program(program, None, tier, passes)
        extent = kernel.parallel_extent
        results.append(run_kernel(program, kernel.data, extent, inputs, (), min(parts, extent)))
    for other in results[1:]:
        for name, array in other.items():
            assert array.tobytes() == results[0][name].tobytes(), name
    return results[0], kernel


def elementwise(n: int, value: Expr, out: str = "f32", **inputs: str) -> Program:
    """One axis ``i``, inputs of n elements each."""
    buffers = [Buffer(name, dtype, (n,), "input") for name, dtype in inputs.items()]
    body = [Store("y", Var("i"), value)]
    return Program("e", (*buffers, Buffer("y", out, (n,), "output")), (stage("e", {"i": n}, body),))


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 64), (130, 33), (2, 384)])
def test_softmax(shape: tuple[int, int], tier: str) -> None:
    x = 10 * floats(*shape)
    got, kernel = run(softmax(*shape), {"x": x}, tier, parts=3)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(got["y"], e / e.sum(1, keepdims=True), rtol=3e-6, atol=1e-30)
    assert kernel.parallel_extent == shape[0], "rows are independent"


@pytest.mark.parametrize("shape", [(3, 7), (5, 384), (1, 4)])
def test_layer_norm_with_two_sums_in_one_stage(shape: tuple[int, int]) -> None:
    rows, n = shape
    x = at("x", shape, "i", "rk")
    mean, square = at("mean", (rows,), "i"), at("square", (rows,), "i")
    m = mean * f32(1 / n)
    variance = square * f32(1 / n) - m * m
    scaled = (at("x", shape, "i", "j") - m) * Call("rsqrt", (variance + 1e-5,))
    out = scaled * Load("g", Var("j")) + Load("b", Var("j"))
    program = Program(
        "norm",
        (
            Buffer("x", "f32", shape, "input"),
            Buffer("g", "f32", (n,), "input"),
            Buffer("b", "f32", (n,), "input"),
            Buffer("y", "f32", shape, "output"),
            Buffer("mean", "f32", (rows,), "workspace"),
            Buffer("square", "f32", (rows,), "workspace"),
        ),
        (
            stage(
                "sums",
                {"i": rows, "rk": n},
                [
                    Store("mean", Var("i"), mean + x),
                    Store("square", Var("i"), square + x * x),
                ],
                [Store("mean", Var("i"), f32(0.0)), Store("square", Var("i"), f32(0.0))],
            ),
            stage("y", {"i": rows, "j": n}, [Store("y", flat(shape, "i", "j"), out)]),
        ),
    )
    inputs = {"x": floats(*shape), "g": floats(n, seed=1), "b": floats(n, seed=2)}
    got, _ = run(program, inputs, parts=2)
    x64 = inputs["x"].astype(np.float64)
    mean64, var64 = x64.mean(1, keepdims=True), x64.var(1, keepdims=True)
    expected = (x64 - mean64) / np.sqrt(var64 + 1e-5) * inputs["g"] + inputs["b"]
    np.testing.assert_allclose(got["y"], expected, rtol=1e-4, atol=2e-5)


def test_gather_with_i64_ids_and_negative_ids() -> None:
    vocabulary, width, length = 11, 13, 6
    ids = Load("ids", Var("i"))
    wrapped = Select(Binary("lt", ids, Const(0, "i64")), ids + Const(vocabulary, "i64"), ids)
    index = add(Cast(wrapped, "i64") * Const(width, "i64"), Var("j"))
    program = Program(
        "gather",
        (
            Buffer("table", "f32", (vocabulary, width), "input", True),
            Buffer("ids", "i64", (length,), "input"),
            Buffer("y", "f32", (length, width), "output"),
        ),
        (
            stage(
                "y",
                {"i": length, "j": width},
                [Store("y", flat((length, width), "i", "j"), Load("table", index))],
            ),
        ),
    )
    inputs = {"table": floats(vocabulary, width), "ids": np.array([0, 10, -1, 5, -11, 3])}
    got, _ = run(program, inputs, parts=4)
    np.testing.assert_array_equal(got["y"], inputs["table"][inputs["ids"]])


@pytest.mark.parametrize("shape", [(3, 5), (8, 12), (17, 4)])
def test_transpose(shape: tuple[int, int]) -> None:
    r, c = shape
    body = [Store("y", flat((c, r), "i", "j"), at("x", (r, c), "j", "i"))]
    program = Program(
        "t",
        (Buffer("x", "f32", (r, c), "input"), Buffer("y", "f32", (c, r), "output")),
        (stage("t", {"i": c, "j": r}, body),),
    )
    x = floats(r, c)
    got, _ = run(program, {"x": x}, parts=2)
    np.testing.assert_array_equal(got["y"], x.T)


@pytest.mark.parametrize(("s", "h", "d"), [(5, 3, 8), (7, 2, 6), (4, 4, 64)])
def test_split_heads_with_div_and_mod(s: int, h: int, d: int) -> None:
    n = s * h * d
    i = Var("i")
    head = i // (s * d)
    row = i % (s * d) // d
    index = add(times(row, h * d), times(head, d), i % d)
    program = Program(
        "heads",
        (Buffer("x", "f32", (s, h, d), "input"), Buffer("y", "f32", (h, s, d), "output")),
        (stage("y", {"i": n}, [Store("y", i, Load("x", index))]),),
    )
    x = floats(s, h, d)
    got, _ = run(program, {"x": x})
    np.testing.assert_array_equal(got["y"], x.transpose(1, 0, 2))


@pytest.mark.parametrize("axes", ["rows", "columns", "all"])
@pytest.mark.parametrize("op", ["add", "min", "max", "mul"])
def test_reductions(axes: str, op: str) -> None:
    m, n = 9, 27
    x = (1 + 0.1 * floats(m, n)).astype(np.float32)
    numpy = {"add": np.add, "min": np.minimum, "max": np.maximum, "mul": np.multiply}[op]
    start = {"add": 0.0, "mul": 1.0, "min": 3e38, "max": -3e38}[op]
    kept = {"rows": {"i": m, "rj": n}, "columns": {"j": n, "ri": m}, "all": {"ri": m, "rj": n}}
    names = {"rows": ("i", "rj"), "columns": ("ri", "j"), "all": ("ri", "rj")}[axes]
    index: Expr = {"rows": Var("i"), "columns": Var("j"), "all": int32(0)}[axes]
    shape = {"rows": (m,), "columns": (n,), "all": ()}[axes]
    value = Binary(op, Load("y", index), at("x", (m, n), *names))
    program = Program(
        "r",
        (Buffer("x", "f32", (m, n), "input"), Buffer("y", "f32", shape, "output")),
        (stage("r", kept[axes], [Store("y", index, value)], [Store("y", index, f32(start))]),),
    )
    got, _ = run(program, {"x": x}, parts=2)
    axis = {"rows": 1, "columns": 0, "all": None}[axes]
    np.testing.assert_allclose(got["y"], numpy.reduce(x.astype(np.float64), axis), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["i8", "u8", "i32"])
@pytest.mark.parametrize("n", [18, 135])
def test_sums_of_integers_run_on_lanes_of_their_rows(dtype: str, n: int) -> None:
    m, index = 6, Var("i")
    value = Load("y", index) + Cast(at("x", (m, n), "i", "rj"), "i32")
    start, stop = Store("y", index, int32(0)), Store("z", index, Load("y", index) - 7)
    program = Program(
        "row_sum",
        (
            Buffer("x", dtype, (m, n), "input"),
            Buffer("z", "i32", (m,), "output"),
            Buffer("y", "i32", (m,), "workspace"),
        ),
        (
            stage("y", {"i": m, "rj": n}, [Store("y", index, value)], [start]),
            stage("z", {"i": m}, [stop]),
        ),
    )
    info = np.iinfo(NUMPY[dtype])
    x = np.random.default_rng(n).integers(info.min, info.max, (m, n), NUMPY[dtype], endpoint=True)
    got, kernel = run(program, {"x": x}, parts=m)
    np.testing.assert_array_equal(got["z"], x.sum(axis=1, dtype=np.int32) - 7)
    assert kernel.parallel_extent == m
    assert "i32x4.add" in compile_program(program, None, "simd128", dump_after="lower").dump


def test_argmax() -> None:
    m, n = 5, 9
    i, k = Var("i"), Var("rk")
    x = at("x", (m, n), "i", "rk")
    best, where = Load("v", i), Load("p", i)
    better = Binary("gt", x, best)
    program = Program(
        "argmax",
        (
            Buffer("x", "f32", (m, n), "input"),
            Buffer("p", "i64", (m,), "output"),
            Buffer("v", "f32", (m,), "workspace"),
        ),
        (
            stage(
                "argmax",
                {"i": m, "rk": n},
                [
                    Store("p", i, Select(better, Cast(k, "i64"), where)),
                    Store("v", i, Select(better, x, best)),
                ],
                [Store("p", i, Const(0, "i64")), Store("v", i, f32(-3e38))],
            ),
        ),
    )
    values = floats(m, n)
    got, _ = run(program, {"x": values}, parts=2)
    np.testing.assert_array_equal(got["p"], values.argmax(1))


def test_plain_matmul_without_a_candidate() -> None:
    m, n, k = 5, 11, 7
    c = at("c", (m, n), "i", "j")
    product = at("a", (m, k), "i", "rk") * at("b", (k, n), "rk", "j")
    index = flat((m, n), "i", "j")
    program = Program(
        "mm",
        (
            Buffer("a", "f32", (m, k), "input"),
            Buffer("b", "f32", (k, n), "input"),
            Buffer("c", "f32", (m, n), "output"),
        ),
        (
            stage(
                "c",
                {"i": m, "j": n, "rk": k},
                [Store("c", index, c + product)],
                [Store("c", index, f32(0.0))],
            ),
        ),
    )
    a, b = floats(m, k), floats(k, n, seed=1)
    got, kernel = run(program, {"a": a, "b": b}, parts=3)
    np.testing.assert_allclose(got["c"], a.astype(np.float64) @ b, rtol=1e-5, atol=1e-6)
    assert kernel.panels == ()


def test_padding_reads_only_inside() -> None:
    n = 10
    i = Var("i")
    inside = Binary("and", Binary("ge", i, int32(3)), Binary("lt", i, int32(n + 3)))
    value = Select(inside, Load("x", i - 3), f32(-1.0))
    program = Program(
        "pad",
        (Buffer("x", "f32", (n,), "input"), Buffer("y", "f32", (n + 7,), "output")),
        (stage("y", {"i": n + 7}, [Store("y", i, value)]),),
    )
    x = floats(n)
    got, _ = run(program, {"x": x})
    np.testing.assert_array_equal(got["y"], np.pad(x, (3, 4), constant_values=-1))


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("around", [((0, 0), (1, 2), (3, 1)), ((1, 0), (0, 0), (2, 7))])
def test_padding_copies_its_box_on_lanes(around: tuple[tuple[int, int], ...], parts: int) -> None:
    """Bounds on the parallel axis, on another, and on the lanes' own."""
    small = (3, 4, 13)
    large = tuple(n + before + after for n, (before, after) in zip(small, around, strict=True))
    names = ("i", "j", "k")
    inside: Expr | None = None
    shifted: list[Expr] = []
    for name, n, (before, after) in zip(names, small, around, strict=True):
        shifted.append(add(Var(name), -before))
        if before or after:
            low = Binary("le", int32(before), Var(name))
            within = Binary("and", low, Binary("lt", Var(name), int32(before + n)))
            inside = within if inside is None else Binary("and", inside, within)
    assert inside is not None
    value = Select(inside, at("x", small, *shifted), f32(-1.0))
    axes = dict(zip(names, large, strict=True))
    program = Program(
        "pad",
        (Buffer("x", "f32", small, "input"), Buffer("y", "f32", large, "output")),
        (stage("pad", axes, [Store("y", flat(large, *names), value)]),),
    )
    x = floats(*small)
    got, _ = run(program, {"x": x}, parts=parts)
    np.testing.assert_array_equal(got["y"], np.pad(x, around, constant_values=-1))
    assert "v128.load" in compile_program(program, None, "simd128", dump_after="lower").dump


def test_reversed_index_far_below_the_pointer() -> None:
    n = 5000
    index = int32(n - 1) - Var("i")
    got, _ = run(elementwise(n, Load("x", index), x="f32"), {"x": floats(n)})
    np.testing.assert_array_equal(got["y"], floats(n)[::-1])


@pytest.mark.parametrize("op", ["floordiv", "floormod", "truncdiv", "truncmod"])
@pytest.mark.parametrize("dtype", ["i32", "i64", "i8"])
@pytest.mark.parametrize("divisor", [1, 4, 7, -3, "input"])
def test_integer_division(op: str, dtype: str, divisor: int | str) -> None:
    a = np.array([-9, -8, -7, -1, 0, 1, 5, 7, 8, 9, 127, -128])
    b = np.array([2, -2, 3, -3, 5, 7, -7, 1, 4, -4, 10, 7])
    x, i = Load("a", Var("i")), Var("i")
    y: Expr = Load("b", i) if divisor == "input" else Const(divisor, dtype)
    program = elementwise(len(a), Binary(op, x, y), dtype, a=dtype, b=dtype)
    got, _ = run(program, {"a": a, "b": b})
    over = b if divisor == "input" else np.full_like(a, divisor)
    exact = {
        "floordiv": a // over,
        "floormod": a % over,
        "truncdiv": np.trunc(a / over).astype(int),
        "truncmod": np.fmod(a, over),
    }[op]
    np.testing.assert_array_equal(got["y"], exact.astype(NUMPY[dtype]))


def test_casts() -> None:
    x = np.array([0.0, -0.0, 1.5, -1.5, 3e9, -3e9, 1e30, np.nan, np.inf, 300.7], np.float32)
    load = Load("x", Var("i"))
    for dtype in ("i32", "i64", "u8", "i8", "bool"):
        got, _ = run(elementwise(len(x), Cast(load, dtype), dtype, x="f32"), {"x": x})
        if dtype == "bool":
            expected = x != 0
        else:
            info = np.iinfo(NUMPY[dtype])
            clean = np.nan_to_num(x.astype(np.float64), nan=0.0)
            expected = np.array(
                [min(max(int(v), info.min), info.max) for v in clip(clean)], NUMPY[dtype]
            )
        np.testing.assert_array_equal(got["y"], expected, err_msg=dtype)
    whole = np.array([-5, 0, 7, 300, -300, 2**31 - 1], np.int64)
    for dtype in ("f32", "i32", "i8", "u8", "bool"):
        got, _ = run(elementwise(6, Cast(load, dtype), dtype, x="i64"), {"x": whole})
        np.testing.assert_array_equal(got["y"], whole.astype(NUMPY[dtype]), err_msg=dtype)


def clip(values: np.ndarray) -> np.ndarray:
    return np.clip(np.trunc(values), -1e25, 1e25)


def test_attention_mask_with_bool_and_i64() -> None:
    rows, n = 3, 14
    mask = Load("mask", Var("j"))
    keep = Binary("and", Load("on", Var("j")), Call("not", (Load("off", Var("i")),)))
    seen = Binary("and", keep, Binary("gt", Cast(mask, "i32"), int32(0)))
    value = Select(keep, at("x", (rows, n), "i", "j"), f32(-1e30))
    low = (f32(1.0) - Cast(seen, "f32")) * f32(-10.0)
    program = Program(
        "mask",
        (
            Buffer("x", "f32", (rows, n), "input"),
            Buffer("on", "bool", (n,), "input"),
            Buffer("off", "bool", (rows,), "input"),
            Buffer("mask", "i64", (n,), "input"),
            Buffer("y", "f32", (rows, n), "output"),
            Buffer("z", "f32", (rows, n), "output"),
        ),
        (
            stage("y", {"i": rows, "j": n}, [Store("y", flat((rows, n), "i", "j"), value)]),
            stage("z", {"i": rows, "j": n}, [Store("z", flat((rows, n), "i", "j"), low)]),
        ),
    )
    rng = np.random.default_rng(5)
    inputs = {
        "x": floats(rows, n),
        "on": rng.random(n) < 0.5,
        "off": np.array([False, True, False]),
        "mask": rng.integers(0, 2, n),
    }
    got, _ = run(program, inputs)
    keep_np = inputs["on"] & ~inputs["off"][:, None]
    np.testing.assert_array_equal(got["y"], np.where(keep_np, inputs["x"], np.float32(-1e30)))
    seen_np = keep_np & (inputs["mask"] > 0)
    np.testing.assert_array_equal(got["z"], (1 - seen_np.astype(np.float32)) * -10)


@pytest.mark.parametrize("n", [1, 3, 4, 1023, 1029, 4096])
def test_one_axis_is_cut_into_blocks(n: int) -> None:
    value = Load("x", Var("i")) * 2.0 + 1.0
    got, kernel = run(elementwise(n, value, x="f32"), {"x": floats(n)}, parts=3)
    np.testing.assert_array_equal(got["y"], floats(n) * 2 + 1)
    assert kernel.parallel_extent == -(-n // 1024) or n < 4


@pytest.mark.parametrize("tier", TIERS)
def test_powers_and_float_division(tier: str) -> None:
    n = 21
    x, y = np.abs(floats(n)) + 0.1, floats(n, seed=3)
    a, b = Load("x", Var("i")), Load("z", Var("i"))
    cases = {
        "pow": (Binary("pow", a, b), x.astype(np.float64) ** y),
        "cube": (Binary("pow", b, f32(3.0)), y.astype(np.float64) ** 3),
        "mod": (b % a, np.mod(y.astype(np.float64), x)),
    }
    for name, (expr, expected) in cases.items():
        got, _ = run(elementwise(n, expr, x="f32", z="f32"), {"x": x, "z": y}, tier)
        np.testing.assert_allclose(got["y"], expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_number_in_front_leaves_the_rest_its_threads() -> None:
    """``round(x / scale) - zero`` with the zero point computed from another input."""
    rows, n = 6, 19
    zero = Cast(Call("round", (Load("low", int32(0)),)), "u8")
    moved = Call("round", (at("x", (rows, n), "i", "j") / Load("s", int32(0)),))
    value = moved - Cast(Load("zero", int32(0)), "f32")
    program = Program(
        "quantise",
        (
            Buffer("x", "f32", (rows, n), "input"),
            Buffer("s", "f32", (), "input"),
            Buffer("low", "f32", (), "input"),
            Buffer("y", "f32", (rows, n), "output"),
            Buffer("zero", "u8", (), "workspace"),
        ),
        (
            stage("zero", {}, [Store("zero", int32(0), zero)]),
            stage("y", {"i": rows, "j": n}, [Store("y", flat((rows, n), "i", "j"), value)]),
        ),
    )
    x, scale = floats(rows, n), np.float32(0.03)
    got, kernel = run(program, {"x": x, "s": scale, "low": np.float32(116.6)}, parts=rows)
    np.testing.assert_array_equal(got["y"], np.round(x / scale) - np.float32(117))
    assert kernel.parallel_extent == rows


def test_stages_that_share_nothing_run_in_one_piece() -> None:
    n = 12
    reverse = Load("t", int32(n - 1) - Var("i"))
    program = Program(
        "two",
        (
            Buffer("x", "f32", (n,), "input"),
            Buffer("y", "f32", (n,), "output"),
            Buffer("t", "f32", (n,), "workspace"),
        ),
        (
            stage("t", {"i": n}, [Store("t", Var("i"), Call("neg", (Load("x", Var("i")),)))]),
            stage("y", {"i": n}, [Store("y", Var("i"), reverse)]),
        ),
    )
    got, kernel = run(program, {"x": floats(n)})
    np.testing.assert_array_equal(got["y"], -floats(n)[::-1])
    assert kernel.parallel_extent == 1


def test_float16_is_stored_rounded_and_computed_as_f32() -> None:
    n = 19
    program = elementwise(n, Load("x", Var("i")) * 1.1, x="f16")
    x = floats(n).astype(np.float16)
    got, _ = run(program, {"x": x})
    np.testing.assert_array_equal(got["y"], x.astype(np.float32) * np.float32(1.1))
