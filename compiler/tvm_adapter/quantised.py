"""Converters of matmuls with quantised weights: one sum each, over weights laid out for SIMD.

The sums are those that :mod:`nnjit_studio.compiler.recognize.quantised` finds
again behind TVM's fusion, with whatever pointwise operators follow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import relax, te, tirx
from tvm.relax.frontend.onnx import onnx_frontend

from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.recognize.quantised import INT8_IN_WORD, NIBBLES_IN_WORD
from nnjit_studio.errors import UnsupportedOpError

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


class MatMulNBits(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """com.microsoft's matmul of 4-bit weights: N rows of blocks along K, two values a byte.

    Layout: ONNX Runtime, docs/ContribOperators.md. The low half of a byte comes
    first; an absent zero point is 8.
    """

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        k, n, block = (int(attr[name]) for name in ("K", "N", "block_size"))
        packed, scale = _known(inputs[1]), _known(inputs[2])
        zero_input = _optional(inputs, 3)
        zero = None if zero_input is None else _known(zero_input)
        fits = int(attr.get("bits", 4)) == 4 and block % 16 == 0 and k % block == 0
        unknown_zero = zero_input is not None and zero is None
        if not fits or packed is None or scale is None or unknown_zero:
            raise UnsupportedOpError(
                "MatMulNBits needs constant 4-bit weights and a K that is a multiple of the block.",
                "Quantise the model again so, or use the float32 model.",
            )
        if _optional(inputs, 4) is not None or (zero is not None and zero.dtype != np.uint8):
            raise UnsupportedOpError(
                "MatMulNBits with a group index or with zero points that are not packed "
                "4-bit values is not supported.",
                "Quantise the model again without them.",
            )
        if str(inputs[0].ty.dtype) != "float32" or scale.dtype != np.float32:
            raise UnsupportedOpError(
                "MatMulNBits is supported on float32 only.", "Export the model in float32."
            )
        blocks = k // block
        values = _halves(packed.reshape(n, k // 2)).reshape(n, k // NIBBLES_IN_WORD, -1)
        shifts = np.arange(NIBBLES_IN_WORD, dtype=np.uint32) * 4
        words = np.bitwise_or.reduce(values.astype(np.uint32) << shifts, axis=2).T
        arguments = [inputs[0], relax.const(np.ascontiguousarray(words).view(np.int32))]
        arguments.append(relax.const(_by_block(scale.reshape(n, blocks))))
        if zero is not None:
            zeros = _halves(zero.reshape(n, -1))[:, :blocks]
            arguments.append(relax.const(_by_block(zeros)))
        total = bb.emit_te(_nibble_sum, *arguments, primfunc_attrs={"op_pattern": _MATMUL_LIKE})
        bias = _optional(inputs, 5)
        return total if bias is None else relax.op.add(total, bias)


def _halves(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Both 4-bit values of each byte, the low one first."""
    both = np.stack([packed & 15, packed >> 4], axis=-1)
    return both.reshape(*packed.shape[:-1], -1)


def _by_block(values: NDArray[Any]) -> NDArray[Any]:
    """Transposed, with columns added up to whole vectors: kernels read four at once."""
    n = len(values)
    return np.ascontiguousarray(np.pad(values, ((0, -n % LANES), (0, 0))).T)


def _nibble_sum(a: Any, words: Any, scale: Any, zero: Any = None) -> Any:
    rows, n = (int(d) for d in words.shape)
    blocks = int(scale.shape[0])
    per_block = rows // blocks
    g = te.reduce_axis((0, blocks), name="g")
    q = te.reduce_axis((0, per_block), name="q")
    r = te.reduce_axis((0, NIBBLES_IN_WORD), name="r")

    def total(*at: Any) -> Any:
        row, column = g * per_block + q, at[-1]
        value = ((words[row, column] >> (r * 4)) & 15).astype("float32")
        lowest = tirx.const(8.0, "float32") if zero is None else zero[g, column].astype("float32")
        place = (*at[:-1], row * NIBBLES_IN_WORD + r)
        factor = a[place]
        return te.sum(factor * ((value - lowest) * scale[g, column]), axis=[g, q, r])

    return te.compute((*a.shape[:-1], n), total, name="matmul_4bit")


CONVERTERS = {"MatMulInteger": MatMulInteger, "MatMulNBits": MatMulNBits}
"""By ONNX operator; they stand before the frontend's own."""
