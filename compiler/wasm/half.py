"""Half precision (IEEE 754 binary16) in 32-bit lanes, by integer arithmetic: Wasm has none."""

from __future__ import annotations

from collections.abc import Callable

from nnjit_studio.compiler.wasm.ir import Node, Op, i32
from nnjit_studio.compiler.wasm.vector_math import constant, integers

Let = Callable[[Node], Node]

_OVERFLOW = 0x477FF000  # bits of 65520, the smallest number that rounds to infinity
_NORMAL = 0x38800000  # bits of 2**-14
_INFINITY = 0x7F800000
_SIGN_AND_HALF = -0x70002000  # 0x8FFFE000: a sign, and the exponent and fraction of a half


def _i(name: str, *args: Node) -> Node:
    return Op(f"i32x4.{name}", args)


def to_float(let: Let, half: Node) -> Node:
    """f32x4 of the 16 low bits of each lane; exact, denormals included."""
    half = let(half)
    bits = let(_i("shl", Op("v128.and", (half, integers(0x7FFF))), i32(13)))
    # The exponent's bias is put right by a multiplication, which also serves denormals.
    value = Op("f32x4.mul", (bits, constant(2.0**112)))
    beyond = Op("v128.and", (_i("ge_s", bits, integers(31 << 23)), integers(_INFINITY)))
    sign = _i("shl", Op("v128.and", (half, integers(0x8000))), i32(16))
    return Op("v128.or", (Op("v128.or", (value, beyond)), sign))


FROM_THE_BOTTOM, FROM_THE_TOP = 13, -3
"""Bits to the left that bring a half's exponent in place: from a lane's low bits, where it is
extended by its sign, and from its high ones."""


def finite(halves: Node, left: int) -> Node:
    """f32x4 of halves that are neither infinite nor NaN: exact, denormals included."""
    moved = _i("shl", halves, i32(left)) if left > 0 else _i("shr_s", halves, i32(-left))
    return Op("f32x4.mul", (Op("v128.and", (moved, integers(_SIGN_AND_HALF))), constant(2.0**112)))


def from_float(let: Let, value: Node) -> Node:
    """i32x4 with the half in the 16 low bits, rounded to the nearest, ties to even."""
    value = let(value)
    bits = let(Op("v128.and", (value, integers(0x7FFFFFFF))))
    odd = Op("v128.and", (_i("shr_u", bits, i32(13)), integers(1)))
    rebased = _i("add", _i("add", bits, integers(0xFFF - (112 << 23))), odd)
    result = _i("shr_u", rebased, i32(13))
    # Adding 0.5 leaves the multiple of 2**-24, a half's smallest step, in the last bits.
    tiny = _i("sub", Op("f32x4.add", (bits, constant(0.5))), constant(0.5))
    result = Op("v128.bitselect", (tiny, result, _i("lt_s", bits, integers(_NORMAL))))
    infinite = _i("ge_s", bits, integers(_OVERFLOW))
    result = Op("v128.bitselect", (integers(0x7C00), result, infinite))
    nan = _i("gt_s", bits, integers(_INFINITY))
    result = Op("v128.bitselect", (integers(0x7E00), result, nan))
    sign = Op("v128.and", (_i("shr_u", value, i32(16)), integers(0x8000)))
    return Op("v128.or", (result, sign))


def rounded(let: Let, value: Node) -> Node:
    """f32x4 rounded to what a half can hold."""
    return to_float(let, from_float(let, value))
