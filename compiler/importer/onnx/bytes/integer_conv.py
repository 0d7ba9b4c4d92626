"""Convolutions of bytes, written as the importer's own operator, which has its channels last."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from nnjit_studio.compiler.importer.onnx.bytes.integer_pair import integer_pair
from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter
from nnjit_studio.compiler.tvm_adapter.quantised_conv import INTEGER_CONV

_BYTES = {TensorProto.INT8, TensorProto.UINT8}
_KEPT = ("auto_pad", "dilations", "group", "pads", "strides")


def to_last(rank: int) -> list[int]:
    """The permutation from channels first to channels last."""
    return [0, *range(2, rank), 1]


def to_first(rank: int) -> list[int]:
    """The permutation back."""
    return [0, rank - 1, *range(1, rank - 1)]


def by_channel(values: NDArray[Any], rank: int) -> NDArray[Any]:
    """Values for each output channel, or one for all, to be broadcast over images."""
    if values.size == 1:
        return values.reshape(())
    return values.reshape([-1] + [1] * (rank - 2))


def integer_conv(r: Rewriter, operands: tuple[str, str, str, str], out: str = "") -> str:
    """The int32 convolution of image and weight with their zero points, or nothing.

    Weights and their zero points have to be constant, and there is one group or as many as there
    are channels, before and behind.
    """
    x, w, x_zero, w_zero = operands
    weight, zero = r.constants.get(w), r.constants.get(w_zero)
    if weight is None or weight.ndim < 3 or (w_zero and zero is None):
        return ""
    outputs, depth = weight.shape[:2]
    groups = r.attribute("group", 1)
    by_itself = groups == outputs and depth == 1
    if groups != 1 and not by_itself:
        return ""
    if zero is not None and zero.size not in (1, outputs):
        return ""
    if {r.dtype(n) for n in (w, w_zero) if n} - _BYTES:
        return ""
    kept = {a.name: helper.get_attribute_value(a) for a in r.node.attribute if a.name in _KEPT}
    image = r.op("Transpose", x, perm=to_last(weight.ndim))
    given = [image, w, x_zero, w_zero]
    while not given[-1]:
        given.pop()
    total = r.op(INTEGER_CONV, *given, **kept)
    return r.op("Transpose", total, out=out, perm=to_first(weight.ndim))


def conv(r: Rewriter) -> bool:
    """Of a dequantised image and dequantised constant weights: the convolution of their bytes."""
    pair = integer_pair(r)
    if pair is None or not pair.scaled_along(0):
        return False
    total = integer_conv(r, pair.operands)
    if not total:
        return False
    bias = (*r.node.input, "")[2]
    rank = pair.weight.ndim
    scale_sum(r, total, by_channel(pair.factor, rank), bias, rank)
    return True


def scale_sum(r: Rewriter, total: str, factor: NDArray[Any], bias: str, rank: int) -> None:
    """The node's output in float32 from its int32 sum.

    A bias that is dequantised from int32 is added as such, as ONNX Runtime's integer kernels do.
    """
    whole = _whole_bias(r, bias)
    if whole is not None:
        total = r.op("Add", total, r.weight(by_channel(whole, rank)))
    total, out = r.op("Cast", total, to=TensorProto.FLOAT), r.node.output[0]
    if not bias or whole is not None:
        r.scaled[out] = total, factor
        r.op("Mul", total, r.weight(factor), out=out)
        return
    shape = r.weight([1, -1] + [1] * (rank - 2), np.int64)
    added = r.op("Reshape", bias, shape) if rank > 2 else bias
    r.op("Add", r.op("Mul", total, r.weight(factor)), added, out=out)


def _whole_bias(r: Rewriter, bias: str) -> NDArray[np.int32] | None:
    node = r.dequantised.get(bias)
    if node is None or any(r.constants.get(n, np.ones(1)).any() for n in node.input[2:] if n):
        return None
    held = r.constants.get(node.input[0])
    return held if held is not None and held.dtype == np.int32 else None
