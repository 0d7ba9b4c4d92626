"""Elementary functions on f32x4 as polynomials, without branches.

Largest errors against float64, over all ranges that the tests sample, in
units in the last place of the result: exp 2, tanh 6, erf 6, log 2, sigmoid 3,
sin and cos 2 for ``|x| <= 1000`` (beyond that the reduction loses digits; from
1e5 on the result has none). Infinities, NaN, denormals and overflow follow
the mathematical limits. erf and tanh are the epilogues of many matmuls, so
they pay for speed with digits: 6 ulp below 1 are 3 of ``1 + erf(x)``, what
GELU needs.

The polynomials are our own minimax fits of the relative error, found in
float64 by Lawson's reweighted least squares on Chebyshev nodes and rounded to
float32; the reductions are Cody and Waite's (Software Manual for the
Elementary Functions, 1980, chapters 5 to 8).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from nnjit_studio.compiler.ir.tensor_ir import POLYNOMIALS
from nnjit_studio.compiler.wasm.ir import Const, Node, Op, i32, round_f32

Let = Callable[[Node], Node]
"""Keeps a v128 in a new local and returns the read of it."""

_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4  # the first has 9 significant bits
_ROUNDER = 1.5 * 2.0**23
_HALF_BIAS = 126  # exponent of 1/2
_LEAST_EXPONENT = -87.3  # nearest to -126 ln 2; all larger results are no denormals
_PI_2 = (1.5703125, 4.837512969970703125e-4, 7.54978995489188216e-8)

# exp(r) = 1 + r + r^2 P(r), |r| <= ln(2)/2
_EXP = (0.49999994, 0.1666652, 0.041668393, 0.008368781, 0.0013814467)


class _Ratio(NamedTuple):
    """``x P(s) / Q(s)``, s = x^2, up to ``reach``, from where on the function rounds to 1."""

    reach: float
    top: tuple[float, ...]
    bottom: tuple[float, ...]


_TANH = _Ratio(
    9.02,
    (0.99999994, 0.133796737, 0.0034939805, 2.05825709e-05, 1.331781e-08),
    (1.0, 0.467129856, 0.0258708708, 0.000328300346, 7.76149193e-07),
)
_ERF = _Ratio(
    3.95,
    (1.12837923, 0.191540077, 0.0528738797, 0.00380766299, 0.000284666748, 2.0258592e-06),
    (1.0, 0.503080726, 0.114555188, 0.0150541011, 0.00117058668, 3.78301957e-05),
)
# The same of erf(x / sqrt(2)), of which GELU is made; of near roundings those of the least error.
_ERF_OF_ROOT = _Ratio(
    5.5861444,
    (0.79788458, 0.067719646, 0.0093468716, 0.00033655303, 1.2580612e-05, 4.4765628e-08),
    (1.0, 0.25154039, 0.028638797, 0.0018817629, 7.3161667e-05, 1.1821936e-06),
)
# log(1 + f) = f - f^2/2 + f^3 P(f), sqrt(1/2) <= 1 + f <= sqrt(2)
_LOG = (
    0.33333313, -0.25000009, 0.20002119, -0.16667996, 0.14219552,
    -0.12405589, 0.11888162, -0.11675652, 0.067466408,
)  # fmt: skip
# sin(x) = x + x s P(s) and cos(x) = 1 - s/2 + s^2 P(s), |x| <= pi/4
_SIN = (-0.16666667, 0.0083333291, -0.00019839233, 2.7173667e-06)
_COS = (0.041666646, -0.0013887251, 2.4425681e-05)


def constant(value: float) -> Const:
    """All four lanes of a f32x4."""
    return _floats(value, math.copysign(1, value))


@lru_cache(maxsize=256)
def _floats(value: float, sign: float) -> Const:
    # The sign tells apart what is equal: 0 and -0.
    return Const("v128", struct.pack("<4f", *[round_f32(value)] * 4))


@lru_cache(maxsize=256)
def integers(value: int) -> Const:
    """All four lanes of an i32x4."""
    return Const("v128", struct.pack("<4I", *[value & 0xFFFFFFFF] * 4))


_ROUNDER_BITS = integers(0x4B400000)


def _f(name: str, *args: Node) -> Node:
    return Op(f"f32x4.{name}", args)


def _i(name: str, *args: Node) -> Node:
    return Op(f"i32x4.{name}", args)


def _choose(mask: Node, then: Node, otherwise: Node) -> Node:
    return Op("v128.bitselect", (then, otherwise, mask))


def polynomial(x: Node, coefficients: Sequence[float]) -> Node:
    value: Node = constant(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = _f("add", _f("mul", value, x), constant(coefficient))
    return value


def exp(let: Let, x: Node) -> Node:
    # Beyond the clamp the result is 0 or infinite; scaling by two powers of two reaches both.
    raised, biased = _reduced_exp(let, let(_clamp(x, -104.0, 89.0)))
    power = let(_i("sub", biased, _ROUNDER_BITS))
    half = let(Op("i32x4.shr_s", (power, i32(1))))
    scaled = _f("mul", raised, _power_of_two(half))
    return _f("mul", scaled, _power_of_two(_i("sub", power, half)))


def exp_below(let: Let, x: Node) -> Node:
    """``exp(x)`` for ``x <= 0``, 0 where it is less than 1.7e-38: what a softmax needs."""
    r, biased = _reduced(let, let(_f("pmax", x, constant(_LEAST_EXPONENT))), _ROUNDER + _HALF_BIAS)
    # Half of 2^n by its bits alone: those of the least exponent are a zero.
    half = Op("i32x4.shl", (biased, i32(23)))
    return _f("mul", polynomial(r, [2 * c for c in (1.0, 1.0, *_EXP)]), half)


def _reduced_exp(let: Let, x: Node) -> tuple[Node, Node]:
    """``exp(x - n ln 2)``, n the integer nearest to ``x / ln 2``, and n plus ``_ROUNDER_BITS``."""
    r, biased = _reduced(let, x, _ROUNDER)
    tail = _f("add", r, _f("mul", _f("mul", r, r), polynomial(r, _EXP)))
    return _f("add", tail, constant(1.0)), biased


def _reduced(let: Let, x: Node, rounder: float) -> tuple[Node, Node]:
    """``x - n ln 2``, n the integer nearest to ``x / ln 2``, and n plus the rounder.

    A float of that size counts in ones, so adding it rounds, and its low bits are n.
    """
    biased = let(_f("add", _f("mul", x, constant(math.log2(math.e))), constant(rounder)))
    n = let(_f("sub", biased, constant(rounder)))
    high = _f("sub", x, _f("mul", n, constant(_LN2_HIGH)))
    return let(_f("sub", high, _f("mul", n, constant(_LN2_LOW)))), biased


def _power_of_two(n: Node) -> Node:
    return Op("i32x4.shl", (_i("add", n, integers(127)), i32(23)))


def tanh(let: Let, x: Node) -> Node:
    return _odd_ratio(let, x, _TANH)


def erf(let: Let, x: Node) -> Node:
    return _odd_ratio(let, x, _ERF)


def erf_of_root(let: Let, x: Node) -> Node:
    """``erf(x / sqrt(2))``: neither a division nor a product before the polynomials."""
    return _odd_ratio(let, x, _ERF_OF_ROOT)


def _odd_ratio(let: Let, x: Node, fit: _Ratio) -> Node:
    # All coefficients are positive, so no digits cancel; rounding may step over 1, hence the end.
    t = let(_clamp(x, -fit.reach, fit.reach))
    s = let(_f("mul", t, t))
    top = _f("mul", t, polynomial(s, fit.top))
    return _clamp(_f("div", top, polynomial(s, fit.bottom)), -1.0, 1.0)


def _clamp(x: Node, low: float, high: float) -> Node:
    """One instruction a side on every engine, and NaN stays."""
    return _f("pmin", _f("pmax", x, constant(low)), constant(high))


def sigmoid(let: Let, x: Node) -> Node:
    # exp of a negative number only, so that neither tail overflows or loses digits.
    x = let(x)
    e = let(exp(let, _f("neg", _f("abs", x))))
    top = _choose(_f("lt", x, constant(0.0)), e, constant(1.0))
    return _f("div", top, _f("add", e, constant(1.0)))


def log(let: Let, x: Node) -> Node:
    x = let(x)
    tiny = let(_f("lt", x, constant(2.0**-126)))
    bits = let(_choose(tiny, _f("mul", x, constant(2.0**23)), x))
    exponent = let(Op("i32x4.shr_s", (_i("sub", bits, integers(0x3F3504F3)), i32(23))))
    mantissa = _i("sub", bits, Op("i32x4.shl", (exponent, i32(23))))
    f = let(_f("sub", mantissa, constant(1.0)))
    scaled = Op("v128.and", (tiny, constant(23.0)))
    e = let(_f("sub", _f("convert_i32x4_s", exponent), scaled))
    s = let(_f("mul", f, f))
    low = _f("mul", _f("mul", s, f), polynomial(f, _LOG))
    low = _f("add", low, _f("mul", e, constant(_LN2_LOW)))
    low = _f("sub", low, _f("mul", s, constant(0.5)))
    value = _f("add", _f("add", low, f), _f("mul", e, constant(_LN2_HIGH)))
    value = _choose(_f("eq", x, constant(math.inf)), x, value)
    value = _choose(_f("eq", x, constant(0.0)), constant(-math.inf), value)
    return _choose(_f("ge", x, constant(0.0)), value, constant(math.nan))


def power(let: Let, x: Node, y: Node) -> Node:
    """``x ** y`` as ``exp(y log |x|)``; its relative error grows to ``|y log x| * 6e-8``."""
    x, y = let(x), let(y)
    value = exp(let, _f("mul", y, log(let, _f("abs", x))))
    whole = let(_f("eq", _f("trunc", y), y))
    half = let(_f("mul", y, constant(0.5)))
    odd = Op("v128.andnot", (whole, _f("eq", _f("trunc", half), half)))
    negative = let(_f("lt", x, constant(0.0)))
    sign = Op("v128.and", (Op("v128.and", (odd, negative)), integers(-(2**31))))
    value = Op("v128.xor", (value, sign))
    value = _choose(Op("v128.andnot", (negative, whole)), constant(math.nan), value)
    return _choose(_f("eq", y, constant(0.0)), constant(1.0), value)


def sin(let: Let, x: Node) -> Node:
    return _sine(let, x, 0)


def cos(let: Let, x: Node) -> Node:
    return _sine(let, x, 1)


def _sine(let: Let, x: Node, quarter: int) -> Node:
    x = let(x)
    n = let(_f("nearest", _f("mul", x, constant(2 / math.pi))))
    r = x
    for part in _PI_2:
        r = _f("sub", r, _f("mul", n, constant(part)))
    r = let(r)
    s = let(_f("mul", r, r))
    sine = _f("add", r, _f("mul", _f("mul", r, s), polynomial(s, _SIN)))
    cosine = _f("sub", constant(1.0), _f("mul", s, constant(0.5)))
    cosine = _f("add", cosine, _f("mul", _f("mul", s, s), polynomial(s, _COS)))
    quadrant = let(_i("add", _i("trunc_sat_f32x4_s", n), integers(quarter)))
    odd = _i("ne", Op("v128.and", (quadrant, integers(1))), integers(0))
    sign = Op("i32x4.shl", (Op("v128.and", (quadrant, integers(2))), i32(30)))
    return Op("v128.xor", (_choose(odd, cosine, sine), sign))


FUNCTIONS: dict[str, Callable[[Let, Node], Node]] = dict(
    zip(POLYNOMIALS, (exp, exp_below, tanh, erf, log, sigmoid, sin, cos), strict=True)
)
