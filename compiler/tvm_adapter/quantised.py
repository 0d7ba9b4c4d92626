"""Converters of matmuls with quantised weights: one sum each, over weights laid out for SIMD.

The sums are those that :mod:`nnjit_studio.compiler.recognize.quantised` finds
again behind TVM's fusion, with whatever pointwise operators follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import relax, te, tirx
from tvm.relax.frontend.onnx import onnx_frontend

from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.recognize.quantised import INT8_IN_WORD, WORD_BITS, in_words
from nnjit_studio.errors import UnsupportedOpError
from nnjit_studio.records.quantised import BLOCK_KINDS

_LARGEST_PRODUCT, _EXACT_FLOATS = 255 * 255, 1 << 24
_LONG_ROW = 128
TABLE_PRODUCT = "TableProduct"
"""The ONNX operator that :mod:`nnjit_studio.compiler.importer.onnx.quantised` writes: floats, a
constant table of bytes and, where there is one, its zero point."""
MATMUL_LIKE = 4
"""TVM's pattern kOutEWiseFusable: pointwise operators may be fused behind it."""


def known_array(expr: Any) -> NDArray[Any] | None:
    if type(expr).__name__ != "GenericConst":
        return None
    data: NDArray[Any] = expr.value.numpy()
    return data


def shape_of(expr: Any) -> tuple[int, ...]:
    return tuple(int(d) for d in expr.ty.shape)


def optional_input(inputs: Any, position: int) -> Any:
    return inputs[position] if len(inputs) > position else None


