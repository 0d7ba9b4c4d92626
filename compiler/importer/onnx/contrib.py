"""ONNX Runtime's own operators whose results need no shapes, written with ONNX ones.

They come first, so that types and shapes are known behind them. Formulas: ONNX Runtime,
docs/ContribOperators.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from nnjit_studio.compiler.importer.onnx.fourier import tell_sides
from nnjit_studio.compiler.importer.onnx.ml import rules as ml
from nnjit_studio.compiler.importer.onnx.packed_weights import reshape_tables
from nnjit_studio.compiler.importer.onnx.quantised import scaled_product
from nnjit_studio.compiler.importer.onnx.quantised_lstm import OPERATOR, dynamic_quantize_lstm
from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter, Types, read_counts
from nnjit_studio.compiler.onnx_file.arrays import array_of
from nnjit_studio.compiler.onnx_file.check import opset_of

LAST_AXES_SWAPPED = "...ij->...ji"
"""Equation of a transposition whose rank is known later."""


def expand(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model itself, with every node that has a rule replaced.

    Raises
    ------
    UnsupportedOpError
        When a node uses a form that its rule does not cover.
    """
    reshape_tables(model)
    tell_sides(model.graph)
    if not any(rule_of(node) for node in model.graph.node):
        return model
    opset = opset_of(model)
    rewriter = Rewriter(opset, _known_types(model.graph), _weights_to_decode(model.graph))
    rewriter.read = read_counts(model.graph)
    for node in model.graph.node:
        rewriter.node = node
        if (rule := rule_of(node)) is None:
            rewriter.nodes.append(node)
        else:
            rule(rewriter)
    del model.graph.node[:]
    model.graph.node.extend(rewriter.nodes)
    model.graph.initializer.extend(rewriter.weights)
    return model


def _weights_to_decode(graph: onnx.GraphProto) -> dict[str, NDArray[Any]]:
    """Constants of the nodes whose rule decodes weights."""
    wanted = {name for n in graph.node if n.op_type == OPERATOR for name in n.input}
    return {t.name: array_of(t) for t in graph.initializer if t.name in wanted}


def _known_types(graph: onnx.GraphProto) -> Types:
    ports = (*graph.input, *graph.value_info, *graph.output)
    types: Types = {p.name: (p.type.tensor_type.elem_type, None) for p in ports}
    return types | {t.name: (t.data_type, tuple(t.dims)) for t in graph.initializer}


def rule_of(node: onnx.NodeProto) -> Callable[[Rewriter], None] | None:
    """The rule that replaces a node."""
    if node.op_type in _RULES and node.domain == "com.microsoft":
        return _RULES[node.op_type]
    if node.domain == ml.DOMAIN:
        return ml.rule_of(node.op_type)
    return _simplified if node.op_type == "SimplifiedLayerNormalization" else None


def _inputs(r: Rewriter, count: int) -> list[str]:
    return [*r.node.input, *[""] * count][:count]


def _number(r: Rewriter, value: float, *alike: str) -> str:
    """A number in the dtype of the first tensor whose dtype is known."""
    dtype = next((r.types[n][0] for n in (*alike, *r.node.input) if n in r.types), None)
    if dtype not in (TensorProto.FLOAT16, TensorProto.DOUBLE):
        dtype = TensorProto.FLOAT
    return r.weight(value, helper.tensor_dtype_to_np_dtype(dtype))


def _reduced(r: Rewriter, x: str, reduction: str = "ReduceMean") -> str:
    return r.along(reduction, x, [-1], keepdims=1)


def _mean_square(r: Rewriter, x: str, scale: str) -> str:
    """Of the last axis, in one pass over it where the scale tells its size exactly."""
    shape = r.types.get(scale, (0, None))[1]
    if not shape or float(np.float16(shape[-1])) != shape[-1]:
        return _reduced(r, r.op("Mul", x, x))
    return r.op("Div", _reduced(r, x, "ReduceSumSquare"), _number(r, shape[-1], scale))


def _over_root(r: Rewriter, x: str, mean: str, scale: str, default: float) -> str:
    epsilon = _number(r, r.attribute("epsilon", default), scale)
    return r.op("Div", x, r.op("Sqrt", r.op("Add", mean, epsilon)))


def _unused(r: Rewriter, first: int, last: int) -> None:
    if any(r.node.output[first:last]):
        raise r.refuse("to leave out its outputs for training, mean and deviation")


def _simplified(r: Rewriter) -> None:
    if r.attribute("axis", -1) != -1:
        raise r.refuse("axis -1")
    _unused(r, 1, 2)
    x, scale = r.node.input
    normal = _over_root(r, x, _mean_square(r, x, scale), scale, 1e-5)
    r.op("Mul", normal, scale, out=r.node.output[0])


def _sum_with_skip(r: Rewriter, bias: str) -> str:
    """Input and skip connection added, which is the fourth output too."""
    _unused(r, 1, 3)
    out = (*r.node.output, "", "", "")[3]
    total = r.op("Add", *r.node.input[:2], out=out if not bias else "")
    return r.op("Add", total, bias, out=out) if bias else total


def _skip_simplified(r: Rewriter) -> None:
    scale, bias = _inputs(r, 4)[2:]
    x = _sum_with_skip(r, bias)
    normal = _over_root(r, x, _mean_square(r, x, scale), scale, 1e-12)
    r.op("Mul", normal, scale, out=r.node.output[0])


