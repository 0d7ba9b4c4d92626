"""Lowering of tensor IR expressions to four lanes along one loop variable.

f32 and i32 are lanes of their own kind, bool is a mask of ones or zeros,
8-bit integers are widened to i32 lanes.
"""

from __future__ import annotations

import math
import struct

from nnjit_studio.compiler.ir.affine import (
    LANES,
    Affine,
    affine,
    depends,
    loads,
    stride,
    variables,
    walk,
)
from nnjit_studio.compiler.ir.dtypes import computed
from nnjit_studio.compiler.ir.tensor_ir import Binary, Call, Cast, Const, Expr, Load, Select, Var
from nnjit_studio.compiler.wasm import half, ir
from nnjit_studio.compiler.wasm.context import Context
from nnjit_studio.compiler.wasm.instructions import ROUNDED_PRODUCT
from nnjit_studio.compiler.wasm.ir import IfElse, LocalGet, LocalSet, Node, Op, i32
from nnjit_studio.compiler.wasm.scalar import (
    BITWISE_OPS,
    F32_CALLS,
    F32_COMPARE,
    INT_COMPARE,
    INTEGER_RANGES,
    SMALL_POWERS,
    convert,
    elementary,
    float_division,
    is_costly,
    scalar,
    small_power,
)
from nnjit_studio.compiler.wasm.vector_math import constant, integers, power
from nnjit_studio.errors import BugError

BYTE_RANGES = {"u8": (0.0, 255.0), "i8": (-128.0, 127.0)}
_LOW_BYTES = ir.Const("v128", bytes((0, 4, 8, 12)) * 4)
_RAMP = ir.Const("v128", struct.pack("<4I", *range(LANES)))


def vector(ctx: Context, expr: Expr, var: str) -> Node:
    """Four values of ``expr``, at ``var`` to ``var + 3``."""
    if isinstance(expr, Var) and expr.name in ctx.vectors:
        return LocalGet(ctx.accumulators[expr.name])
    if not _varies(ctx, expr, var):
        return _splat(ctx, expr)
    if is_costly(expr):
        return ctx.once((expr, var), "v128", lambda: _vector(ctx, expr, var))
    return _vector(ctx, expr, var)


def _vector(ctx: Context, expr: Expr, var: str) -> Node:
    if isinstance(expr, Var):
        return Op("i32x4.add", (Op("i32x4.splat", (ctx.variable(var),)), _RAMP))
    if isinstance(expr, Load):
        return _load(ctx, expr, var)
    if isinstance(expr, Binary):
        return _binary(ctx, expr, var)
    if isinstance(expr, Call):
        return _call(ctx, expr, var)
    if isinstance(expr, Select):
        return _select(ctx, expr, var)
    assert isinstance(expr, Cast)
    if _is_whole(ctx, expr):
        return _byte(vector(ctx, expr.value, var), expr.dtype)
    value = _convert(vector(ctx, expr.value, var), ctx.dtype(expr.value), computed(expr.dtype))
    return half.rounded(ctx.keep_vector, value) if expr.dtype == "f16" else value


def _varies(ctx: Context, expr: Expr, var: str) -> bool:
    return any(isinstance(e, Var) and (e.name == var or e.name in ctx.vectors) for e in walk(expr))


def _splat(ctx: Context, expr: Expr) -> Node:
    dtype = ctx.dtype(expr)
    if isinstance(expr, Const):
        if dtype == "f32":
            return constant(float(expr.value))
        return integers(-int(bool(expr.value)) if dtype == "bool" else int(expr.value))
    return ctx.invariant((expr, "vector"), expr, "v128", lambda: _splat_of(ctx, expr, dtype))


def _splat_of(ctx: Context, expr: Expr, dtype: str) -> Node:
    return splat(scalar(ctx, expr), dtype)


def splat(value: Node, dtype: str) -> Node:
    """One scalar in all lanes."""
    if dtype == "f32":
        return Op("f32x4.splat", (value,))
    if dtype == "bool":
        return Op("i32x4.splat", (Op("i32.sub", (i32(0), value)),))
    if dtype == "i64":
        raise BugError("A schedule asked for lanes of i64.")
    return Op("i32x4.splat", (value,))


