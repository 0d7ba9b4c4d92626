"""Converters of matmuls with quantised weights: one sum each, over weights laid out for SIMD.

The sums are those that :mod:`nnjit_studio.compiler.recognize_quantised` finds
again behind TVM's fusion, with whatever pointwise operators follow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import relax, te
from tvm.relax.frontend.onnx import onnx_frontend

from nnjit_studio.compiler.recognize_quantised import INT8_IN_WORD

_MATMUL_LIKE = 4
"""TVM's pattern kOutEWiseFusable: pointwise operators may be fused behind it."""


def _known(expr: Any) -> NDArray[Any] | None:
    if type(expr).__name__ != "GenericConst":
        return None
    data: NDArray[Any] = expr.value.numpy()
    return data


def _shape(expr: Any) -> tuple[int, ...]:
    return tuple(int(d) for d in expr.ty.shape)


def _optional(inputs: Any, position: int) -> Any:
    return inputs[position] if len(inputs) > position else None


class MatMulInteger(onnx_frontend.MatMulInteger):  # type: ignore[misc]
    """A constant weight goes into words of four; anything else is the frontend's to convert.

    ``sum (A - a0) (B - b0) = sum A B' - a0 * sum B'`` with ``B' = B - b0``,
    exact in wrapping int32; only where B' is int8 and a0 one number.
    """

    @classmethod
    def _impl_v10(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        a, b = inputs[0], _known(inputs[1])
        zero_a, zero_b = _optional(inputs, 2), _optional(inputs, 3)
        zero = np.zeros((), np.int8) if zero_b is None else _known(zero_b)
        single = zero_a is None or math.prod(_shape(zero_a)) == 1
        words = b is not None and b.ndim == 2 and b.shape[0] % INT8_IN_WORD == 0
        if b is not None and words and zero is not None and single:
            shifted = b.astype(np.int32) - zero.astype(np.int32)
            if shifted.min() >= -128 and shifted.max() <= 127:
                return _int8(bb, a, zero_a, shifted)
        return super()._impl_v10(bb, inputs, attr, params)


def _int8(bb: Any, a: Any, zero_a: Any, weight: NDArray[Any]) -> Any:
    k, n = weight.shape
    words = weight.reshape(k // INT8_IN_WORD, INT8_IN_WORD, n).transpose(0, 2, 1)
    constant = relax.const(np.ascontiguousarray(words, np.int8))

    total = bb.emit_te(_int8_sum, a, constant, primfunc_attrs={"op_pattern": _MATMUL_LIKE})
    if zero_a is None:
        return total
    zero = relax.op.reshape(relax.op.astype(zero_a, "int32"), ())
    columns = relax.const(weight.sum(axis=0, dtype=np.int32))
    return relax.op.subtract(total, relax.op.multiply(columns, zero))


def _int8_sum(a: Any, b: Any) -> Any:
    words, n, per_word = (int(d) for d in b.shape)
    q = te.reduce_axis((0, words), name="q")
    r = te.reduce_axis((0, per_word), name="r")

    def total(*at: Any) -> Any:
        place = (*at[:-1], q * per_word + r)
        product = a[place].astype("int32") * b[q, at[-1], r].astype("int32")
        return te.sum(product, axis=[q, r])

    return te.compute((*a.shape[:-1], n), total, name="matmul_int8")


CONVERTERS = {"MatMulInteger": MatMulInteger}
"""By ONNX operator; they stand before the frontend's own."""
