"""DynamicQuantizeLSTM: an LSTM whose weights are decoded once.

ONNX Runtime rounds the input and each step's state to 8 bits as well, because its products need
that. Ours do not, so results differ from its own by that rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter

OPERATOR = "DynamicQuantizeLSTM"
_OWN_INPUTS = 8
"""Behind them stand scales and zero points."""


def dynamic_quantize_lstm(r: Rewriter) -> None:
    """Write the LSTM of the same attributes, with weights in float32."""
    names = [*r.node.input, *[""] * 12][:12]
    if r.attribute("input_forget", 0):
        raise r.refuse("input_forget 0")
    names[1] = r.weight(_decoded(r, 1, 8))
    names[2] = r.weight(_decoded(r, 2, 10))
    kept = [a for a in r.node.attribute if a.name != "input_forget"]
    node: onnx.NodeProto = helper.make_node("LSTM", names[:_OWN_INPUTS], r.node.output, r.node.name)
    node.attribute.extend(kept)
    r.nodes.append(node)


def _decoded(r: Rewriter, position: int, scale_at: int) -> NDArray[Any]:
    """Weights ``(directions, 4 hidden, columns)``, stored the other way round in 8 bits.

    A direction has one scale and zero point, or one for each of its rows.
    """
    held = r.constant(position, "weight").astype(np.float32)
    scale, zero = r.constant(scale_at, "scale"), r.constant(scale_at + 1, "zero point")
    per = (len(held), 1, -1)
    decoded = (held - zero.astype(np.float32).reshape(per)) * scale.reshape(per)
    return np.ascontiguousarray(decoded.transpose(0, 2, 1), np.float32)