def shifted(expr: Expr, var: str, lane: int) -> Expr:
    """The expression with ``var + lane`` in place of ``var``."""
    if lane == 0 or not depends(expr, var):
        return expr
    if isinstance(expr, Var):
        return Binary("add", expr, Const(lane, "i32"))
    if isinstance(expr, Load):
        return Load(expr.buffer, shifted(expr.index, var, lane))
    if isinstance(expr, Binary):
        return Binary(expr.op, shifted(expr.a, var, lane), shifted(expr.b, var, lane))
    if isinstance(expr, Call):
        return Call(expr.fn, tuple(shifted(a, var, lane) for a in expr.args))
    if isinstance(expr, Select):
        parts = (expr.condition, expr.then, expr.otherwise)
        return Select(*(shifted(e, var, lane) for e in parts))
    assert isinstance(expr, Cast)
    return Cast(shifted(expr.value, var, lane), expr.dtype)


def _load(ctx: Context, expr: Load, var: str) -> Node:
    dtype = ctx.dtypes[expr.buffer]
    if stride(expr.index, var) != 1:
        return _gather(ctx, expr, var, dtype)
    address = ctx.address(expr.buffer, affine(expr.index))
    if dtype in ("f32", "i32"):
        return ir.Load("v128.load", address, 0, expr.buffer)
    if dtype == "f16" and expr.buffer in ctx.weights:
        return half.finite(
            ir.Load("v128.load16x4_s", address, 0, expr.buffer), half.FROM_THE_BOTTOM
        )
    if dtype == "f16":
        halves = ir.Load("v128.load64_zero", address, 0, expr.buffer)
        return half.to_float(ctx.keep_vector, Op("i32x4.extend_low_i16x8_u", (halves,)))
    suffix = "s" if dtype == "i8" else "u"
    quad = ir.Load("v128.load32_zero", address, 0, expr.buffer)
    wide = Op(
        f"i32x4.extend_low_i16x8_{suffix}", (Op(f"i16x8.extend_low_i8x16_{suffix}", (quad,)),)
    )
    return Op("i32x4.ne", (wide, integers(0))) if dtype == "bool" else wide


def _gather(ctx: Context, expr: Load, var: str, dtype: str) -> Node:
    if dtype in ("f32", "i32") and stride(expr.index, var) == 2:
        # Elements 0 to 3 and 3 to 6: nothing behind the last lane is touched.
        terms, constant = affine(expr.index)
        low, high = (
            ir.Load("v128.load", ctx.address(expr.buffer, Affine(terms, at)), 0, expr.buffer)
            for at in (constant, constant + 3)
        )
        return Op("i32x4.shuffle_0257", (low, high))
    lanes = [scalar(ctx, shifted(expr, var, lane)) for lane in range(LANES)]
    shape = "f32x4" if computed(dtype) == "f32" else "i32x4"
    value: Node = Op(f"{shape}.splat", (lanes[0],))
    for lane in range(1, LANES):
        value = Op(f"{shape}.replace_lane", (value, lanes[lane]), lane)
    return Op("i32x4.ne", (value, integers(0))) if dtype == "bool" else value


def _typed(ctx: Context, expr: Expr, var: str, dtype: str) -> Node:
    source = ctx.dtype(expr)
    if not _varies(ctx, expr, var) and source == "i64":
        return splat(convert(scalar(ctx, expr), source, dtype), dtype)
    return _convert(vector(ctx, expr, var), source, dtype)


