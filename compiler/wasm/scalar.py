"""Lowering of tensor IR expressions to one value at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nnjit_studio.compiler.ir.affine import affine, walk
from nnjit_studio.compiler.ir.dtypes import computed
from nnjit_studio.compiler.ir.tensor_ir import (
    BYTE_DOT_FLIP,
    COMPARISONS,
    NO_FLIP,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Var,
    whole,
)
from nnjit_studio.compiler.wasm import half, ir
from nnjit_studio.compiler.wasm.context import STORAGE_BYTES, WASM_TYPE, Context
from nnjit_studio.compiler.wasm.ir import IfElse, LocalGet, Node, Op, i32
from nnjit_studio.compiler.wasm.vector_inverse import FUNCTIONS as INVERSE
from nnjit_studio.compiler.wasm.vector_math import FUNCTIONS, erf_of_root, power
from nnjit_studio.errors import CompileError

LOADS = {
    "f32": "f32.load", "f16": "i32.load16_u", "i64": "i64.load", "i32": "i32.load",
    "i8": "i32.load8_s", "u8": "i32.load8_u", "bool": "i32.load8_u",
}  # fmt: skip
F32_CALLS = {
    "sqrt": "sqrt", "abs": "abs", "neg": "neg", "floor": "floor", "ceil": "ceil",
    "round": "nearest", "trunc": "trunc",
}  # fmt: skip
F32_COMPARE = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "ne"}
BITWISE_OPS = {"bitand": "and", "bitor": "or", "bitxor": "xor"}
BITWISE = (*BITWISE_OPS, "shl", "shr")
Elementary = Callable[[Callable[[Node], Node], Node], Node]
ELEMENTARY: dict[str, Elementary] = {**FUNCTIONS, **INVERSE}
_ROOTS = (("div", ir.round_f32(2**0.5)), ("mul", ir.round_f32(0.5**0.5)))
INT_COMPARE = {"lt": "lt_s", "le": "le_s", "gt": "gt_s", "ge": "ge_s", "eq": "eq", "ne": "ne"}
_DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")
_CHEAP = ("not", "neg", "abs", "bits", "from_bits")
INTEGER_RANGES = {"u8": (0.0, 255.0), "i8": (-128.0, 127.0)}


def f32(value: float) -> ir.Const:
    return ir.Const("f32", ir.round_f32(value))


def index(ctx: Context, expr: Expr) -> Node:
    """An index as i32; indices never leave its range because memory does not."""
    if any(_is_computed(ctx, e) for e in walk(expr)):
        return convert(scalar(ctx, expr), ctx.dtype(expr), "i32")
    return _scalar(ctx, _in_i32(expr))


def _is_computed(ctx: Context, expr: Expr) -> bool:
    return isinstance(expr, Load) or (isinstance(expr, Var) and expr.name in ctx.accumulators)


def _in_i32(expr: Expr) -> Expr:
    if isinstance(expr, Const):
        return Const(expr.value, "i32") if expr.dtype == "i64" else expr
    if isinstance(expr, Binary):
        return Binary(expr.op, _in_i32(expr.a), _in_i32(expr.b))
    if isinstance(expr, Select):
        return Select(_in_i32(expr.condition), _in_i32(expr.then), _in_i32(expr.otherwise))
    if isinstance(expr, Cast):
        inner = _in_i32(expr.value)
        return inner if expr.dtype == "i64" else Cast(inner, expr.dtype)
    if isinstance(expr, Call):
        return Call(expr.fn, tuple(_in_i32(a) for a in expr.args))
    return expr


def scalar(ctx: Context, expr: Expr) -> Node:
    """The value in the Wasm type of its dtype; bool is 0 or 1."""
    if is_costly(expr):
        type = WASM_TYPE[ctx.dtype(expr)]
        key = (expr, "scalar")
        compute = partial(ctx.once, key, type, lambda: _scalar(ctx, expr))
        return ctx.invariant(key, expr, type, compute)
    return _scalar(ctx, expr)


def is_costly(expr: Expr) -> bool:
    """Worth keeping out of a loop in which it does not change."""
    return (isinstance(expr, Call) and expr.fn not in _CHEAP) or (
        isinstance(expr, Binary) and expr.op in ("div", "pow")
    )


def elementary(ctx: Context, call: Call) -> tuple[Expr, Elementary | None]:
    """What a function is computed of, and how; a GELU's root is part of its error function."""
    argument = call.args[0]
    if call.fn == "erf" and isinstance(argument, Binary) and ctx.dtype(argument.a) == "f32":
        factor = argument.b.value if isinstance(argument.b, Const) else 0
        if (argument.op, ir.round_f32(factor)) in _ROOTS:
            return argument.a, erf_of_root
    return argument, ELEMENTARY.get(call.fn)


