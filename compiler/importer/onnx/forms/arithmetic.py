"""Powers, rests, bits and reductions that the importer's converters take otherwise, or not."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from onnx import TensorProto, helper

from nnjit_studio.compiler.importer.onnx.rewriter import INTEGERS, Rewriter

_LARGEST_POWER = 64
_WORDS = (TensorProto.INT32, TensorProto.UINT32)
_LARGEST_MATRIX = 12
"""Rows of a matrix whose determinant is laid out: half as many of its columns are 924 choices."""


def power(r: Rewriter) -> bool:
    x, y = r.node.input
    if r.dtype(x) in INTEGERS and y not in r.constants and r.dtype(y) in INTEGERS:
        _integer_power(r, x, y)
        return True
    if r.dtype(x) in INTEGERS:
        exponent = r.constant(1, "exponent, because its base is an integer")
        power = float(exponent.reshape(-1)[0]) if exponent.size == 1 else -1.0
        if power != int(power) or not 1 <= power <= _LARGEST_POWER:
            raise r.refuse(f"one whole exponent from 1 to {_LARGEST_POWER}")
        result = x
        for _ in range(int(power) - 1):
            result = r.op("Mul", result, x)
        r.op("Identity", result, out=r.node.output[0])
        return True
    if r.dtype(y) == r.dtype(x):
        return False
    if y in r.constants:
        kind = helper.tensor_dtype_to_np_dtype(r.dtype(x))
        wide = r.weight(r.constants[y].astype(kind))
    else:
        wide = r.op("Cast", y, to=r.dtype(x))
    r.op("Pow", x, wide, out=r.node.output[0])
    return True


def _integer_power(r: Rewriter, x: str, y: str) -> None:
    """The product of the squares that the bits of the exponent name.

    Above 63 an exponent counts for 0, 1 and -1 alone, so its parity is enough; a negative one
    leaves nothing of larger bases.
    """
    kind = helper.tensor_dtype_to_np_dtype(r.dtype(x))

    def number(value: int) -> str:
        return r.weight(value, kind)

    y = r.op("Cast", y, to=r.dtype(x))
    size = r.op("Abs", y)
    high = r.op("Add", number(62), r.op("Mod", size, number(2)))
    left = r.op("Where", r.op("Greater", size, number(63)), high, size)
    square, result = x, number(1)
    for bit in range(6):
        if bit:
            square, left = r.op("Mul", square, square), r.op("Div", left, number(2))
        odd = r.op("Equal", r.op("Mod", left, number(2)), number(1))
        result = r.op("Mul", result, r.op("Where", odd, square, number(1)))
    gone = r.op("And", r.op("Less", y, number(0)), r.op("Greater", r.op("Abs", x), number(1)))
    r.op("Where", gone, number(0), result, out=r.node.output[0])


def mod(r: Rewriter) -> bool:
    """Of floats by what may be infinite: the converter's form has no result there."""
    x, y = r.node.input
    known = y in r.constants and bool(np.isfinite(r.constants[y]).all())
    if r.dtype(x) not in (TensorProto.FLOAT, TensorProto.FLOAT16) or known:
        return False
    zero = r.weight(0, helper.tensor_dtype_to_np_dtype(r.dtype(x)))
    # An infinite dividend has no rest of any divisor.
    whole = r.op("Add", x, r.op("Mul", x, zero))
    by_dividend = r.attribute("fmod", 0)
    out = r.node.output[0]
    endless, rest = r.op("IsInf", y), r.op("Mod", x, y, fmod=1)
    rest = r.op("Where", endless, whole, rest, out=out if by_dividend else "")
    if not by_dividend:
        apart = r.op("Less", r.op("Mul", r.op("Sign", rest), r.op("Sign", y)), zero)
        r.op("Where", apart, r.op("Add", rest, y), rest, out=out)
    return True


def of_truths(r: Rewriter) -> bool:
    """A reduction of bools as one of numbers."""
    x, *axes = r.node.input
    if r.dtype(x) != TensorProto.BOOL:
        return False
    held = {a.name: helper.get_attribute_value(a) for a in r.node.attribute}
    number = r.op("Cast", x, to=TensorProto.INT32)
    found = r.op(r.node.op_type, number, *axes, **held)
    r.op("Cast", found, to=TensorProto.BOOL, out=r.node.output[0])
    return True


def bit_cast(r: Rewriter) -> bool:
    """Between whole numbers of one width, where a Cast wraps, and so keeps the bits; and between
    float32 and int32, through which unsigned ones go."""
    x, out = r.node.input[0], r.node.output[0]
    source, to = r.dtype(x), r.attribute("to", TensorProto.UNDEFINED)
    if all(kind in (*INTEGERS, TensorProto.BOOL) for kind in (source, to)):
        r.op("Cast", x, to=to, out=out)
    elif source == TensorProto.FLOAT and to in _WORDS:
        r.op("Cast", r.op("BitCast", x, to=TensorProto.INT32), to=to, out=out)
    elif source in _WORDS and to == TensorProto.FLOAT:
        r.op("BitCast", r.op("Cast", x, to=TensorProto.INT32), to=to, out=out)
    else:
        raise r.refuse("whole numbers, or float32 and whole numbers of 32 bits")
    return True


def determinant(r: Rewriter) -> bool:
    """Of the last rows, those of every choice of as many columns: each by the row above them.

    No number is divided by, so none has to be looked for that is large enough.
    """
    x = r.node.input[0]
    size = r.shape(x)[-1]
    if size > _LARGEST_MATRIX:
        raise r.refuse(f"matrices of at most {_LARGEST_MATRIX} rows")
    rows = r.split(x, [1] * size, len(r.shape(x)) - 2)
    rows = [r.along("Squeeze", row, [len(r.shape(x)) - 2]) for row in rows]
    held, choices = rows[-1], list(combinations(range(size), 1))
    for count in range(2, size + 1):
        place = {choice: i for i, choice in enumerate(choices)}
        choices = list(combinations(range(size), count))
        rest = [[place[c[:i] + c[i + 1 :]] for i in range(count)] for c in choices]
        signs = r.weight([(-1) ** i for i in range(count)], np.float32)
        above = r.op("Gather", rows[-count], r.weight(choices, np.int64), axis=-1)
        below = r.op("Gather", held, r.weight(rest, np.int64), axis=-1)
        held = r.op("Mul", r.op("Mul", above, signs), below)
        held = r.along("ReduceSum", held, [-1], keepdims=0)
    r.along("Squeeze", held, [-1], out=r.node.output[0])
    return True