def _binary(ctx: Context, expr: Binary, var: str) -> Node:
    op = expr.op
    if op in ("and", "or"):
        return Op(f"v128.{op}", (vector(ctx, expr.a, var), vector(ctx, expr.b, var)))
    dtype = ctx.dtype(Binary("add", expr.a, expr.b))
    if op == "pow":
        return _power(ctx, expr, var)
    if op == "add" and dtype == "f32":
        for product, rest in ((expr.a, expr.b), (expr.b, expr.a)):
            if not isinstance(product, Binary) or product.op != "mul":
                continue
            if _varies(ctx, product, var) and not of_integers(ctx, product) and ctx.relaxed():
                parts = (product.a, product.b, rest)
                return Op("f32x4.relaxed_madd", tuple(_typed(ctx, e, var, dtype) for e in parts))
    a, b = _typed(ctx, expr.a, var, dtype), _typed(ctx, expr.b, var, dtype)
    if dtype == "f32":
        if op in F32_COMPARE:
            return Op(f"f32x4.{F32_COMPARE[op]}", (a, b))
        if op in ("floordiv", "floormod", "truncdiv", "truncmod"):
            return float_division(ctx, "f32x4", op, a, b)
        if op == "mul" and of_integers(ctx, expr) and ctx.relaxed():
            return Op(ROUNDED_PRODUCT, (a, b))
        for value, limit, number in ((a, b, expr.b), (b, a, expr.a)):
            if op in ("min", "max") and isinstance(number, Const):
                return _limited(op, value, limit, float(number.value))
        return Op(f"f32x4.{op}", (a, b))
    if op in BITWISE_OPS:
        return Op(f"v128.{BITWISE_OPS[op]}", (a, b))
    if op in INT_COMPARE:
        return Op(f"i32x4.{INT_COMPARE[op]}", (a, b))
    if op == "shr":
        return Op("i32x4.shr_s", (a, scalar(ctx, expr.b)))
    return Op(f"i32x4.{op}_s" if op in ("min", "max") else f"i32x4.{op}", (a, b))


def _limited(op: str, value: Node, limit: Node, number: float) -> Node:
    """``min`` or ``max`` with a number, which may stand nine instructions long on x64.

    ``pmin`` and ``pmax`` are one there, and keep a NaN of their first operand; of
    two zeros they keep the first too, whatever its sign.
    """
    if math.isnan(number) or (number == 0 and math.copysign(1, number) < 0):
        return Op(f"f32x4.{op}", (value, limit))
    chosen = Op(f"f32x4.p{op}", (value, limit))
    # -0 plus 0 is 0, as is the larger of both.
    return Op("f32x4.add", (chosen, limit)) if op == "max" and number == 0 else chosen


def of_integers(ctx: Context, product: Expr) -> bool:
    """Whether integers that were loaded or summed are scaled: formats say that this is rounded.

    A fused addition would not round it, and the next quantisation would find other steps.
    """
    return any(
        isinstance(e, Cast)
        and e.dtype == "f32"
        and ctx.dtype(e.value) in ("i32", *BYTE_RANGES)
        and (loads(e.value) or not ctx.vectors.isdisjoint(variables(e.value)))
        for e in walk(product)
    )


def _power(ctx: Context, expr: Binary, var: str) -> Node:
    base = _typed(ctx, expr.a, var, "f32")
    if isinstance(expr.b, Const) and expr.b.value in SMALL_POWERS:
        return small_power("f32x4", ctx.keep_vector, base, float(expr.b.value))
    return power(ctx.keep_vector, base, _typed(ctx, expr.b, var, "f32"))


def _call(ctx: Context, expr: Call, var: str) -> Node:
    argument, function = elementary(ctx, expr)
    dtype = ctx.dtype(argument)
    x = vector(ctx, argument, var)
    if expr.fn in ("bits", "from_bits"):
        return x  # lanes have no dtype
    if expr.fn == "not":
        return Op("v128.not", (_convert(x, dtype, "bool"),))
    if expr.fn == "bitnot":
        return Op("v128.not", (x,))
    if dtype == "i32":
        return Op(f"i32x4.{expr.fn}", (x,))
    if expr.fn in F32_CALLS:
        return Op(f"f32x4.{F32_CALLS[expr.fn]}", (x,))
    if expr.fn == "rsqrt":
        return Op("f32x4.div", (constant(1.0), Op("f32x4.sqrt", (x,))))
    assert function
    return function(ctx.keep_vector, x)


