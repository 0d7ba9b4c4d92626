"""Operators of ONNX Runtime's quantised models, written with float and MatMulInteger ones.

ONNX operator pages ConvInteger, QLinearConv, QLinearMatMul; ONNX Runtime's ContribOperators.md
for those of ``com.microsoft``. A result is requantised as ONNX Runtime's kernels do it: the
int32 sum times one float factor, rounded to even, moved by the zero point and saturated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter


def conv_integer(r: Rewriter) -> bool:
    """Exact while sums stay below 2^24, where float32 holds every integer."""
    x, w, x_zero, w_zero = [*r.node.input, "", ""][:4]
    (out,) = r.node.output
    r.whole[out] = _conv(r, x, x_zero, w, w_zero)
    r.op("Cast", r.whole[out], to=TensorProto.INT32, out=out)
    return True


def cast(r: Rewriter) -> bool:
    """To float32 and back from integers that were computed as such: nothing to do."""
    held = r.whole.get(r.node.input[0])
    if held is None or r.attribute("to", 0) != TensorProto.FLOAT:
        return False
    r.op("Identity", held, out=r.node.output[0])
    return True


def qlinear_conv(r: Rewriter) -> bool:
    x, _, x_zero, w, _, w_zero, _, y_zero, *bias = r.node.input
    total = _conv(r, x, x_zero, w, w_zero)
    rank = len(r.shape(w))
    if bias and bias[0]:
        held = r.constant(8, "bias").astype(np.float32).reshape([-1] + [1] * (rank - 2))
        total = r.op("Add", total, r.weight(held))
    factor = _factor(r, 1, 4, 6)
    if factor.size > 1:  # one for each output channel
        factor = factor.reshape([-1] + [1] * (rank - 2))
    _requantise(r, total, factor, y_zero)
    return True


def qlinear_matmul(r: Rewriter) -> bool:
    a, _, a_zero, b, _, b_zero, _, y_zero = r.node.input
    total = r.op("Cast", r.op("MatMulInteger", a, b, a_zero, b_zero), to=TensorProto.FLOAT)
    _requantise(r, total, _factor(r, 1, 4, 6), y_zero)
    return True


def qgemm(r: Rewriter) -> bool:
    """``com.microsoft.QGemm``; its sum stays f32 when no output scale is given."""
    a, a_scale, a_zero, b, b_scale, b_zero, bias, y_scale, y_zero = [*r.node.input, "", "", ""][:9]
    if r.attribute("alpha", 1.0) != 1.0:
        raise r.refuse("alpha 1")
    if r.attribute("transA", 0):
        a = r.op("Transpose", a, perm=[1, 0])
    if r.attribute("transB", 0):
        b = r.op("Transpose", b, perm=[1, 0])
    total = r.op("MatMulInteger", a, b, a_zero, b_zero)
    if bias:
        total = r.op("Add", total, bias)
    total = r.op("Cast", total, to=TensorProto.FLOAT)
    if y_scale:
        _requantise(r, total, _factor(r, 1, 4, 7), y_zero)
    else:
        r.op("Mul", total, r.op("Mul", a_scale, b_scale), out=r.node.output[0])
    return True


def qlinear_pairwise(r: Rewriter) -> bool:
    """``com.microsoft.QLinearAdd`` and ``QLinearMul``, in floats."""
    a, a_scale, a_zero, b, b_scale, b_zero, *y = r.node.input
    kind = r.node.op_type.removeprefix("QLinear")
    pair = _floats(r, a, a_scale, a_zero), _floats(r, b, b_scale, b_zero)
    _quantise(r, r.op(kind, *pair), *y)
    return True


def qlinear_pointwise(r: Rewriter) -> bool:
    """``com.microsoft.QLinearSigmoid``, ``Softmax``, ``LeakyRelu`` and average pools, in floats."""
    x, x_scale, x_zero, *y = r.node.input
    if r.attribute("channels_last", 0):
        raise r.refuse("channels_last 0")
    kept = {a.name: helper.get_attribute_value(a) for a in r.node.attribute}
    for name in ("channels_last", "opset"):
        kept.pop(name, None)
    kind = r.node.op_type.removeprefix("QLinear")
    _quantise(r, r.op(kind, _floats(r, x, x_scale, x_zero), **kept), *y)
    return True


def qlinear_concat(r: Rewriter) -> bool:
    y_scale, y_zero, *rest = r.node.input
    parts = [_floats(r, *rest[i : i + 3]) for i in range(0, len(rest), 3)]
    _quantise(r, r.op("Concat", *parts, axis=r.attribute("axis", 0)), y_scale, y_zero)
    return True


def _floats(r: Rewriter, x: str, scale: str, zero: str) -> str:
    return r.op("DequantizeLinear", x, scale, *([zero] if zero else []))


def _quantise(r: Rewriter, x: str, scale: str, zero: str = "") -> None:
    r.op("QuantizeLinear", x, scale, *([zero] if zero else []), out=r.node.output[0])


def _conv(r: Rewriter, x: str, x_zero: str, w: str, w_zero: str) -> str:
    """The convolution of the values less their zero points; padding is the zero point's."""
    image = r.op("Cast", x, to=TensorProto.FLOAT)
    if x_zero:
        image = r.op("Sub", image, r.op("Cast", x_zero, to=TensorProto.FLOAT))
    weight = r.constants.get(w)
    if weight is None:
        raise r.refuse("a constant weight")
    held: NDArray[Any] = weight.astype(np.float32)
    if w_zero:
        zero = r.constants.get(w_zero)
        if zero is None:
            raise r.refuse("a constant zero point of its weight")
        held = held - zero.astype(np.float32).reshape([-1] + [1] * (weight.ndim - 1))
    kept = {a.name: helper.get_attribute_value(a) for a in r.node.attribute}
    return r.op("Conv", image, r.weight(held), **kept)


def _factor(r: Rewriter, a: int, b: int, y: int) -> NDArray[Any]:
    """What one unit of the int32 sum is in units of the output."""
    scales = [r.constant(i, "scale").astype(np.float32) for i in (a, b, y)]
    product: NDArray[Any] = scales[0] * scales[1] / scales[2]
    return product


def _requantise(r: Rewriter, total: str, factor: NDArray[Any], zero: str) -> None:
    if zero and r.dtype(zero) not in (TensorProto.UINT8, TensorProto.INT8):
        raise r.refuse("8-bit outputs")
    # Not Clip and Cast: the importer's Cast to 8 bits wraps, at a dozen operations a value.
    _quantise(r, r.op("Mul", total, r.weight(factor)), r.weight(1, np.float32), zero)
