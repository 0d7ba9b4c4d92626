"""Tangent, hyperbolic and inverse functions on f32x4, from the polynomials' building blocks.

Largest errors against float64, over the ranges that the tests sample, in units
in the last place: 3 (atan, asin, acos, sinh, cosh), 4 (tan for ``|x| <= 100``,
asinh, acosh, atanh). The fits are ours, made as those of
:mod:`nnjit_studio.compiler.wasm.vector_math`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from nnjit_studio.compiler.wasm import vector_math
from nnjit_studio.compiler.wasm.ir import Node, Op
from nnjit_studio.compiler.wasm.vector_math import constant, integers, polynomial

Let = Callable[[Node], Node]

# f(x) = x + x s P(s), s = x^2: atan to tan(pi/8), asin to 1/2, sinh to 1
_ATAN = (-0.33333316, 0.19998471, -0.14243533, 0.10593808, -0.060782094)
_ASIN = (0.1666666, 0.07500504, 0.044516955, 0.031807728, 0.014438573, 0.037516497)
_SINH = (0.16666667, 0.0083333496, 0.00019836159, 2.8169516e-06)
_HUGE = 1e9  # from here on sqrt(x^2 + 1) is x


def _f(name: str, *args: Node) -> Node:
    return Op(f"f32x4.{name}", args)


def _choose(mask: Node, then: Node, otherwise: Node) -> Node:
    return Op("v128.bitselect", (then, otherwise, mask))


def _signed(magnitude: Node, x: Node) -> Node:
    return _choose(integers(0x7FFFFFFF), magnitude, x)


def _odd(let: Let, x: Node, coefficients: tuple[float, ...]) -> Node:
    x = let(x)
    s = let(_f("mul", x, x))
    return _f("add", x, _f("mul", _f("mul", x, s), polynomial(s, coefficients)))


def _log1p(let: Let, u: Node) -> Node:
    # log(w) u / (w - 1) with w = fl(1 + u): the rounding of w cancels (Higham, 1.14.1).
    u = let(u)
    w = let(_f("add", u, constant(1.0)))
    scaled = _f("mul", vector_math.log(let, w), _f("div", u, _f("sub", w, constant(1.0))))
    value = _choose(_f("eq", w, constant(1.0)), u, scaled)
    return _choose(_f("eq", w, constant(math.inf)), w, value)


def tan(let: Let, x: Node) -> Node:
    x = let(x)
    return _f("div", vector_math.sin(let, x), vector_math.cos(let, x))


def atan(let: Let, x: Node) -> Node:
    x = let(x)
    a = let(_f("abs", x))
    low = let(_f("le", a, constant(math.tan(math.pi / 8))))
    high = let(_f("gt", a, constant(math.tan(3 * math.pi / 8))))
    above = _choose(high, constant(-1.0), _f("sub", a, constant(1.0)))
    below = _choose(high, a, _f("add", a, constant(1.0)))
    turned = _f("div", _choose(low, a, above), _choose(low, constant(1.0), below))
    base = _choose(high, constant(math.pi / 2), constant(math.pi / 4))
    angle = let(_odd(let, turned, _ATAN))
    return _signed(_choose(low, angle, _f("add", angle, base)), x)


def _asin_parts(let: Let, x: Node) -> tuple[Node, Node, Node]:
    # |x|, whether it is at most 1/2, and asin(|x|) or else asin(sqrt((1 - |x|) / 2)).
    a = let(_f("abs", x))
    low = let(_f("le", a, constant(0.5)))
    half = _f("mul", _f("sub", constant(1.0), a), constant(0.5))
    part = let(_odd(let, _choose(low, a, _f("sqrt", half)), _ASIN))
    return a, low, part


def asin(let: Let, x: Node) -> Node:
    x = let(x)
    _, low, part = _asin_parts(let, x)
    far = _f("sub", constant(math.pi / 2), _f("add", part, part))
    return _signed(_choose(low, part, far), x)


def acos(let: Let, x: Node) -> Node:
    x = let(x)
    _, low, part = _asin_parts(let, x)
    negative = let(_f("lt", x, constant(0.0)))
    twice = let(_f("add", part, part))
    far = _choose(negative, _f("sub", constant(math.pi), twice), twice)
    return _choose(low, _f("sub", constant(math.pi / 2), _signed(part, x)), far)


def _grown(let: Let, a: Node) -> tuple[Node, Node]:
    # exp(a) / 2 and exp(-a) / 2 without an early overflow.
    root = let(vector_math.exp(let, _f("mul", a, constant(0.5))))
    shrunk = _f("div", _f("div", constant(0.5), root), root)
    return _f("mul", _f("mul", root, constant(0.5)), root), shrunk


def sinh(let: Let, x: Node) -> Node:
    x = let(x)
    a = let(_f("abs", x))
    up, down = _grown(let, a)
    large = _signed(_f("sub", up, down), x)
    return _choose(_f("lt", a, constant(1.0)), _odd(let, x, _SINH), large)


def cosh(let: Let, x: Node) -> Node:
    return _f("add", *_grown(let, let(_f("abs", x))))


def asinh(let: Let, x: Node) -> Node:
    x = let(x)
    a = let(_f("abs", x))
    s = let(_f("mul", a, a))
    root = _f("sqrt", _f("add", s, constant(1.0)))
    near = _log1p(let, _f("add", a, _f("div", s, _f("add", root, constant(1.0)))))
    return _signed(_far_log(let, a, near), x)


def acosh(let: Let, x: Node) -> Node:
    x = let(x)
    t = let(_f("sub", x, constant(1.0)))
    root = _f("sqrt", _f("add", _f("add", t, t), _f("mul", t, t)))
    value = _far_log(let, x, _log1p(let, _f("add", t, root)))
    return _choose(_f("ge", x, constant(1.0)), value, constant(math.nan))


def _far_log(let: Let, x: Node, near: Node) -> Node:
    far = _f("add", vector_math.log(let, x), constant(math.log(2)))
    return _choose(_f("gt", x, constant(_HUGE)), far, near)


def atanh(let: Let, x: Node) -> Node:
    x = let(x)
    a = let(_f("abs", x))
    ratio = _f("div", _f("add", a, a), _f("sub", constant(1.0), a))
    return _signed(_f("mul", _log1p(let, ratio), constant(0.5)), x)


FUNCTIONS: dict[str, Callable[[Let, Node], Node]] = {
    "tan": tan,
    "asin": asin,
    "acos": acos,
    "atan": atan,
    "sinh": sinh,
    "cosh": cosh,
    "asinh": asinh,
    "acosh": acosh,
    "atanh": atanh,
}