def _select(ctx: Context, expr: Select, var: str) -> Node:
    dtype = ctx.dtype(expr)
    sides = (expr.then, expr.otherwise)
    if _varies(ctx, expr.condition, var):
        mask = vector(ctx, expr.condition, var)
        then, otherwise = (_typed(ctx, side, var, dtype) for side in sides)
        return Op("v128.bitselect", (then, otherwise, mask))
    condition = scalar(ctx, expr.condition)
    branches = []
    for side in sides:
        with ctx.branch() as out:
            value = _typed(ctx, side, var, dtype)
        branches.append([*out, value])
    result = ctx.local("v128")
    ctx.out.append(LocalSet(result, IfElse(condition, branches[0], branches[1], "v128")))
    return LocalGet(result)


def _convert(value: Node, source: str, target: str) -> Node:
    if source == target:
        return value
    if target == "f32":
        if source == "bool":
            return Op("v128.and", (value, constant(1.0)))
        return Op("f32x4.convert_i32x4_s", (value,))
    if target == "bool":
        if source == "f32":
            return Op("f32x4.ne", (value, constant(0.0)))
        return Op("i32x4.ne", (value, integers(0)))
    if source == "f32":
        value = Op("i32x4.trunc_sat_f32x4_s", (value,))
        if target in INTEGER_RANGES:
            low, high = (integers(int(n)) for n in INTEGER_RANGES[target])
            value = Op("i32x4.min_s", (Op("i32x4.max_s", (value, low)), high))
        return value
    if source == "bool":
        return Op("v128.and", (value, integers(1)))
    if target == "u8":
        return Op("v128.and", (value, integers(0xFF)))
    if target == "i8":
        return Op("i32x4.shr_s", (Op("i32x4.shl", (value, i32(24))), i32(24)))
    return value


def _is_whole(ctx: Context, expr: Cast) -> bool:
    of_floats = expr.dtype in BYTE_RANGES and ctx.dtype(expr.value) == "f32"
    return of_floats and _is_byte(ctx, expr)


def _is_byte(ctx: Context, expr: Cast) -> bool:
    """Whether a float is rounded and inside the range of the bytes that it becomes."""
    low, high = BYTE_RANGES[expr.dtype]
    limits: dict[str, float] = {}
    value, rounded = expr.value, False
    while True:
        if isinstance(value, Call) and value.fn == "round":
            value, rounded = value.args[0], True
        elif (
            isinstance(value, Binary)
            and value.op in ("min", "max")
            and isinstance(value.b, Const)
            and float(value.b.value).is_integer()
        ):
            limits.setdefault(value.op, float(value.b.value))
            value = value.a
        else:
            break
    rounded = rounded or _is_rounded(ctx, value)
    inside = low <= limits.get("max", low - 1) <= limits.get("min", high + 1) <= high
    return rounded and inside


def _is_rounded(ctx: Context, value: Expr) -> bool:
    """Whether a value is whole: rounded, and moved by a zero point perhaps."""
    if isinstance(value, Binary) and value.op in ("add", "sub"):
        zero = value.b
        whole = isinstance(zero, Const) and float(zero.value).is_integer()
        cast = isinstance(zero, Cast) and ctx.dtype(zero.value) in ("i32", *BYTE_RANGES)
        return (whole or cast) and _is_rounded(ctx, value.a)
    return isinstance(value, Call) and value.fn == "round"


def _byte(value: Node, dtype: str) -> Node:
    """A whole number of float32 as a byte. NaN of the usual bits gives 0 here too.

    Saturating truncation is seven instructions on x64.
    """
    return _convert(_with_low_bits(value), "i32", dtype)


def _with_low_bits(value: Node) -> Node:
    """The number behind 2^23 and half of it, where the last bits are units."""
    return Op("f32x4.add", (value, constant(1.5 * 2.0**23)))


def low_bytes(ctx: Context, expr: Expr, var: str) -> Node:
    """The low byte of four values each, in the first four bytes."""
    if isinstance(expr, Cast) and _is_whole(ctx, expr):
        value = _with_low_bits(vector(ctx, expr.value, var))
    else:
        value = vector(ctx, expr, var)
    return Op("i8x16.relaxed_swizzle" if ctx.relaxed() else "i8x16.swizzle", (value, _LOW_BYTES))
