"""Unsigned integers of 64 bits, by the signed ones that have their bits.

Sums, products and whatever moves numbers are the same for both. What hangs on the order of numbers
looks at them moved by half of their range, where signed ones are in the order of the unsigned. Such
inputs are given, and outputs come, as signed ones of the same bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nnjit_studio.compiler.importer.onnx.forms.wider_integers import held_in
from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter, Types
from nnjit_studio.compiler.onnx_file.arrays import array_of
from nnjit_studio.compiler.onnx_file.check import opset_of

_OWN, _SIGNED = TensorProto.UINT64, TensorProto.INT64
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16)
_SAME = (
    "Add", "BitCast", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Compress",
    "Concat", "Constant", "ConstantOfShape", "CumSum", "DepthToSpace", "Equal", "Expand",
    "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Mul", "NonZero", "Pad",
    "ReduceSum", "Reshape", "ReverseSequence", "Shape", "Size", "Slice", "SpaceToDepth",
    "Split", "Squeeze", "Sub", "Sum", "Tile", "Transpose", "Trilu", "Unsqueeze", "Where",
)  # fmt: skip
"""Operators that do the same to the signed numbers."""
_LEAST, _HALF_RANGE = -(2**63), 2.0**63


def unsigned_integers(
    model: onnx.ModelProto, types_of: Callable[[onnx.ModelProto], Types]
) -> onnx.ModelProto:
    """The model itself, without unsigned integers of 64 bits; control flow must be flat.

    Parameters
    ----------
    types_of
        Tells the dtypes of all tensors; asked where the model has one of these.

    Raises
    ------
    UnsupportedOpError
        Where an operator takes or gives some and has no form here.
    """
    graph = model.graph
    tensors, named, ports = held_in(graph, (_OWN,))
    if not (tensors or named or ports):
        return model
    r = Rewriter(opset_of(model), types_of(model), {}, mark="//signed")
    for node in graph.node:
        r.node = node
        if not _has_own(r, node):
            r.nodes.append(node)
        elif node.op_type in _SPELLED:
            _SPELLED[node.op_type](r)
        elif node.op_type in _SAME:
            r.nodes.append(node)
        else:
            raise r.refuse("other integers than unsigned ones of 64 bits")
    for tensor in tensors:
        tensor.CopyFrom(numpy_helper.from_array(array_of(tensor).astype(np.int64), tensor.name))
    for attribute in named:
        attribute.i = _SIGNED
    for port in ports:
        port.type.tensor_type.elem_type = _SIGNED
    del graph.value_info[:]
    del graph.node[:]
    graph.node.extend(r.nodes)
    graph.initializer.extend(r.weights)
    return model


def _has_own(r: Rewriter, node: onnx.NodeProto) -> bool:
    return any(r.dtype(name) == _OWN for name in (*node.input, *node.output) if name)


def _number(r: Rewriter, value: int) -> str:
    return r.weight(value, np.int64)


def _moved(r: Rewriter, x: str, out: str = "") -> str:
    """By half of the range, there or back."""
    return r.op("Add", x, _number(r, _LEAST), out=out)


def _again(r: Rewriter, *inputs: str, outputs: list[str]) -> None:
    """The node itself, of other tensors."""
    node = onnx.NodeProto()
    node.CopyFrom(r.node)
    node.input[:], node.output[:] = inputs, outputs
    r.nodes.append(node)


def _compared(r: Rewriter) -> None:
    _again(r, *(_moved(r, x) for x in r.node.input), outputs=list(r.node.output))


def _chosen(r: Rewriter) -> None:
    """Of the largest or smallest ones, the first output; axes and numbers stay as they are."""
    every = r.node.op_type in ("Max", "Min", "Clip")
    first, *rest = r.node.input
    others = [_moved(r, x) if x and every else x for x in rest]
    found, *places = r.node.output
    _again(r, _moved(r, first), *others, outputs=[f"{found}//moved", *places])
    _moved(r, f"{found}//moved", out=found)


def _half(r: Rewriter, x: str) -> str:
    """Shifted right by one: what the sign was is a bit like others."""
    shifted = r.op("BitShift", x, _number(r, 1), direction="RIGHT")
    return r.op("Where", _is_large(r, x), _moved(r, shifted), shifted)


def _is_large(r: Rewriter, x: str) -> str:
    return r.op("Less", x, _number(r, 0))


def _shifted(r: Rewriter) -> None:
    x, by = r.node.input
    (out,) = r.node.output
    if r.attribute("direction", b"") == b"LEFT":
        r.nodes.append(r.node)
        return
    less = r.op("Sub", by, _number(r, 1))
    moved = r.op("BitShift", _half(r, x), less, direction="RIGHT")
    r.op("Where", r.op("Equal", by, _number(r, 0)), x, moved, out=out)


def _quotient(r: Rewriter, x: str, y: str) -> str:
    """Of half of x, doubled, and one more where the rest says so; a large divisor fits once."""
    near = r.op("Mul", r.op("Div", _half(r, x), y), _number(r, 2))
    rest = r.op("Sub", x, r.op("Mul", near, y))
    more = r.op("Not", r.op("Less", _moved(r, rest), _moved(r, y)))
    small = r.op("Add", near, r.op("Cast", more, to=_SIGNED))
    once = r.op("Not", r.op("Less", _moved(r, x), _moved(r, y)))
    found = r.op("Where", _is_large(r, y), r.op("Cast", once, to=_SIGNED), small)
    return r.op("Where", r.op("Equal", y, _number(r, 0)), _number(r, 0), found)


def _divided(r: Rewriter) -> None:
    r.op("Identity", _quotient(r, *r.node.input), out=r.node.output[0])


def _rest(r: Rewriter) -> None:
    x, y = r.node.input
    whole = r.op("Mul", _quotient(r, x, y), y)
    found = r.op("Sub", x, whole)
    none = r.op("Equal", y, _number(r, 0))
    r.op("Where", none, _number(r, 0), found, out=r.node.output[0])


def _cast(r: Rewriter) -> None:
    x, out, to = r.node.input[0], r.node.output[0], r.attribute("to", _OWN)
    if to in _FLOATS:
        _as_float(r, x, out, to)
    elif r.dtype(x) in _FLOATS:
        _of_float(r, x, out)
    else:
        r.op("Cast", x, to=_SIGNED if to == _OWN else to, out=out)


def _as_float(r: Rewriter, x: str, out: str, to: int) -> None:
    """A large number from its half, whose last bit tells whether anything was cut off."""
    half = _half(r, x)
    cut = r.op("Sub", x, r.op("Mul", half, _number(r, 2)))
    even = r.op("Sub", _number(r, 1), r.op("Mod", half, _number(r, 2)))
    marked = r.op("Add", half, r.op("Mul", cut, even))
    kind = helper.tensor_dtype_to_np_dtype(to)
    large = r.op("Mul", r.op("Cast", marked, to=to), r.weight(2, kind))
    r.op("Where", _is_large(r, x), large, r.op("Cast", x, to=to), out=out)


def _of_float(r: Rewriter, x: str, out: str) -> None:
    half = r.weight(_HALF_RANGE, helper.tensor_dtype_to_np_dtype(r.dtype(x)))
    large = _moved(r, r.op("Cast", r.op("Sub", x, half), to=_SIGNED))
    is_small = r.op("Less", x, half)
    r.op("Where", is_small, r.op("Cast", x, to=_SIGNED), large, out=out)


_SPELLED: dict[str, Callable[[Rewriter], None]] = {
    "ArgMax": _compared,
    "ArgMin": _compared,
    "BitShift": _shifted,
    "Cast": _cast,
    "Clip": _chosen,
    "Div": _divided,
    "Greater": _compared,
    "GreaterOrEqual": _compared,
    "Less": _compared,
    "LessOrEqual": _compared,
    "Max": _chosen,
    "Min": _chosen,
    "Mod": _rest,
    "ReduceMax": _chosen,
    "ReduceMin": _chosen,
    "TopK": _chosen,
}