def _skip_layer_norm(r: Rewriter) -> None:
    scale, beta, bias = _inputs(r, 5)[2:]
    x, out = _sum_with_skip(r, bias), r.node.output[0]
    if r.opset >= 17:
        epsilon = r.attribute("epsilon", 1e-12)
        given = (x, scale, beta) if beta else (x, scale)
        r.op("LayerNormalization", *given, out=out, axis=-1, epsilon=epsilon)
        return
    centred = r.op("Sub", x, _reduced(r, x))
    squares = _reduced(r, r.op("Mul", centred, centred))
    normal = _over_root(r, centred, squares, scale, 1e-12)
    scaled = r.op("Mul", normal, scale, out="" if beta else out)
    if beta:
        r.op("Add", scaled, beta, out=out)


def _gelu(r: Rewriter) -> None:
    x, bias = _inputs(r, 2)
    if bias:
        x = r.op("Add", x, bias)
    half, one, root = (_number(r, v, bias) for v in (0.5, 1.0, math.sqrt(2)))
    curve = r.op("Add", r.op("Erf", r.op("Div", x, root)), one)
    r.op("Mul", r.op("Mul", x, curve), half, out=r.node.output[0])


def _fast_gelu(r: Rewriter) -> None:
    x, bias = _inputs(r, 2)
    if bias:
        x = r.op("Add", x, bias)
    factor = math.sqrt(2 / math.pi)
    half, one, first, third = (_number(r, v, bias) for v in (0.5, 1.0, factor, 0.044715 * factor))
    cube = r.op("Mul", r.op("Mul", x, x), x)
    inner = r.op("Add", r.op("Mul", x, first), r.op("Mul", cube, third))
    curve = r.op("Add", r.op("Tanh", inner), one)
    r.op("Mul", r.op("Mul", x, half), curve, out=r.node.output[0])


def _quick_gelu(r: Rewriter) -> None:
    (x,) = r.node.input
    alpha = _number(r, r.attribute("alpha", 1.702))
    r.op("Mul", x, r.op("Sigmoid", r.op("Mul", x, alpha)), out=r.node.output[0])


def _fused_matmul(r: Rewriter) -> None:
    if r.attribute("transBatchA", 0) or r.attribute("transBatchB", 0):
        raise r.refuse("transBatchA 0 and transBatchB 0")
    operands = []
    for name, side in zip(r.node.input, "AB", strict=True):
        turned = r.attribute(f"trans{side}", 0)
        operands.append(_transposed(r, name) if turned else name)
    alpha, out = r.attribute("alpha", 1.0), r.node.output[0]
    product = r.op("MatMul", *operands, out=out if alpha == 1.0 else "")
    if alpha != 1.0:
        r.op("Mul", product, _number(r, alpha), out=out)


def _fused_conv(r: Rewriter) -> None:
    """A convolution, a sum with another tensor, and an activation with its parameters."""
    *held, other = _inputs(r, 4)
    own = ("activation", "activation_params")
    plain = {a.name: helper.get_attribute_value(a) for a in r.node.attribute if a.name not in own}
    kind, params = r.attribute("activation", b"").decode(), r.attribute("activation_params", [])
    if kind and kind not in _ACTIVATIONS:
        raise r.refuse(f"an activation of {', '.join(_ACTIVATIONS)}")
    named = _ACTIVATIONS.get(kind, ())
    if len(params) != len(named):
        raise r.refuse(f"{len(named)} numbers of its {kind}, which has {len(params)}")
    out = r.node.output[0]
    x = r.op("Conv", *filter(None, held), out="" if other or kind else out, **plain)
    x = r.op("Add", x, other, out="" if kind else out) if other else x
    if kind == "Clip":
        low, high = (_number(r, value) for value in params)
        r.op("Min", r.op("Max", x, low), high, out=out)
    elif kind:
        r.op(kind, x, out=out, **dict(zip(named, params, strict=True)))


def _transposed(r: Rewriter, x: str) -> str:
    """The last two axes swapped, whatever the rank."""
    if r.opset < 12:
        raise r.refuse("opset 12 or later to be transposed")
    return r.op("Einsum", x, equation=LAST_AXES_SWAPPED)


def _dynamic_quantize_matmul(r: Rewriter) -> None:
    x, weight, scale, zero, bias = _inputs(r, 5)
    a, a_scale, a_zero = _quantised(r, x)
    scaled_product(r, (a, weight, a_zero, zero), r.op("Mul", a_scale, scale), bias)


def _matmul_integer_to_float(r: Rewriter) -> None:
    a, b, a_scale, b_scale, a_zero, b_zero, bias = _inputs(r, 7)
    scaled_product(r, (a, b, a_zero, b_zero), r.op("Mul", a_scale, b_scale), bias)


def _quantised(r: Rewriter, x: str) -> tuple[str, str, str]:
    names = [f"{r.node.output[0]}//{part}" for part in ("bytes", "scale", "zero")]
    r.nodes.append(helper.make_node("DynamicQuantizeLinear", [x], names))
    return names[0], names[1], names[2]


_ACTIVATIONS = {
    "Clip": ("min", "max"), "HardSigmoid": ("alpha", "beta"), "LeakyRelu": ("alpha",), "Relu": (),
    "Sigmoid": (), "Tanh": (),
}  # fmt: skip
"""Those of FusedConv, with the attributes that their parameters are."""
_RULES: dict[str, Callable[[Rewriter], None]] = {
    "BiasGelu": _gelu,
    "DynamicQuantizeLSTM": dynamic_quantize_lstm,
    "DynamicQuantizeMatMul": _dynamic_quantize_matmul,
    "FastGelu": _fast_gelu,
    "FusedConv": _fused_conv,
    "FusedMatMul": _fused_matmul,
    "Gelu": _gelu,
    "MatMulIntegerToFloat": _matmul_integer_to_float,
    "QuickGelu": _quick_gelu,
    "SkipLayerNormalization": _skip_layer_norm,
    "SkipSimplifiedLayerNormalization": _skip_simplified,
}