class MatMulInteger(onnx_frontend.MatMulInteger):  # type: ignore[misc]
    """A constant weight goes into words of four; anything else is the frontend's to convert.

    Of bytes without zero points the sum is exact in wrapping int32, and zero points follow from
    sums of rows and columns: ``sum (A - a0) (B - b0) = sum A B - a0 sum B - b0 (sum A - K a0)``.
    Unsigned bytes of A are moved by 128, columns of B by whatever makes them int8; both move
    their zero points alike. A reduction that ends inside a word is padded with zeros.
    """

    @classmethod
    def _impl_v10(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        a, b = inputs[0], known_array(inputs[1])
        zero_a, zero_b = optional_input(inputs, 2), optional_input(inputs, 3)
        zero = np.zeros((), np.int32) if zero_b is None else known_array(zero_b)
        by_row = zero_a is not None and math.prod(shape_of(zero_a)) > 1
        if b is None or b.ndim != 2 or zero is None or zero.size not in (1, b.shape[1]):
            if shape_of(a)[-1] * _LARGEST_PRODUCT < _EXACT_FLOATS and by_row is False:
                return _in_floats(bb, a, inputs[1], zero_a, zero_b)
            return super()._impl_v10(bb, inputs, attr, params)
        if zero_a is not None:
            zero_a = relax.op.astype(zero_a, "int32")
            zero_a = relax.op.reshape(zero_a, (shape_of(a)[-2], 1) if by_row else ())
        moved = Moved.of(b.astype(np.int32), zero.astype(np.int32).reshape(-1))
        return product_of_bytes(bb, *signed_bytes(bb, a, zero_a), moved)


def _in_floats(bb: Any, a: Any, b: Any, zero_a: Any, zero_b: Any) -> Any:
    """The sum in float32, which holds all of its integers: two variable operands are as fast."""

    def moved(x: Any, zero: Any) -> Any:
        wide = relax.op.astype(x, "float32")
        return wide if zero is None else relax.op.subtract(wide, relax.op.astype(zero, "float32"))

    product = relax.op.matmul(bb.normalize(moved(a, zero_a)), bb.normalize(moved(b, zero_b)))
    return relax.op.astype(bb.normalize(product), "int32")


@dataclass(frozen=True)
class Moved:
    """A weight moved into int8, and what is left of its zero points."""

    weight: NDArray[np.int8]
    """K x N."""
    zero: NDArray[np.int32]
    """Of each column; all 0 where the zero points themselves were taken off."""

    @classmethod
    def of(cls, weight: NDArray[np.int32], zero: NDArray[np.int32]) -> Moved:
        zero = np.broadcast_to(zero, weight.shape[1:])
        low, high = weight.min(axis=0), weight.max(axis=0)
        fits = (low - zero >= -128) & (high - zero <= 127)
        if fits.all():
            by = zero
        elif (zero == zero[0]).all():  # one number is left, too
            by = np.full_like(zero, (low.min() + high.max() + 1) // 2)
        else:
            by = np.where(fits, zero, (low + high + 1) // 2)
        return cls((weight - by).astype(np.int8), (zero - by).astype(np.int32))


def signed_bytes(bb: Any, a: Any, zero: Any) -> tuple[Any, Any]:
    """The bytes and their zero point as signed ones."""
    if str(a.ty.dtype) != "uint8":
        return a, zero
    half = relax.const(128, "int32")
    moved = relax.op.astype(relax.op.subtract(relax.op.astype(a, "int32"), half), "int8")
    none = relax.const(-128, "int32")
    return bb.normalize(moved), none if zero is None else relax.op.subtract(zero, half)


def product_of_bytes(bb: Any, a: Any, zero_a: Any, b: Moved) -> Any:
    k = len(b.weight)
    rest = -k % INT8_IN_WORD
    weight = np.pad(b.weight, ((0, rest), (0, 0)))
    if rest:
        a = bb.normalize(relax.op.nn.pad(a, [0, 0] * (len(shape_of(a)) - 1) + [0, rest]))
    constant = relax.const(in_words(weight))
    total = bb.emit_te(_sum_of_words, a, constant, primfunc_attrs={"op_pattern": MATMUL_LIKE})
    # sum (A - a0) (B - b0) = sum A B - b0 sum A - a0 (sum B - K b0)
    if b.zero.any():
        # TVM folds a number, so that no kernel binds a buffer for it.
        same = bool((b.zero == b.zero[0]).all())
        zero = relax.const(int(b.zero[0]), "int32") if same else relax.const(b.zero)
        rows = bb.emit_te(_row_sum, a)
        total = relax.op.subtract(total, relax.op.multiply(rows, zero))
    if zero_a is None:
        return total
    columns = relax.const(weight.sum(axis=0, dtype=np.int32) - np.int32(k) * b.zero)
    return relax.op.subtract(total, relax.op.multiply(columns, zero_a))


def _row_sum(a: Any) -> Any:
    q = te.reduce_axis((0, a.shape[-1]), name="q")

    def total(*at: Any) -> Any:
        place = (*at[:-1], q)
        return te.sum(a[place].astype("int32"), axis=[q])

    return te.compute((*a.shape[:-1], 1), total, name="row_sum")


def _sum_of_words(a: Any, b: Any) -> Any:
    rows, n, per_word = (int(d) for d in b.shape)
    q = te.reduce_axis((0, rows - 1), name="q")
    r = te.reduce_axis((0, per_word), name="r")

    def total(*at: Any) -> Any:
        place = (*at[:-1], q * per_word + r)
        product = a[place].astype("int32") * b[q, at[-1], r].astype("int32")
        return te.sum(product, axis=[q, r])

    return te.compute((*a.shape[:-1], n), total, name="matmul_int8")


class DynamicQuantizeLinear(onnx_frontend.DynamicQuantizeLinear):  # type: ignore[misc]
    """As the frontend's, with the extremes of rows first: they run side by side."""

    @classmethod
    def _impl_v11(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        x = inputs[0]
        none, most = relax.const(0.0, "float32"), relax.const(255.0, "float32")
        highest, lowest = _extremes(bb, x)
        high = relax.op.maximum(none, relax.op.max(highest))
        low = relax.op.minimum(none, relax.op.min(lowest))
        scale = relax.op.divide(relax.op.subtract(high, low), most)
        # Zeros alone have no range, and are divided by their scale.
        scale = relax.op.maximum(scale, relax.const(float(np.finfo(np.float32).tiny), "float32"))
        zero = relax.op.subtract(none, relax.op.divide(low, scale))
        zero = relax.op.astype(relax.op.round(relax.op.clip(zero, 0, 255)), "uint8")
        y = relax.op.quantize(x, scale, zero, axis=0, out_dtype="uint8")
        return relax.Tuple([y, scale, zero])


def _extremes(bb: Any, x: Any) -> tuple[Any, Any]:
    """Largest and smallest value of each row, in one kernel while the row is near.

    A row is a map or, of what has no maps, the last axis; where that is short, the last two.
    """
    shape = shape_of(x)
    long = len(shape) == 3 and shape[-1] >= _LONG_ROW
    rows = shape[: -1 if long or len(shape) < 3 else -2]
    if math.prod(rows) == 1:
        return x, x

    def compute(data: Any) -> list[Any]:
        def of(reduce: Callable[..., Any], name: str) -> Any:
            axes = [te.reduce_axis((0, d), name=f"r{i}") for i, d in enumerate(shape[len(rows) :])]

            def value(*at: Any) -> Any:
                place = (*at, *axes)
                return reduce(data[place], axis=axes)

            return te.compute(rows, value, name=name)

        return [of(te.max, "row_max"), of(te.min, "row_min")]

    pair = bb.emit_te(compute, x)
    return bb.emit(relax.TupleGetItem(pair, 0)), bb.emit(relax.TupleGetItem(pair, 1))


class MatMulNBits(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """com.microsoft's matmul of 4-bit or 8-bit weights: N rows of blocks along K.

    Layout: ONNX Runtime, docs/ContribOperators.md. The low half of a byte comes
    first; an absent zero point is half of the range.
    """

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        k, n, block = (int(attr[name]) for name in ("K", "N", "block_size"))
        packed, scale = known_array(inputs[1]), known_array(inputs[2])
        zero_input = optional_input(inputs, 3)
        zero = None if zero_input is None else known_array(zero_input)
        bits = int(attr.get("bits", 4))
        fits = bits in BLOCK_KINDS and block % 16 == 0 and k % block == 0
        unknown_zero = zero_input is not None and zero is None
        if not fits or packed is None or scale is None or unknown_zero:
            raise UnsupportedOpError(
                "MatMulNBits needs constant weights in 4 or 8 bits and, in 4 bits, a K that is a "
                "multiple of the block.",
                "Quantise the model again so, or use the float32 model.",
            )
        if optional_input(inputs, 4) is not None or (zero is not None and zero.dtype != np.uint8):
            raise UnsupportedOpError(
                "MatMulNBits with a group index or with zero points that are not in the bits of "
                "the weights is not supported.",
                "Quantise the model again without them.",
            )
        if str(inputs[0].ty.dtype) != "float32" or scale.dtype != np.float32:
            raise UnsupportedOpError(
                "MatMulNBits is supported on float32 only.", "Export the model in float32."
            )
        blocks = k // block
        # Four bytes of a row, the low half of each first, are a word of ours as they lie.
        words = np.ascontiguousarray(packed.reshape(n, k * bits // 8)).view("<i4")
        arguments = [inputs[0], relax.const(np.ascontiguousarray(words.T))]
        arguments.append(relax.const(_by_block(scale.reshape(n, blocks))))
        if zero is not None:
            rows = zero.reshape(n, -1)
            zeros = _halves(rows)[:, :blocks] if bits == 4 else rows
            arguments.append(relax.const(_by_block(zeros)))
        attributes = {"op_pattern": MATMUL_LIKE}
        total = bb.emit_te(_sum_of_blocks, bits, *arguments, primfunc_attrs=attributes)
        bias = optional_input(inputs, 5)
        return total if bias is None else relax.op.add(total, bias)


def _halves(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Both 4-bit values of each byte, the low one first."""
    both = np.stack([packed & 15, packed >> 4], axis=-1)
    return both.reshape(*packed.shape[:-1], -1)


def _by_block(values: NDArray[Any]) -> NDArray[Any]:
    """Transposed, with columns added up to whole vectors: kernels read four at once."""
    n = len(values)
    return np.ascontiguousarray(np.pad(values, ((0, -n % LANES), (0, 0))).T)


def _sum_of_blocks(bits: int, a: Any, words: Any, scale: Any, zero: Any = None) -> Any:
    rows, n = (int(d) for d in words.shape)
    blocks = int(scale.shape[0])
    per_block, per_word = rows // blocks, WORD_BITS // bits
    g = te.reduce_axis((0, blocks), name="g")
    q = te.reduce_axis((0, per_block), name="q")
    r = te.reduce_axis((0, per_word), name="r")

    def total(*at: Any) -> Any:
        row, column = g * per_block + q, at[-1]
        value = ((words[row, column] >> (r * bits)) & ((1 << bits) - 1)).astype("float32")
        half = tirx.const(float(1 << (bits - 1)), "float32")
        lowest = half if zero is None else zero[g, column].astype("float32")
        place = (*at[:-1], row * per_word + r)
        factor = a[place]
        return te.sum(factor * ((value - lowest) * scale[g, column]), axis=[g, q, r])

    return te.compute((*a.shape[:-1], n), total, name=BLOCK_KINDS[bits])


class TableProduct(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Of floats and the rows of a table of bytes: ``sum_k A[m, k] (T[n, k] - zero)``."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        given = optional_input(inputs, 2)
        known = np.zeros(()) if given is None else known_array(given)
        assert known is not None  # as the rule that writes the operator has seen
        zero = float(known.reshape(()))
        attributes = {"op_pattern": MATMUL_LIKE}
        return bb.emit_te(_sum_of_rows, inputs[0], inputs[1], zero, primfunc_attrs=attributes)


def _sum_of_rows(a: Any, table: Any, zero: float) -> Any:
    n, k = (int(d) for d in table.shape)
    q = te.reduce_axis((0, k), name="q")

    def total(*at: Any) -> Any:
        value = table[at[-1], q].astype("float32")
        place = (*at[:-1], q)
        return te.sum(a[place] * (value - zero if zero else value), axis=[q])

    return te.compute((*a.shape[:-1], n), total, name="matmul_table")


CONVERTERS = {
    "DynamicQuantizeLinear": DynamicQuantizeLinear,
    "MatMulInteger": MatMulInteger,
    "MatMulNBits": MatMulNBits,
    TABLE_PRODUCT: TableProduct,
}
"""By ONNX operator; they stand before the frontend's own."""
