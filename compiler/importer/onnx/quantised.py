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

from nnjit_studio.compiler.importer.onnx.bytes.integer_conv import by_channel, integer_conv
from nnjit_studio.compiler.importer.onnx.bytes.integer_pair import integer_pair
from nnjit_studio.compiler.importer.onnx.forms import wide_quantised
from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter
from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.tvm_adapter.quantised import TABLE_PRODUCT

SMALLEST = 1 << 20
"""Elements of a table; a smaller one is decoded at import."""


def conv_integer(r: Rewriter) -> bool:
    """In float32 where no integer kernel fits: exact while sums stay below 2^24."""
    x, w, x_zero, w_zero = [*r.node.input, "", ""][:4]
    (out,) = r.node.output
    if integer_conv(r, (x, w, x_zero, w_zero), out):
        return True
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
    total = integer_conv(r, (x, w, x_zero, w_zero))
    whole = np.int32 if total else np.float32
    total = total or _conv(r, x, x_zero, w, w_zero)
    rank = len(r.shape(w))
    if bias and bias[0]:
        held = by_channel(r.constant(8, "bias").astype(whole), rank)
        total = r.op("Add", total, r.weight(held))
    if whole is np.int32:
        total = r.op("Cast", total, to=TensorProto.FLOAT)
    _requantise(r, total, by_channel(_factor(r, 1, 4, 6), rank), y_zero)
    return True


def quantize(r: Rewriter) -> bool:
    """Of a sum of integers that was just scaled: by one factor, as ONNX Runtime's fused kernels.

    Of a softmax of bytes of the same kind: in whole steps. Of a table that was just dequantised so:
    its bytes.
    """
    x, scale, zero = [*r.node.input, ""][:3]
    if wide_quantised.quantize(r):
        return True
    held = r.constants.get(scale)
    if held is None or held.size != 1 or not zero:
        return False
    if r.dtype(zero) not in (TensorProto.UINT8, TensorProto.INT8):
        return False
    node = r.dequantised.get(x)
    if node is not None and node.input[0] in r.turned and node.input[1:] == r.node.input[1:]:
        out = r.op("Identity", node.input[0], out=r.node.output[0])
        r.turned[out] = r.turned[node.input[0]]
        return True
    if x in r.softmaxes and _is_integer_softmax(r, r.softmaxes[x].input[0], zero):
        _in_whole_steps(r, x, held, zero)
        return True
    if x not in r.scaled:
        return False
    total, factor = r.scaled[x]
    _requantise(r, total, factor / held.astype(np.float32).reshape(()), zero)
    return True


def _is_integer_softmax(r: Rewriter, given: str, zero: str) -> bool:
    """Whether ONNX Runtime makes QLinearSoftmax of the pairs around a softmax: bytes of one kind.

    On x64 it has moved signed bytes by 128 before, where one node reads what a pair means.
    """
    same = r.dtype(given) == r.dtype(zero)
    moved = [name in r.pairs for name in (given, r.node.output[0])]
    return same and (r.dtype(zero) == TensorProto.UINT8 or moved[0] == moved[1])


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


def matmul(r: Rewriter) -> bool:
    """Of two dequantised matrices: the product of their integers, in float32 where none is
    constant. Of floats and a table: the product of its bytes."""
    return _of_integers(r, False, "") or _of_activations(r) or _of_table(r)


def gemm(r: Rewriter) -> bool:
    plain = r.attribute("alpha", 1.0) == r.attribute("beta", 1.0) == 1.0
    if not plain or r.attribute("transA", 0):
        return False
    bias = (*r.node.input, "")[2]
    return _of_integers(r, bool(r.attribute("transB", 0)), bias)


def _of_activations(r: Rewriter) -> bool:
    """Sums of integers in float32: exact below 2^24, else as good as sums of what they mean."""
    pair = [r.dequantised.get(name) for name in r.node.input]
    factor = np.ones((), np.float32)
    for node in pair:
        scale = r.constants.get(node.input[1]) if node else None
        if node is None or scale is None or scale.size != 1 or scale.dtype != np.float32:
            return False
        if r.dtype(node.input[0]) not in (TensorProto.UINT8, TensorProto.INT8):
            return False
        factor = factor * scale.reshape(())
    one = r.weight(1, np.float32)
    whole = [r.op("DequantizeLinear", n.input[0], one, *n.input[2:]) for n in pair if n]
    _scaled(r, r.op("MatMul", *whole), factor)
    return True