def _scalar(ctx: Context, expr: Expr) -> Node:
    if isinstance(expr, Const):
        return constant(expr.value, expr.dtype)
    if isinstance(expr, Var):
        if expr.name in ctx.accumulators:
            return LocalGet(ctx.accumulators[expr.name])
        return ctx.variable(expr.name)
    if isinstance(expr, Load):
        address = ctx.address(expr.buffer, affine(expr.index))
        dtype = ctx.dtypes[expr.buffer]
        loaded = ir.Load(LOADS[dtype], address, 0, expr.buffer)
        return _on_lanes(ctx, half.to_float, "i32x4", loaded) if dtype == "f16" else loaded
    if isinstance(expr, Binary):
        return _binary(ctx, expr)
    if isinstance(expr, Call):
        return _call(ctx, expr)
    if isinstance(expr, Select):
        return select(ctx, expr)
    value = convert(scalar(ctx, expr.value), ctx.dtype(expr.value), computed(expr.dtype))
    return _on_lanes(ctx, half.rounded, "f32x4", value) if expr.dtype == "f16" else value


def _on_lanes(
    ctx: Context, fn: Callable[[Callable[[Node], Node], Node], Node], shape: str, value: Node
) -> Node:
    lanes = fn(ctx.keep_vector, Op(f"{shape}.splat", (value,)))
    return Op("f32x4.extract_lane", (lanes,), 0)


def to_half(ctx: Context, value: Node) -> Node:
    """The 16 bits of a f32 rounded to f16, as i32."""
    lanes = half.from_float(ctx.keep_vector, Op("f32x4.splat", (value,)))
    return Op("i32x4.extract_lane", (lanes,), 0)


def constant(value: float | int, dtype: str) -> Node:
    if computed(dtype) == "f32":
        return f32(value)
    if dtype == "bool":
        return i32(int(bool(value)))
    return ir.Const(WASM_TYPE[dtype], whole(value))


def typed(ctx: Context, expr: Expr, dtype: str) -> Node:
    """The value converted to a dtype."""
    return convert(scalar(ctx, expr), ctx.dtype(expr), computed(dtype))


def select(ctx: Context, expr: Select) -> Node:
    """Both sides where that is harmless and cheap, else only the side that is taken."""
    dtype = ctx.dtype(expr)
    condition = scalar(ctx, expr.condition)
    sides = (expr.then, expr.otherwise)
    if all(ctx.safe(side) and not is_costly(side) for side in sides):
        then, otherwise = (typed(ctx, side, dtype) for side in sides)
        return Op("select", (then, otherwise, condition))
    branches = []
    for side in sides:
        with ctx.branch() as out:
            value = typed(ctx, side, dtype)
        branches.append([*out, value])
    result = ctx.local(WASM_TYPE[dtype])
    ctx.out.append(
        ir.LocalSet(result, IfElse(condition, branches[0], branches[1], WASM_TYPE[dtype]))
    )
    return LocalGet(result)


def _binary(ctx: Context, expr: Binary) -> Node:
    op = expr.op
    if op in ("and", "or"):
        # The right side may only be meant to run when the left one allows it.
        if not ctx.safe(expr.b):
            yes, no = Const(1, "bool"), Const(0, "bool")
            lazy = Select(expr.a, expr.b, no) if op == "and" else Select(expr.a, yes, expr.b)
            return select(ctx, lazy)
        return Op(f"i32.{op}", (scalar(ctx, expr.a), scalar(ctx, expr.b)))
    dtype = ctx.dtype(Binary("add", expr.a, expr.b))
    if op == "pow":
        if dtype != "f32":
            raise CompileError(f"Integer power ({dtype}) has no kernel.", "Cast it to float32.")
        return _power(ctx, expr)
    if op in _DIVISIONS and dtype != "f32":
        return _divide(ctx, expr, dtype)
    a, b = typed(ctx, expr.a, dtype), typed(ctx, expr.b, dtype)
    type = WASM_TYPE[dtype]
    if op in BITWISE:
        return _bitwise(ctx, op, a, b, dtype)
    if op in COMPARISONS:
        return Op(f"{type}.{(F32_COMPARE if dtype == 'f32' else INT_COMPARE)[op]}", (a, b))
    if dtype == "f32":
        if op in _DIVISIONS:
            return float_division(ctx, "f32", op, a, b)
        return Op(f"f32.{op}", (a, b))
    if op in ("min", "max"):
        first, second = ctx.keep(type, a), ctx.keep(type, b)
        compare = Op(f"{type}.{'lt_s' if op == 'min' else 'gt_s'}", (first, second))
        return Op("select", (first, second, compare))
    if op == "div":
        raise CompileError(f"Division of {dtype} must say floordiv or truncdiv.")
    if type == "i32" and isinstance(b, ir.Const):
        if op == "add":
            return narrow(ir.add(a, b), dtype)
        if op == "mul":
            return narrow(ir.scale(a, whole(b.value)), dtype)
    return narrow(Op(f"{type}.{op}", (a, b)), dtype)


