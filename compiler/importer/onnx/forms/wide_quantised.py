"""Quantisation to other numbers than bytes: in 16 bits, and constants of any kind or in blocks.

Numbers in 16 bits are int32 between the two nodes of a pair: only moved there, never added.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter

SIXTEEN = (TensorProto.INT16, TensorProto.UINT16)
_WIDE = (*SIXTEEN, *(
    TensorProto.DataType.Value(name)
    for name in TensorProto.DataType.keys()  # noqa: SIM118  (no mapping)
    if name.startswith(("FLOAT4", "FLOAT8", "INT4", "UINT4", "INT2", "UINT2"))
))  # fmt: skip
"""What the importer's converters do not take."""


def is_wide(r: Rewriter, node: onnx.NodeProto) -> bool:
    """Whether what a DequantizeLinear reads is nothing that the converters take."""
    blocks = any(a.name == "block_size" and a.i for a in node.attribute)
    return blocks or r.dtype(node.input[0]) in _WIDE


def quantize(r: Rewriter) -> bool:
    """To 16 bits, without blocks."""
    x, scale, zero = [*r.node.input, ""][:3]
    to = r.dtype(zero) if zero else r.attribute("output_dtype", 0)
    if r.attribute("block_size", 0):
        raise r.refuse("no blocks")
    if to not in SIXTEEN:
        return False
    limits = np.iinfo(helper.tensor_dtype_to_np_dtype(to))
    value = r.op("Round", r.op("Div", x, _along(r, scale, np.float32)))
    if zero:
        value = r.op("Add", value, _along(r, zero, np.float32))
    ends = [r.weight(n, np.float32) for n in (limits.min, limits.max)]
    held = r.op("Min", r.op("Max", value, ends[0]), ends[1])
    r.op("Cast", held, to=TensorProto.INT32, out=r.node.output[0])
    return True


def dequantize(r: Rewriter) -> bool:
    """Of constants, which are decoded here, and of 16 bits."""
    x, scale, zero = [*r.node.input, ""][:3]
    block = r.attribute("block_size", 0)
    if not is_wide(r, r.node):
        return False
    if all(n in r.constants for n in (x, scale, zero) if n):
        r.op("Identity", r.weight(_decoded(r, x, scale, zero, block)), out=r.node.output[0])
        return True
    if block or r.dtype(x) not in SIXTEEN:
        raise r.refuse("constants, or whole numbers of 8 or 16 bits without blocks")
    value = r.op("Cast", x, to=TensorProto.FLOAT)
    if zero:
        value = r.op("Sub", value, _along(r, zero, np.float32))
    r.op("Mul", value, _along(r, scale, np.float32), out=r.node.output[0])
    return True


def _along(r: Rewriter, name: str, dtype: Any) -> str:
    """A constant scale or zero point, shaped to go with its axis."""
    if name not in r.constants:
        raise r.refuse("constant scales and zero points")
    held = r.constants[name].astype(dtype)
    if held.size > 1:
        rank = len(r.shape(r.node.input[0]))
        axis = r.attribute("axis", 1) % rank
        held = held.reshape([-1 if d == axis else 1 for d in range(rank)])
    return r.weight(held.reshape(()) if held.size == 1 else held)


def _decoded(r: Rewriter, x: str, scale: str, zero: str, block: int) -> NDArray[Any]:
    codes = r.constants[x].astype(np.float32)
    axis = r.attribute("axis", 1) % max(codes.ndim, 1)

    def spread(name: str) -> NDArray[Any]:
        held = r.constants[name].astype(np.float32)
        if block:
            return np.repeat(held, block, axis).take(range(codes.shape[axis]), axis)
        return held.reshape([-1 if d == axis else 1 for d in range(codes.ndim)])

    values = (codes - spread(zero) if zero else codes) * spread(scale)
    kind = r.constants[scale].dtype
    return np.asarray(values, kind if kind == np.float16 else np.float32)
