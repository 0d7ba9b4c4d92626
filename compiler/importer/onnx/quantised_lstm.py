"""DynamicQuantizeLSTM: an LSTM whose weights are decoded once.

ONNX Runtime rounds the input and each step's state to 8 bits for its products. So do we: the
products of rounded values in float32 are its own but for the last digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter

ROUNDED = "rounded"
"""Attribute of the LSTM that is written: whether a step's product takes the state in 8 bits."""
OPERATOR = "DynamicQuantizeLSTM"
_OWN_INPUTS = 8
"""Behind them stand scales and zero points."""


def dynamic_quantize_lstm(r: Rewriter) -> None:
    """Write the LSTM of the same attributes, with weights in float32 and its input rounded."""
    names = [*r.node.input, *[""] * 12][:12]
    if r.attribute("input_forget", 0):
        raise r.refuse("input_forget 0")
    names[0] = rounded(r, names[0])
    names[1] = r.weight(_decoded(r, 1, 8))
    names[2] = r.weight(_decoded(r, 2, 10))
    kept = [a for a in r.node.attribute if a.name != "input_forget"]
    node: onnx.NodeProto = helper.make_node("LSTM", names[:_OWN_INPUTS], r.node.output, r.node.name)
    node.attribute.extend([*kept, helper.make_attribute(ROUNDED, 1)])
    r.nodes.append(node)


def rounded(r: Rewriter, x: str) -> str:
    """A tensor through 8 bits, with one scale."""
    *names, out = (f"{x}//{r.node.name}//{part}" for part in ("bytes", "scale", "zero", "rounded"))
    r.nodes.append(helper.make_node("DynamicQuantizeLinear", [x], names))
    return r.op("DequantizeLinear", *names, out=out)


def _decoded(r: Rewriter, position: int, scale_at: int) -> NDArray[Any]:
    """Weights ``(directions, 4 hidden, columns)``, stored the other way round in 8 bits.

    A direction has one scale and zero point, or one for each of its rows.
    """
    held = r.constant(position, "weight").astype(np.float32)
    scale, zero = r.constant(scale_at, "scale"), r.constant(scale_at + 1, "zero point")
    per = (len(held), 1, -1)
    decoded = (held - zero.astype(np.float32).reshape(per)) * scale.reshape(per)
    return np.ascontiguousarray(decoded.transpose(0, 2, 1), np.float32)