def _bitwise(ctx: Context, op: str, a: Node, b: Node, dtype: str) -> Node:
    type = WASM_TYPE[dtype]
    if op in BITWISE_OPS:
        return Op(f"{type}.{BITWISE_OPS[op]}", (a, b))
    bits = 8 * STORAGE_BYTES[dtype]
    amount = ctx.keep(type, b)
    inside = Op(f"{type}.lt_u", (amount, ir.Const(type, bits)))
    if op == "shl":
        shifted = Op(f"{type}.shl", (a, amount))
        return narrow(Op("select", (shifted, ir.Const(type, 0), inside)), dtype)
    # Small signed and unsigned values both stand in a signed word, so one shift serves.
    return Op(f"{type}.shr_s", (a, Op("select", (amount, ir.Const(type, bits - 1), inside))))


def narrow(value: Node, dtype: str) -> Node:
    """Wraps the result of 8-bit arithmetic, which runs in i32."""
    if dtype == "u8":
        return Op("i32.and", (value, i32(255)))
    return Op("i32.extend8_s", (value,)) if dtype == "i8" else value


def float_division(ctx: Context, prefix: str, op: str, a: Node, b: Node) -> Node:
    """Floor and trunc division and their remainders on f32 or f32x4."""
    type = "v128" if prefix == "f32x4" else "f32"
    rounding = f"{prefix}.{'floor' if op.startswith('floor') else 'trunc'}"
    if op.endswith("div"):
        return Op(rounding, (Op(f"{prefix}.div", (a, b)),))
    x, y = ctx.keep(type, a), ctx.keep(type, b)
    quotient = Op(rounding, (Op(f"{prefix}.div", (x, y)),))
    return Op(f"{prefix}.sub", (x, Op(f"{prefix}.mul", (quotient, y))))


def _divide(ctx: Context, expr: Binary, dtype: str) -> Node:
    type = WASM_TYPE[dtype]
    op = expr.op
    a, b = typed(ctx, expr.a, dtype), typed(ctx, expr.b, dtype)
    quotient = op.endswith("div")
    divisor = whole(expr.b.value) if isinstance(expr.b, Const) else 0
    natural = ctx.bounds(expr.a)[0] >= 0 and (divisor > 0 or ctx.bounds(expr.b)[0] > 0)
    if divisor > 0 and divisor & (divisor - 1) == 0 and (natural or op.startswith("floor")):
        # An arithmetic shift rounds down and a mask is the floor remainder, for any sign.
        if quotient:
            shift = ir.Const(type, divisor.bit_length() - 1)
            return a if divisor == 1 else Op(f"{type}.shr_s", (a, shift))
        return Op(f"{type}.and", (a, ir.Const(type, divisor - 1)))
    if natural:
        return Op(f"{type}.{'div_u' if quotient else 'rem_u'}", (a, b))
    zero = ir.Const(type, 0)
    x, y = ctx.keep(type, a), ctx.keep(type, b)
    regular: Node | None = None
    safe: Node = y
    if divisor in (0, -1):
        # By 0 and by -1 (which traps for the smallest number) the quotient is x * y.
        one = ir.Const(type, 1)
        regular = ctx.keep("i32", Op(f"{type}.gt_u", (Op(f"{type}.add", (y, one)), one)))
        safe = ctx.keep(type, Op("select", (y, one, regular)))

    def divided() -> Node:
        value = Op(f"{type}.div_s", (x, safe))
        return (
            value if regular is None else Op("select", (value, Op(f"{type}.mul", (x, y)), regular))
        )

    if op.startswith("trunc"):
        value = divided() if quotient else Op(f"{type}.rem_s", (x, safe))
        return narrow(value, dtype)
    remainder = ctx.keep(type, Op(f"{type}.rem_s", (x, safe)))
    inexact = Op(f"{type}.ne", (remainder, zero))
    opposite = Op(f"{type}.lt_s", (Op(f"{type}.xor", (remainder, y)), zero))
    adjust = Op("i32.and", (inexact, opposite))
    if quotient:
        correction: Node = adjust if type == "i32" else Op("i64.extend_i32_u", (adjust,))
        return narrow(Op(f"{type}.sub", (divided(), correction)), dtype)
    return Op(f"{type}.add", (remainder, Op("select", (y, zero, adjust))))


