"""ONNX operators that the importer lacks, written as operators that it has.

Each rule replaces one node by a few; the new nodes keep the outputs' names.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nnjit_studio.compiler.importer.onnx import (
    attention,
    packed_weights,
    places,
    quantised,
)
from nnjit_studio.compiler.importer.onnx.bytes import integer_conv
from nnjit_studio.compiler.importer.onnx.computed import computed_weights
from nnjit_studio.compiler.importer.onnx.contrib import LAST_AXES_SWAPPED
from nnjit_studio.compiler.importer.onnx.forms import (
    arithmetic,
    moved,
    pooled,
    refused,
    wide_quantised,
    windows,
)
from nnjit_studio.compiler.importer.onnx.forms.resize import resize, upsample
from nnjit_studio.compiler.importer.onnx.forms.statistics import (
    batch_normalization,
    dropout,
    layer_normalization,
)
from nnjit_studio.compiler.importer.onnx.fourier import dft, stft
from nnjit_studio.compiler.importer.onnx.recurrent import recurrent
from nnjit_studio.compiler.importer.onnx.rewriter import INTEGERS, Rewriter, Types, read_counts
from nnjit_studio.compiler.importer.onnx.rotary import microsoft_rotary, onnx_rotary
from nnjit_studio.compiler.importer.onnx.stand_ins import with_stand_ins
from nnjit_studio.compiler.importer.onnx.transposed_conv import conv_transpose
from nnjit_studio.compiler.onnx_file.arrays import array_of
from nnjit_studio.compiler.onnx_file.check import opset_of

_SMALL_ELEMENTS = 1024
"""Elements up to which a weight may be a shape or an axis, whose values shape inference needs."""


def decompose(
    model: onnx.ModelProto, loops_from: int = 1, open_sizes: bool = False
) -> onnx.ModelProto:
    """The model itself, with every node that has a rule replaced.

    A recurrent layer of ``loops_from`` steps or more is a loop and not kernels for each step. With
    ``open_sizes`` nothing that is written hangs on the sizes of this import.

    Raises
    ------
    UnsupportedOpError
        When a node of such an operator uses a form that no rule covers.
    """
    if not any(rule_of(n) for n in model.graph.node):
        return model
    types = types_of(model)
    constants = {t.name: array_of(t) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    constants |= computed_weights(model, constants)
    types |= {
        name: (helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in constants.items()
    }
    opset = opset_of(model)
    rewriter = Rewriter(opset, types, constants, loops_from=loops_from, open_sizes=open_sizes)
    rewriter.dequantised = {
        node.output[0]: node
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and not wide_quantised.is_wide(rewriter, node)
    }
    rewriter.read = read = read_counts(model.graph)
    between = {n.input[0] for out, n in rewriter.dequantised.items() if read[out] == 1}
    rewriter.pairs = frozenset(
        node.output[0]
        for node in model.graph.node
        if node.op_type == "QuantizeLinear" and read[node.output[0]] == 1
    ).intersection(between)
    rewriter.softmaxes = {
        node.output[0]: rewriter.dequantised[node.input[0]]
        for node in model.graph.node
        if node.op_type == "Softmax"
        and node.input[0] in rewriter.dequantised
        and read[node.output[0]] == 1
    }
    for node in model.graph.node:
        rewriter.node = node
        rule = rule_of(node)
        if rule is None or not rule(rewriter):
            rewriter.nodes.append(node)
    # In place: a copy goes through a message, and those end at 2 GB.
    del model.graph.node[:]
    model.graph.node.extend(rewriter.nodes)
    model.graph.initializer.extend(rewriter.weights)
    return model


def types_of(model: onnx.ModelProto) -> Types:
    """Dtypes and known shapes of the graph's tensors: inputs, intermediate results, outputs."""
    inferred = onnx.shape_inference.infer_shapes(_light(model), data_prop=True).graph
    types: Types = {}
    for info in (*inferred.input, *inferred.value_info, *inferred.output):
        tensor = info.type.tensor_type
        dims = [d.dim_value for d in tensor.shape.dim]
        known = tensor.HasField("shape") and all(d > 0 for d in dims)
        types[info.name] = (tensor.elem_type, tuple(dims) if known else None)
    return types


