"""Arithmetic on pairs: a float64 value and a bound on an f32 kernel's error.

The rules are those of running error analysis (Higham, "Accuracy and Stability
of Numerical Algorithms", 2nd ed., section 3.3): an operation adds one unit
roundoff ``u = 2**-24`` of its result to what its operands bring in. Elementary
functions are allowed :data:`FUNCTION_ULPS`. A sum of K terms in any order, with
or without fma, adds ``min(gamma_K, gamma~_K) * sum |term|``: ``gamma_K = K u /
(1 - K u)`` (Higham, lemma 3.1) or, smaller for large K, the probabilistic
``exp(lambda sqrt(K) u + K u^2 / (1 - u)) - 1`` (Higham and Mary, 2019, "A New
Approach to Probabilistic Rounding Error Analysis", theorem 2.4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Value = tuple[Array, "Array | float"]

UNIT = 2.0**-24
UNIT_F16 = 2.0**-11
FUNCTION_ULPS = 8
"""Units in the last place that a vector polynomial may be off (of 1 for bounded functions)."""
CONFIDENCE = 4.0
"""Lambda of Higham and Mary: the bound fails with probability 2 exp(-lambda^2 / 2) a step."""
TINY = 2.0**-149
"""The smallest f32: what a result near zero may be off."""
LARGEST_ANGLE = 1000.0
F16_OVERFLOW = 65504.0
F32_OVERFLOW = float(2.0**128 - 2.0**103)
_INTEGERS: dict[str, Any] = {"i64": np.int64, "i32": np.int32, "i8": np.int8, "u8": np.uint8}
_ERF = np.frompyfunc(math.erf, 1, 1)


def sum_factor(terms: int, alike: bool = False) -> float:
    """Factor of ``sum |term|`` that bounds the rounding of a sum of ``terms`` f32 values.

    ``alike`` terms repeat, so their roundings may all point the same way and
    only the linear bound holds.
    """
    linear = terms * UNIT / (1 - terms * UNIT) if terms * UNIT < 0.5 else math.inf
    if alike:
        return linear
    probable = math.expm1(CONFIDENCE * math.sqrt(terms) * UNIT + terms * UNIT**2 / (1 - UNIT))
    return min(linear, probable)


def stored(value: Value, dtype: str) -> Value:
    """A value as a buffer of ``dtype`` stores it: overflow to infinity, f16 rounding."""
    data, error = value
    if dtype == "f16":
        # A value near a tie may round either way: two half steps.
        step = 2 * UNIT_F16 * np.abs(data) + 2.0**-24
        step = np.where(np.abs(data) < F16_OVERFLOW, step, np.where(np.isfinite(data), np.inf, 0))
        return data.astype(np.float16).astype(np.float64), error + step
    if dtype == "f32" and data.dtype == np.float64:
        over = np.abs(data) >= F32_OVERFLOW
        return (np.where(over, np.copysign(np.inf, data), data), error) if over.any() else value
    return value


def binary(op: str, a: Value, b: Value, track: bool) -> Value:
    """One of ``BINARY_OPS`` on both operands."""
    (x, ex), (y, ey) = a, b
    z = _BINARY[op](x, y)
    if not track:
        return z, 0.0
    if z.dtype == np.float64:
        error = _binary_error(op, (x, ex), (y, ey), z)
        return z, _known(error, z, np.isfinite(x) & np.isfinite(y), op == "div")
    if x.dtype == np.float64:
        # A comparison of numbers that may be equal may go either way.
        return z, np.where(np.abs(x - y) <= ex + ey, _unsure(ex, ey), 0.0)
    if _exact(ex) and _exact(ey):
        return z, 0.0
    if op in ("add", "sub"):
        # Off by as much as the operands are, unless it may wrap.
        limits = np.iinfo(z.dtype)
        error = np.asarray(ex) + ey
        room = np.minimum(z - float(limits.min), float(limits.max) - z)
        return z, np.where((error == 0) | (error <= room), error, np.inf)
    return z, _unsure(ex, ey)


def _exact(error: Array | float) -> bool:
    """Whether nothing is off anywhere, told without a look at each element."""
    return np.ndim(error) == 0 and bool(error == 0)


def _unsure(*errors: Array | float) -> Any:
    """Infinite where anything is inexact: what follows from it is not known."""
    if all(map(_exact, errors)):
        return 0.0
    return np.where(sum(np.asarray(e) for e in errors) == 0, 0.0, np.inf)


def _known(error: Any, z: Array, finite: Array, poles: bool = False) -> Any:
    """The error where f32 could have overflowed is unlimited; from exact infinities it is none.

    Parameters
    ----------
    finite
        Where the operands are.
    poles
        Whether an infinite result of finite operands is exact (division by zero).
    """
    whole = np.isfinite(z)
    if whole.all() and (np.abs(z) + error < F32_OVERFLOW).all():
        return error + TINY * (finite & ((error > 0) | (z != np.rint(z))))
    error = np.where(np.isnan(error), np.inf, error)
    # An infinity or NaN that went in, without an error of its own, comes out for sure.
    passed = ~whole & (~finite | poles) & (error == 0)
    # Denormals have an absolute error.
    error = np.where(whole & finite & ((error > 0) | (z != np.rint(z))), error + TINY, error)
    over = np.abs(z) + np.where(np.isfinite(error), error, 0) >= F32_OVERFLOW
    return np.where(passed, 0.0, np.where(over | ~whole, np.inf, error))


def _scaled(size: Array, error: Array | float) -> Any:
    if _exact(error):
        return 0.0
    return np.where(np.asarray(error) == 0, 0.0, size * error)


def _binary_error(op: str, a: Value, b: Value, z: Array) -> Any:
    (x, ex), (y, ey) = a, b
    own = np.where(np.isfinite(z), UNIT * np.abs(z), 0.0)
    if op in ("add", "sub", "mul"):
        # Whole numbers of exact whole numbers are exact.
        exact = (np.asarray(ex) + ey == 0) & (np.abs(z) < 2.0**24) & (np.rint(x) == x)
        own = np.where(exact & (np.rint(y) == y), 0.0, own)
    if op in ("add", "sub"):
        return ex + ey + own
    if op == "mul":
        return _scaled(np.abs(x), ey) + _scaled(np.abs(y), ex) + ex * ey + own
    if op == "div":
        room = np.abs(y) - ey
        far = (ex + _scaled(np.abs(z), ey)) / np.where(room > 0, room, 1.0) + own
        return np.where(room > 0, far, np.where(np.asarray(ey) == 0, _unsure(ex), np.inf))
    if op in ("min", "max"):
        return np.maximum(ex, ey)
    if op == "pow":
        slope = _scaled(np.abs(y * np.power(np.abs(x), y - 1)), ex)
        turn = _scaled(np.abs(z * np.log(np.maximum(np.abs(x), 1e-38))), ey)
        grown = np.abs(y * np.log(np.maximum(np.abs(x), 1e-45)))
        return slope + turn + (2 * FUNCTION_ULPS + 2 * grown) * own
    # Floor division and remainders jump; where the quotient is inexact so may the result.
    exact = (np.asarray(ex + ey + np.zeros_like(z)) == 0) & (np.abs(x / y) < 2.0**23)
    if op.endswith("div"):
        near = np.abs(x / y - np.rint(x / y)) > 4 * UNIT * np.abs(x / y)
        return np.where(exact & near, own, 1.0 + own)
    # The remainder is x - q y, rounded at the size of x.
    near = np.abs(x / y - np.rint(x / y)) > 4 * UNIT * np.abs(x / y)
    slack = 2 * UNIT * np.abs(x)
    return np.where(exact & near, own + slack, np.abs(y) + own + slack)


def call(fn: str, argument: Value, track: bool) -> Value:
    """One of ``CALLS``, elementwise."""
    x, e = argument
    if fn in ("floor", "ceil", "round", "trunc") and x.dtype == np.float64:
        # Decided on what an f32 kernel sees, not on digits that it does not have.
        return _stepped(_CALLS[fn], x, e, track)
    z = _CALLS[fn](x)
    if not track:
        return z, 0.0
    if z.dtype != np.float64:
        return z, _unsure(e)
    if fn in ("abs", "neg"):
        return z, e
    if fn == "from_bits":
        return z, _unsure(e)
    # At a pole (log 0, 1 / sqrt 0) and outside the domain an exact operand gives an exact limit.
    return z, _known(_call_error(fn, x, e, z), z, np.isfinite(x), poles=True)


def _call_error(fn: str, x: Array, e: Array | float, z: Array) -> Any:
    low, high = x - e, x + e
    ulps = FUNCTION_ULPS * UNIT
    size = np.where(np.isfinite(z), np.abs(z), 0.0)
    if fn == "exp":
        spread = np.where(np.asarray(e) == 0, 0.0, np.exp(high) - np.exp(low))
        return spread + np.where(np.isfinite(z), ulps * size, 0.0)
    if fn in ("sqrt", "rsqrt", "log"):
        positive = np.maximum(low, 1e-38)
        spread = np.abs(_CALLS[fn](np.maximum(high, 1e-38)) - _CALLS[fn](positive))
        spread = np.where(low > 0, spread, np.inf if fn != "sqrt" else np.sqrt(np.abs(high)))
        own = np.where(np.isfinite(z), ulps * (size + (fn == "log")), 0.0)
        return np.where(np.asarray(e) == 0, 0, spread) + own
    if fn in ("sin", "cos", "tan"):
        # The reduction loses digits; where the polynomials promise nothing, nothing is asked.
        lost = np.where(np.abs(x) <= LARGEST_ANGLE, 0.0, np.where(np.isfinite(x), np.inf, 0.0))
        lost = lost + np.where(np.isfinite(x), np.abs(x) * 2.0**-40, 0.0)
        slope = 1.0 if fn != "tan" else 1 + size**2
        return slope * (np.asarray(e) * 2 + lost + np.where(np.isfinite(z), ulps, 0.0))
    if fn in _STEEP:
        # Monotone between their poles: the spread of the ends, inside the domain.
        inside = _STEEP[fn]
        spread = np.abs(_CALLS[fn](np.clip(high, *inside)) - _CALLS[fn](np.clip(low, *inside)))
        spread = np.where(np.asarray(e) == 0, 0.0, spread)
        return spread + np.where(np.isfinite(z), ulps * (size + (fn != "sinh")), 0.0)
    slope = _slope(fn, np.maximum(np.abs(x) - e, 0))
    return _scaled(slope, e) + np.where(np.isfinite(z), ulps, 0.0)


_STEEP: dict[str, tuple[float, float]] = {
    "asin": (-1, 1),
    "acos": (-1, 1),
    "sinh": (-math.inf, math.inf),
    "cosh": (-math.inf, math.inf),
    "asinh": (-math.inf, math.inf),
    "acosh": (1, math.inf),
    "atanh": (-1, 1),
}


def _slope(fn: str, nearest: Array) -> Any:
    # The steepest that the function is at this distance from 0 or further.
    if fn == "erf":
        return 2 / math.sqrt(math.pi) * np.exp(-(nearest**2))
    if fn == "tanh":
        return 1 - np.tanh(nearest) ** 2
    return np.exp(-nearest) if fn == "sigmoid" else 1.0


def _stepped(step: Callable[[Array], Array], x: Array, e: Array | float, track: bool) -> Value:
    seen = x.astype(np.float32).astype(np.float64)
    error: Array | float = 0.0
    if track:
        error = np.where(np.asarray(e) == 0, 0.0, np.abs(step(x + e) - step(x - e)))
        error = np.where(np.isnan(error), np.inf, error)
    return step(seen), error


def cast(value: Value, dtype: str, track: bool) -> Value:
    """To integers truncating and saturating, to bool by ``!= 0``, to f32 exactly."""
    x, e = value
    if dtype == "bool":
        if x.dtype == np.float64:
            return x != 0, np.where(np.abs(x) <= e, _unsure(e), 0.0) if track else 0.0
        return x != 0, _unsure(e) if track else 0.0
    if dtype in ("f32", "f16"):
        wide = x.astype(np.float64)
        if dtype == "f16":
            return stored((wide, e), "f16")
        inexact = track and x.dtype.kind == "i" and x.dtype.itemsize >= 4
        return wide, UNIT * np.abs(wide) + e if inexact else e
    target = _INTEGERS[dtype]
    if x.dtype != np.float64:
        kept = np.where((np.asarray(e) == 0) | _fits(x, e, target), e, np.inf)
        return x.astype(target), kept if track else 0.0
    limits: Any = np.iinfo(target)
    whole, jump = _stepped(np.trunc, np.nan_to_num(x, nan=0.0), e, track)
    # The largest i64 is not a float64: saturate on the side of the comparison.
    inside = np.clip(whole, float(limits.min), np.nextafter(float(limits.max) + 1, 0))
    result = inside.astype(target)
    result = np.where(whole >= float(limits.max) + 1, limits.max, result)
    return result.astype(target), jump


def _fits(x: Array, e: Array | float, target: Any) -> Any:
    limits = np.iinfo(target)
    return (x - np.asarray(e) >= float(limits.min)) & (x + np.asarray(e) <= float(limits.max))


def reduced(op: str, value: Value, dims: tuple[int, ...], depth: int, alike: bool = False) -> Value:
    """Reduce over ``dims``; ``depth`` is the length of the whole reduction."""
    data, error = value
    z = np.asarray(_UFUNCS[op].reduce(data, axis=dims, dtype=data.dtype))
    if not isinstance(error, np.ndarray):
        return z, 0.0
    if data.dtype != np.float64:
        return z, _unsure(error.sum(axis=dims))
    finite = np.isfinite(data)
    if op in ("min", "max"):
        return z, error.max(axis=dims)
    if op == "add":
        total = np.where(finite, np.abs(data), 0.0).sum(axis=dims)
        spread = error.sum(axis=dims) + sum_factor(depth, alike) * total + depth * TINY
        # Partial sums in any order stay below the sum of the magnitudes.
        spread = np.where(total + spread >= F32_OVERFLOW, np.inf, spread)
    else:
        logs = np.log2(np.maximum(np.abs(np.where(finite & (data != 0), data, 1.0)), 1e-300))
        reach = np.maximum(
            np.where(logs > 0, logs, 0).sum(axis=dims), -np.where(logs < 0, logs, 0).sum(axis=dims)
        )
        relative = (error / np.where(data != 0, np.abs(data), 1e-38)).sum(axis=dims)
        spread = _scaled(np.abs(z), np.expm1(relative) + 2 * depth * UNIT)
        spread = np.where(reach >= 126, np.inf, spread)
    exact = ~np.isfinite(z) & (error == 0).all(axis=dims) & np.isfinite(spread)
    return z, np.where(exact, 0.0, np.where(np.isnan(spread) | ~np.isfinite(z), np.inf, spread))


def accumulated(op: str, old: Value, part: Value, depth: int = 1, alike: bool = False) -> Value:
    """``op(old, part)``; the rounding of the sum of the part is already in it."""
    z = _UFUNCS[op](old[0], part[0])
    if op in ("min", "max"):
        return z, np.maximum(old[1], part[1])
    if z.dtype != np.float64 or not isinstance(part[1], np.ndarray):
        return z, old[1] + part[1]
    (x, ex), (y, ey) = old, part
    if op == "mul":
        own = depth * UNIT * np.where(np.isfinite(z), np.abs(z), 0.0)
        error = _scaled(np.abs(x), ey) + _scaled(np.abs(y), ex) + ex * ey + own
    else:
        # The old value takes part in every partial sum.
        total = np.where(np.isfinite(x), np.abs(x), 0.0) + np.where(np.isfinite(y), np.abs(y), 0.0)
        error = ex + ey + np.where(x == 0, 0.0, sum_factor(depth + 1, alike) * total)
    return z, _known(error, z, np.isfinite(x) & np.isfinite(y))


def _truncdiv(x: Array, y: Array) -> Array:
    if x.dtype == np.float64:
        return np.asarray(np.trunc(x / y))
    return np.asarray((x - np.fmod(x, y)) // y).astype(x.dtype)


def _shifted(shift: np.ufunc, x: Array, y: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    inside = (y >= 0) & (y < bits)
    edge = np.where(x < 0, -1, 0) if shift is np.right_shift else 0
    return np.where(inside, shift(x, np.where(inside, y, 0)), edge).astype(x.dtype)


def _divide(x: Array, y: Array) -> Array:
    return np.asarray(x / y) if x.dtype == np.float64 else _truncdiv(x, y)


_UFUNCS: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}
_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divide,
    "floordiv": np.floor_divide,
    "floormod": np.mod,
    "truncdiv": _truncdiv,
    "truncmod": np.fmod,
    "min": np.minimum,
    "max": np.maximum,
    "pow": np.power,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
    "shl": lambda x, y: _shifted(np.left_shift, x, y),
    "shr": lambda x, y: _shifted(np.right_shift, x, y),
}
_CALLS: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "tanh": np.tanh,
    "erf": lambda x: np.asarray(_ERF(x)).astype(np.float64),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "log": np.log,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "abs": np.abs,
    "neg": np.negative,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "not": np.logical_not,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "bitnot": np.invert,
    "bits": lambda x: x.astype(np.float32).view(np.int32),
    "from_bits": lambda x: x.view(np.float32).astype(np.float64),
}
