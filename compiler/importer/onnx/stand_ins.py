"""Operators of ONNX with the types of ONNX Runtime's own and of ours, for their inference alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import onnx
from onnx import helper, numpy_helper

from nnjit_studio.compiler.tvm_adapter.bits.byte_function import BYTE_FUNCTION
from nnjit_studio.compiler.tvm_adapter.bits.casts import BFLOAT16_OP

_Weights = dict[str, onnx.TensorProto]
_Found = tuple[list[onnx.NodeProto], list[onnx.TensorProto]]


def with_stand_ins(nodes: Iterable[onnx.NodeProto], weights: _Weights) -> _Found:
    """The nodes with others in place of those that shape inference does not know, and the
    constants of those. A stand-in has the first output alone."""
    changed: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []
    for node in nodes:
        if node.op_type == BYTE_FUNCTION:
            x, table = node.input
            changed.append(helper.make_node("Cast", [x], node.output, to=weights[table].data_type))
            continue
        if node.op_type == BFLOAT16_OP:
            changed.append(helper.make_node("Identity", node.input, node.output))
            continue
        width = _WIDTHS.get(node.op_type) if node.domain == "com.microsoft" else None
        if width is None:
            changed.append(node)
            continue
        size = width(node, weights)
        x, out = node.input[0], node.output[0]
        if node.op_type == "GatherBlockQuantized":
            x = node.input[1]
        if not size:
            changed.append(helper.make_node("Identity", [x], [out]))
            continue
        places = numpy_helper.from_array(np.zeros(size, np.int64), f"{out}//columns")
        constants.append(places)
        if node.op_type == "GatherBlockQuantized":
            row = numpy_helper.from_array(np.zeros((1, size), np.float32), f"{out}//row")
            constants.append(row)
            changed.append(helper.make_node("Gather", [row.name, x], [out], axis=0))
        else:
            changed.append(helper.make_node("Gather", [x, places.name], [out], axis=-1))
    return changed, constants


def _attribute(node: onnx.NodeProto, name: str, default: int = 0) -> int:
    return next((int(a.i) for a in node.attribute if a.name == name), default)


def _of_attribute(node: onnx.NodeProto, weights: _Weights) -> int:
    return _attribute(node, "N")


def _of_query(node: onnx.NodeProto, weights: _Weights) -> int:
    """None: as wide as the query, or as the value where that is wider."""
    return 0


def _of_third(node: onnx.NodeProto, weights: _Weights) -> int:
    held = weights.get(node.input[1])
    sizes = next((list(a.ints) for a in node.attribute if a.name == "qkv_hidden_sizes"), [])
    if sizes:
        return int(sizes[2])
    return int(held.dims[1]) // 3 if held is not None else 0


def _of_groups(node: onnx.NodeProto, weights: _Weights) -> int:
    """Of packed operands the queries' share, where a table of cosines tells the width of a head."""
    if len(node.input) > 1 and node.input[1]:
        return 0
    held = weights.get(node.input[7]) if len(node.input) > 7 else None
    return 2 * int(held.dims[1]) * _attribute(node, "num_heads") if held is not None else 0


def _of_rows(node: onnx.NodeProto, weights: _Weights) -> int:
    held = weights[node.input[0]]
    halves = held.data_type == onnx.TensorProto.UINT8 and _attribute(node, "bits", 4) == 4
    return int(held.dims[-1]) * (2 if halves else 1)


_WIDTHS: dict[str, Callable[[onnx.NodeProto, _Weights], int]] = {
    "Attention": _of_third,
    "GatherBlockQuantized": _of_rows,
    "GroupQueryAttention": _of_groups,
    "MatMulBnb4": _of_attribute,
    "MatMulNBits": _of_attribute,
    "MultiHeadAttention": _of_query,
    "QAttention": _of_third,
}
"""The last size of the output; 0 for that of the first input."""
