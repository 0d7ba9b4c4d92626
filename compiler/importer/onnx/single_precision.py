"""Models in half, double or brain precision, computed in single precision.

Wasm has no arithmetic of halves, so a kernel would widen and round every element that it touches.
Widened here, such a model uses the kernels of its float32 form; :mod:`.half_weights` later decides
which weights those read as halves. Doubles, of which exporters leave a few in what is computed
behind a network, would need kernels of their own on two lanes. bfloat16 has 8 bits: what
operators give in it is rounded to them, as the file says.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from nnjit_studio.compiler.importer.onnx.decompose import types_of
from nnjit_studio.compiler.importer.onnx.rewriter import Types
from nnjit_studio.compiler.importer.onnx.walk import refuse
from nnjit_studio.compiler.onnx_file.arrays import array_of
from nnjit_studio.compiler.tvm_adapter.bits.casts import BFLOAT16_OP

_HALF, _FLOAT, _BRAIN = TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.BFLOAT16
_OTHERS = (_HALF, TensorProto.DOUBLE, _BRAIN)
_KINDS = ("to", "dtype", "output_dtype", "output_datatype", "stash_type", "softmax_precision")
"""Attributes that name a dtype."""
_MOVES = (
    "Concat", "Constant", "ConstantOfShape", "Expand", "Flatten", "Gather", "Identity", "MaxPool",
    "Neg", "Pad", "Relu", "Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
    "Where",
)  # fmt: skip
"""Operators whose results need no rounding where what they read is rounded."""
_SUMS = (
    "AveragePool", "CumSum", "GlobalAveragePool", "LogSoftmax", "Mean", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceMean", "ReduceProd", "ReduceSum", "ReduceSumSquare",
    "Softmax", "Sum",
)  # fmt: skip


def single_precision(model: onnx.ModelProto, keep_ports: bool = True) -> onnx.ModelProto:
    """The model itself, every float of its graph f32; control flow must be flat.

    Halves keep their values. Results are closer to those of the float32 model than halves
    are, which round after every node. Inputs and outputs in f64 and bfloat16 are f32.

    Parameters
    ----------
    keep_ports
        Whether inputs and outputs in f16 stay so, with a Cast behind or in front of each.

    Raises
    ------
    UnsupportedOpError
        For a sum in bfloat16.
    """
    graph = model.graph
    if not _has_others(graph):
        return model
    others = [t for t in graph.initializer if t.data_type in _OTHERS]
    types = types_of(model)
    weights = {t.name for t in graph.initializer}
    given = [p for p in graph.input if p.name not in weights]
    ports = (*given, *graph.output)
    kept = [p.name for p in ports if keep_ports and p.type.tensor_type.elem_type == _HALF]
    names = {name: f"{name}//f32" for name in kept}
    for port in (*graph.input, *graph.output):
        if port.name not in names and port.type.tensor_type.elem_type in _OTHERS:
            port.type.tensor_type.elem_type = _FLOAT
    for tensor in others:
        _make_single(tensor)
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    inputs = [p.name for p in graph.input if p.name in names]
    outputs = {p.name for p in graph.output}
    nodes = [_cast(name, names[name], _FLOAT) for name in inputs]
    for node in graph.node:
        _check_sum(node, types)
        same = _keeps_f32(node, types)
        rounded = _rounded(node, types)
        node.input[:] = [names.get(n, n) for n in node.input]
        if same:
            if node.output[0] not in outputs:
                names[node.output[0]] = node.input[0]
                continue
            node.op_type = "Identity"
            del node.attribute[:]
        node.output[:] = [names.get(n, n) for n in node.output]
        for attribute in node.attribute:
            _change_attribute(attribute)
        nodes += _with_rounding(node, rounded)
    nodes += [_cast(names[n], n, _HALF) for n in kept if n in outputs and n not in inputs]
    del graph.value_info[:]
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def has_halves(model: onnx.ModelProto) -> bool:
    """Whether weights of the model are stored in f16."""
    return any(
        t.data_type == _HALF
        for t in (
            *model.graph.initializer,
            *(a.t for n in model.graph.node for a in n.attribute if a.HasField("t")),
        )
    )


def _has_others(graph: onnx.GraphProto) -> bool:
    return (
        any(t.data_type in _OTHERS for t in graph.initializer)
        or any(p.type.tensor_type.elem_type in _OTHERS for p in graph.input)
        or any(_names_other(a) for node in graph.node for a in node.attribute)
    )


def _names_other(attribute: AttributeProto) -> bool:
    if attribute.type == AttributeProto.TENSOR:
        return bool(attribute.t.data_type in _OTHERS)
    return attribute.name in _KINDS and bool(attribute.i in _OTHERS)


def _change_attribute(attribute: AttributeProto) -> None:
    if not _names_other(attribute):
        return
    if attribute.type == AttributeProto.TENSOR:
        _make_single(attribute.t)
    else:
        attribute.i = _FLOAT


def _make_single(tensor: TensorProto) -> None:
    tensor.CopyFrom(numpy_helper.from_array(array_of(tensor).astype(np.float32), tensor.name))


def _keeps_f32(node: onnx.NodeProto, types: Types) -> bool:
    """Whether the node casts between dtypes that are both f32 from now on."""
    if node.op_type != "Cast":
        return False
    source = types.get(node.input[0], (TensorProto.UNDEFINED, None))[0]
    if _to(node) == _BRAIN:
        return bool(source == _BRAIN)
    return _to(node) in (_FLOAT, *_OTHERS) and source in (_FLOAT, *_OTHERS)


def _to(node: onnx.NodeProto) -> int:
    return next(int(a.i) for a in node.attribute if a.name == "to")


def _check_sum(node: onnx.NodeProto, types: Types) -> None:
    if node.op_type in _SUMS and types.get(node.input[0], (0, None))[0] == _BRAIN:
        raise refuse(
            node,
            "float32 or float16: of bfloat16 programs round each sum, or the last one alone",
            "Put a Cast to float32 in front of it, and one to bfloat16 behind.",
        )


def _rounded(node: onnx.NodeProto, types: Types) -> list[int]:
    """The outputs that have to be rounded to bfloat16, in which the node gives them."""
    if node.op_type in _MOVES:
        return []
    kinds = [types.get(n, (TensorProto.UNDEFINED, None))[0] for n in node.output]
    return [i for i, kind in enumerate(kinds) if kind == _BRAIN]


def _with_rounding(node: onnx.NodeProto, rounded: list[int]) -> list[onnx.NodeProto]:
    """A node, in f32 by now, and what rounds these of its outputs."""
    made = [node]
    for i in rounded:
        out = node.output[i]
        node.output[i] = f"{out}//whole"
        made.append(helper.make_node(BFLOAT16_OP, [node.output[i]], [out], out))
    return made


def _cast(source: str, target: str, dtype: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [target], f"{source} as {target}", to=dtype)