def transpose(r: Rewriter) -> bool:
    """Of a table of bytes, or in front of its dequantisation."""
    (x,), (out,) = r.node.input, r.node.output
    node = r.dequantised.get(x)
    if node is not None and r.constants.get(node.input[1], np.ones(2)).size == 1:
        x, *scales = node.input
    held = r.constants.get(x)
    if held is None or held.ndim != 2 or held.dtype not in (np.int8, np.uint8):
        return False
    if list(r.attribute("perm", [1, 0])) != [1, 0]:
        return False
    if x == r.node.input[0]:
        r.turned[out] = x
        return False
    turned = r.op("Transpose", x)
    r.turned[turned] = x
    r.op("DequantizeLinear", turned, *scales, out=out)
    r.dequantised[out] = r.nodes[-1]
    return True


def _of_table(r: Rewriter) -> bool:
    """A language model's head: its sums read the bytes of the table that words are looked up in."""
    node = r.dequantised.get(r.node.input[1])
    if node is None or node.input[0] not in r.turned:
        return False
    name, scale = r.turned[node.input[0]], r.constants.get(node.input[1])
    table = r.constants[name]
    whole = table.shape[1] % LANES == 0 and table.size >= SMALLEST
    known = all(zero in r.constants for zero in node.input[2:])
    if scale is None or scale.size != 1 or not (whole and known):
        return False
    total = r.op(TABLE_PRODUCT, r.node.input[0], name, *node.input[2:])
    r.op("Mul", total, node.input[1], out=r.node.output[0])
    return True


def _scaled(r: Rewriter, total: str, factor: NDArray[Any]) -> None:
    """The output of a product, and what a QuantizeLinear behind it should know.

    ONNX Runtime makes one operator of them where nothing else reads the dequantised operands.
    """
    (out,) = r.node.output
    r.op("Mul", total, r.weight(factor), out=out)
    if all(r.read.get(name) == 1 for name in (*r.node.input[:2], out)):
        r.scaled[out] = total, factor


def gather(r: Rewriter) -> bool:
    """Rows of a dequantised table: only those are dequantised."""
    node = r.dequantised.get(r.node.input[0])
    if node is None or node.input[0] not in r.constants:
        return False
    table, scale, *zero = node.input
    if scale not in r.constants or r.constants[scale].size != 1:
        return False
    rows = r.op("Gather", table, r.node.input[1], axis=r.attribute("axis", 0))
    r.op("DequantizeLinear", rows, scale, *zero, out=r.node.output[0])
    return True


def _of_integers(r: Rewriter, turned: bool, bias: str) -> bool:
    """``(sum (a - a0) (b - b0)) scale_a scale_b``: exact up to its last two roundings."""
    pair, axis = integer_pair(r), 0 if turned else 1
    if pair is None or pair.weight.ndim != 2 or not pair.scaled_along(axis):
        return False
    a, b, a_zero, b_zero = pair.operands
    if not {r.dtype(a), r.dtype(b)} <= {TensorProto.INT8, TensorProto.UINT8}:
        return False
    second = b
    if turned or b in r.turned:
        second = r.weight(np.ascontiguousarray(pair.weight.T if turned else pair.weight))
    if b_zero and not a_zero:
        a_zero = r.weight(0, helper.tensor_dtype_to_np_dtype(r.dtype(a)))
    factor = pair.factor if pair.factor.size > 1 else pair.factor.reshape(())
    if bias:
        scaled_product(r, (a, second, a_zero, b_zero), r.weight(factor), bias)
    else:
        zeros = [name for name in (a_zero, b_zero) if name]
        total = r.op("MatMulInteger", a, second, *zeros)
        _scaled(r, r.op("Cast", total, to=TensorProto.FLOAT), factor)
    return True


def scaled_product(
    r: Rewriter, operands: tuple[str, ...], scale: str, bias: str, out: str = ""
) -> None:
    """A product of integers and their zero points in float32, else as the output of the node."""
    given = list(operands)
    while not given[-1]:
        given.pop()
    total = r.op("Cast", r.op("MatMulInteger", *given), to=TensorProto.FLOAT)
    out = out or r.node.output[0]
    scaled = r.op("Mul", total, scale, out="" if bias else out)
    if bias:
        r.op("Add", scaled, bias, out=out)


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


def qlinear_softmax(r: Rewriter) -> bool:
    """``com.microsoft.QLinearSoftmax``, in floats, and its whole steps."""
    x, x_scale, x_zero, y_scale, *y_zero = r.node.input
    held = r.constants.get(y_scale)
    if held is None or held.size != 1 or not y_zero:
        return qlinear_pointwise(r)
    soft = r.op("Softmax", _floats(r, x, x_scale, x_zero), axis=r.attribute("axis", -1))
    _in_whole_steps(r, soft, held, y_zero[0])
    return True


def _in_whole_steps(r: Rewriter, x: str, scale: NDArray[Any], zero: str) -> None:
    """One is a whole number of steps in ONNX Runtime's QLinearSoftmax, which rounds it down.

    A scale of a 255th, in float32, is a little more than that: one is 254 steps.
    """
    steps = np.floor(np.float32(1) / scale.astype(np.float32).reshape(()))
    _requantise(r, x, steps, zero)


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