def rule_of(node: onnx.NodeProto) -> Callable[[Rewriter], bool] | None:
    """The rule that may replace a node; it gives False where the node stays as it is."""
    if node.domain == "com.microsoft":
        return MICROSOFT_RULES.get(node.op_type)
    return RULES.get(node.op_type) if node.domain in ("", "ai.onnx") else None


def _light(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its large weights as inputs: shape inference takes no more than 2 GB."""
    graph, weights = model.graph, {t.name: t for t in model.graph.initializer}
    small = [t for t in weights.values() if math.prod(t.dims) <= _SMALL_ELEMENTS]
    large = [
        helper.make_tensor_value_info(t.name, t.data_type, t.dims)
        for t in weights.values()
        if math.prod(t.dims) > _SMALL_ELEMENTS
    ]
    inputs = [i for i in graph.input if i.name not in weights]
    nodes, columns = with_stand_ins(graph.node, weights)
    light = helper.make_graph(
        nodes,
        graph.name,
        [*inputs, *large],
        graph.output,
        [*small, *columns],
        value_info=graph.value_info,
    )
    return helper.make_model(
        light,
        ir_version=model.ir_version,
        opset_imports=model.opset_import,
        functions=model.functions,
    )


def _celu(r: Rewriter) -> bool:
    x = r.node.input[0]
    kind = helper.tensor_dtype_to_np_dtype(r.dtype(x))
    one, alpha = r.weight(1, kind), r.weight(r.attribute("alpha", 1.0), kind)
    zero = r.weight(0, kind)
    grown = r.op("Sub", r.op("Exp", r.op("Div", x, alpha)), one)
    low = r.op("Min", zero, r.op("Mul", alpha, grown))
    r.op("Add", r.op("Max", zero, x), low, out=r.node.output[0])
    return True


def _lp_normalization(r: Rewriter) -> bool:
    x, axis = r.node.input[0], r.attribute("axis", -1)
    squares = r.attribute("p", 2) == 2
    size = r.op("Mul", x, x) if squares else r.op("Abs", x)
    total = r.along("ReduceSum", size, [axis], keepdims=1)
    total = r.op("Sqrt", total) if squares else total
    # Of zeros the result is zeros.
    least = r.weight(np.finfo(np.float32).tiny, np.float32)
    r.op("Div", x, r.op("Max", total, least), out=r.node.output[0])
    return True


def _mean_variance(r: Rewriter) -> bool:
    x = r.node.input[0]
    axes = r.attribute("axes", [0, 2, 3])

    def mean(value: str) -> str:
        total = r.along("ReduceSum", value, axes, keepdims=1)
        count = np.prod([r.shape(x)[a] for a in axes])
        return r.op("Div", total, r.weight(count, np.float32))

    centred = r.op("Sub", x, mean(x))
    deviation = r.op("Sqrt", mean(r.op("Mul", centred, centred)))
    floor = r.weight(1e-9, np.float32)
    r.op("Div", centred, r.op("Add", deviation, floor), out=r.node.output[0])
    return True


def _sign(r: Rewriter) -> bool:
    x = r.node.input[0]
    dtype = r.dtype(x)
    if dtype in (TensorProto.FLOAT, TensorProto.FLOAT16):
        r.op("Where", r.op("IsNaN", x), x, r.op("Sign", x), out=r.node.output[0])
        return True
    if dtype != TensorProto.UINT8:
        return False
    positive = r.op("Greater", x, r.weight(0, np.uint8))
    r.op("Cast", positive, to=dtype, out=r.node.output[0])
    return True


def _one_hot(r: Rewriter) -> bool:
    indices = r.node.input[0]
    depth = int(r.constant(1, "depth").reshape(-1)[0])
    rank = len(r.shape(indices))
    axis = r.attribute("axis", -1)
    axis = axis + rank + 1 if axis < 0 else axis
    whole = r.op("Cast", indices, to=TensorProto.INT64)
    limit = r.weight(depth, np.int64)
    below = r.op("Less", whole, r.weight(0, np.int64))
    whole = r.op("Where", below, r.op("Add", whole, limit), whole)
    whole = r.along("Unsqueeze", whole, [axis])
    row = np.arange(depth).reshape([-1 if d == axis else 1 for d in range(rank + 1)])
    hit = r.op("Equal", whole, r.weight(row, np.int64))
    pair = r.constant(2, "pair of values")
    on, off = r.weight(pair[1:]), r.weight(pair[:1])
    r.op("Where", hit, on, off, out=r.node.output[0])
    return True


def _compress(r: Rewriter) -> bool:
    chosen = np.flatnonzero(r.constant(1, "condition"))
    x, axis = r.node.input[0], r.attribute("axis", None)
    if axis is None:
        x, axis = r.op("Reshape", x, r.weight([-1], np.int64)), 0
    r.op("Gather", x, r.weight(chosen, np.int64), axis=axis, out=r.node.output[0])
    return True


def _thresholded_relu(r: Rewriter) -> bool:
    x = r.node.input[0]
    kind = helper.tensor_dtype_to_np_dtype(r.dtype(x))
    over = r.op("Greater", x, r.weight(r.attribute("alpha", 1.0), kind))
    r.op("Where", over, x, r.weight(0, kind), out=r.node.output[0])
    return True


def _is_inf(r: Rewriter) -> bool:
    positive, negative = r.attribute("detect_positive", 1), r.attribute("detect_negative", 1)
    if positive and negative:
        return False
    x = r.node.input[0]
    kind = helper.tensor_dtype_to_np_dtype(r.dtype(x))
    # Neither: nothing equals NaN.
    value = np.inf if positive else -np.inf if negative else np.nan
    r.op("Equal", x, r.weight(value, kind), out=r.node.output[0])
    return True


def _clip(r: Rewriter) -> bool:
    # An absent bound is the dtype's largest or smallest finite number.
    x, *bounds = r.node.input
    bounds += [""] * (2 - len(bounds))
    if r.opset < 11 or all(bounds) or r.dtype(x) not in (TensorProto.FLOAT, TensorProto.FLOAT16):
        return False
    kind = helper.tensor_dtype_to_np_dtype(r.dtype(x))
    limits = np.finfo(kind)
    low = bounds[0] or r.weight(limits.min, kind)
    high = bounds[1] or r.weight(limits.max, kind)
    r.op("Clip", x, low, high, out=r.node.output[0])
    return True


def _reduce_mean(r: Rewriter) -> bool:
    x = r.node.input[0]
    dtype = r.dtype(x)
    if dtype not in INTEGERS:
        return False
    shape = r.shape(x)
    axes = r.attribute("axes", None)
    if axes is None and len(r.node.input) > 1 and r.node.input[1]:
        axes = [int(a) for a in r.constant(1, "list of axes")]
    axes = list(axes or range(len(shape)))
    keep = r.attribute("keepdims", 1)
    total = r.along("ReduceSum", x, axes, keepdims=keep)
    count = r.weight(np.prod([shape[a] for a in axes]), helper.tensor_dtype_to_np_dtype(dtype))
    r.op("Div", total, count, out=r.node.output[0])
    return True


def _einsum(r: Rewriter) -> bool:
    if r.attribute("equation", b"") != LAST_AXES_SWAPPED.encode():
        return False
    (x,) = r.node.input
    *outer, row, column = range(len(r.shape(x)))
    r.op("Transpose", x, perm=[*outer, column, row], out=r.node.output[0])
    return True


def _gemm(r: Rewriter) -> bool:
    """Of bytes; else with its weights as they are multiplied: TVM would compile a kernel for each
    that is turned."""
    if quantised.gemm(r):
        return True
    weight = r.constants.get(r.node.input[1])
    if weight is None or not r.attribute("transB", 0) or weight.dtype != np.float32:
        return False
    r.node.input[1] = r.weight(np.ascontiguousarray(weight.T))
    kept = [a for a in r.node.attribute if a.name != "transB"]
    del r.node.attribute[:]
    r.node.attribute.extend(kept)
    return False


RULES: dict[str, Callable[[Rewriter], bool]] = {
    "BatchNormalization": batch_normalization,
    "BitCast": arithmetic.bit_cast,
    "Cast": quantised.cast,
    "Celu": _celu,
    "Clip": _clip,
    "Col2Im": windows.col2im,
    "Compress": _compress,
    "ConstantOfShape": refused.known_ahead(0),
    "Conv": lambda r: integer_conv.conv(r) or windows.signal_conv(r),
    "ConvInteger": quantised.conv_integer,
    "ConvTranspose": conv_transpose,
    "DFT": dft,
    "DeformConv": windows.deform_conv,
    "DequantizeLinear": wide_quantised.dequantize,
    "Det": arithmetic.determinant,
    "Dropout": dropout,
    "Einsum": _einsum,
    "Expand": refused.known_ahead(1),
    "EyeLike": moved.eye_like,
    "GRU": recurrent,
    "Gather": quantised.gather,
    "GatherND": places.gather_nd,
    "Gemm": _gemm,
    "IsInf": _is_inf,
    "LSTM": recurrent,
    "LayerNormalization": layer_normalization,
    "LpNormalization": _lp_normalization,
    "LpPool": pooled.lp_pool,
    "MatMul": quantised.matmul,
    "MaxPool": pooled.max_pool,
    "MeanVarianceNormalization": _mean_variance,
    "Mod": arithmetic.mod,
    "NonMaxSuppression": refused.sized_by_data,
    "NonZero": refused.sized_by_data,
    "OneHot": _one_hot,
    "Pow": arithmetic.power,
    "QLinearConv": quantised.qlinear_conv,
    "QLinearMatMul": quantised.qlinear_matmul,
    "QuantizeLinear": quantised.quantize,
    "RNN": recurrent,
    "Range": refused.known_ahead(0, 1, 2),
    "ReduceMax": arithmetic.of_truths,
    "ReduceMean": _reduce_mean,
    "ReduceMin": arithmetic.of_truths,
    "RoiAlign": windows.roi_align,
    "RotaryEmbedding": onnx_rotary,
    "Resize": resize,
    "ReverseSequence": moved.reverse_sequence,
    "STFT": stft,
    "Scatter": places.scatter,
    "Sign": _sign,
    "SpaceToDepth": moved.space_to_depth,
    "TensorScatter": moved.tensor_scatter,
    "ThresholdedRelu": _thresholded_relu,
    "Tile": refused.known_ahead(1),
    "Transpose": quantised.transpose,
    "Unique": refused.sized_by_data,
    "Unsqueeze": refused.known_ahead(1),
    "Upsample": upsample,
}

MICROSOFT_RULES: dict[str, Callable[[Rewriter], bool]] = {
    "Attention": attention.attention,
    "GatherBlockQuantized": packed_weights.gather_block_quantized,
    "GroupQueryAttention": attention.group_query_attention,
    "MatMulBnb4": packed_weights.matmul_bnb4,
    "MatMulNBits": packed_weights.matmul_nbits,
    "MultiHeadAttention": attention.multi_head_attention,
    "QAttention": attention.quantised_attention,
    "QGemm": quantised.qgemm,
    "QLinearAdd": quantised.qlinear_pairwise,
    "QLinearAveragePool": quantised.qlinear_pointwise,
    "QLinearConcat": quantised.qlinear_concat,
    "QLinearGlobalAveragePool": quantised.qlinear_pointwise,
    "QLinearLeakyRelu": quantised.qlinear_pointwise,
    "QLinearMul": quantised.qlinear_pairwise,
    "QLinearSigmoid": quantised.qlinear_pointwise,
    "QLinearSoftmax": quantised.qlinear_softmax,
    "RotaryEmbedding": microsoft_rotary,
}