def _call(ctx: Context, expr: Call) -> Node:
    if expr.fn == BYTE_DOT_FLIP:
        return _byte_dot_flip(ctx)
    argument, function = elementary(ctx, expr)
    dtype = ctx.dtype(argument)
    x = scalar(ctx, argument)
    if expr.fn == "bits":
        return Op("i32.reinterpret_f32", (x,))
    if expr.fn == "from_bits":
        return Op("f32.reinterpret_i32", (x,))
    if expr.fn == "not":
        return Op("i64.eqz" if dtype == "i64" else "i32.eqz", (x,))
    if dtype == "f32":
        if expr.fn in F32_CALLS:
            return Op(f"f32.{F32_CALLS[expr.fn]}", (x,))
        if expr.fn == "rsqrt":
            return Op("f32.div", (f32(1.0), Op("f32.sqrt", (x,))))
        assert function
        lanes = function(ctx.keep_vector, Op("f32x4.splat", (x,)))
        return Op("f32x4.extract_lane", (lanes,), 0)
    type = WASM_TYPE[dtype]
    zero = ir.Const(type, 0)
    if expr.fn == "bitnot":
        return narrow(Op(f"{type}.xor", (x, ir.Const(type, -1))), dtype)
    if expr.fn == "neg":
        return narrow(Op(f"{type}.sub", (zero, x)), dtype)
    if expr.fn == "abs":
        kept = ctx.keep(type, x)
        negative = Op(f"{type}.lt_s", (kept, zero))
        return narrow(Op("select", (Op(f"{type}.sub", (zero, kept)), kept, negative)), dtype)
    raise CompileError(f"{expr.fn} of {dtype} has no kernel.", "Cast its input to float32.")


def _byte_dot_flip(ctx: Context) -> Node:
    """Four products of -128 with the bytes 255 and 128, which no engine can get right by luck.

    Engines may do what their processor does with the highest bit, in the same way all the time:
    take it as a sign or not, and add pairs of products in 16 bits or in 32.
    """
    lowest, none = (ir.Const("v128", bytes((b,)) * 16) for b in (128, 0))
    others = ir.Const("v128", bytes((255,)) * 4 + bytes((128,)) * 12)
    dot = Op("i32x4.relaxed_dot_i8x16_i7x16_add_s", (lowest, others, none))
    sums = ctx.keep("v128", dot)
    unsigned, signed = (
        Op("i32.eq", (Op("i32x4.extract_lane", (sums,), lane), i32(value)))
        for lane, value in ((0, 4 * -128 * 255), (1, 4 * -128 * -128))
    )
    flip = Op("select", (i32(0), i32(NO_FLIP), signed))
    return Op("select", (i32(-0x7F7F7F80), flip, unsigned))


def _power(ctx: Context, expr: Binary) -> Node:
    base = typed(ctx, expr.a, "f32")
    if isinstance(expr.b, Const) and expr.b.value in SMALL_POWERS:
        return small_power("f32", lambda node: ctx.keep("f32", node), base, float(expr.b.value))
    exponent = typed(ctx, expr.b, "f32")
    lanes = (Op("f32x4.splat", (base,)), Op("f32x4.splat", (exponent,)))
    return Op("f32x4.extract_lane", (power(ctx.keep_vector, *lanes),), 0)


SMALL_POWERS = (0.5, 1.0, 2.0, 3.0, 4.0)


def small_power(prefix: str, keep: Callable[[Node], Node], base: Node, exponent: float) -> Node:
    """Exact rewrites of powers that models use, on f32 or f32x4."""
    if exponent == 0.5:
        return Op(f"{prefix}.sqrt", (base,))
    if exponent == 1.0:
        return base
    x = keep(base)
    square = keep(Op(f"{prefix}.mul", (x, x)))
    if exponent == 2.0:
        return square
    return Op(f"{prefix}.mul", (square, x if exponent == 3.0 else square))


def convert(value: Node, source: str, target: str) -> Node:
    """A cast: float to integer truncates and saturates, wide to narrow integer wraps."""
    if source == target:
        return value
    if target == "f32":
        if source == "i64":
            return Op("f32.convert_i64_s", (value,))
        return Op("f32.convert_i32_s", (value,))
    if target == "bool":
        if source == "f32":
            return Op("f32.ne", (value, f32(0.0)))
        type = WASM_TYPE[source]
        return Op(f"{type}.ne", (value, ir.Const(type, 0)))
    if source == "f32":
        if target in INTEGER_RANGES:
            low, high = INTEGER_RANGES[target]
            value = Op("f32.min", (Op("f32.max", (value, f32(low))), f32(high)))
        return Op(f"{WASM_TYPE[target]}.trunc_sat_f32_s", (value,))
    if target == "i64":
        return Op("i64.extend_i32_s", (value,))
    if source == "i64":
        value = Op("i32.wrap_i64", (value,))
    return narrow(value, target)
