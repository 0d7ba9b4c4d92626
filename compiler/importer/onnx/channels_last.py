"""Tensors around convolutions of bytes, kept with their channels last.

:mod:`.bytes.integer_conv` writes a transposition before and behind each convolution. Here they move
over pointwise operators and means over images, and are left out where two meet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper

from nnjit_studio.compiler.importer.onnx.bytes.integer_conv import to_first, to_last
from nnjit_studio.compiler.importer.onnx.decompose import types_of
from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter
from nnjit_studio.compiler.onnx_file.arrays import array_of
from nnjit_studio.compiler.onnx_file.check import opset_of
from nnjit_studio.compiler.tvm_adapter.bits.byte_function import BYTE_FUNCTION
from nnjit_studio.compiler.tvm_adapter.quantised_conv import INTEGER_CONV

_POINTWISE = frozenset((
    BYTE_FUNCTION,
    "Abs", "Add", "Cast", "Clip", "Div", "DequantizeLinear", "DynamicQuantizeLinear", "Elu", "Erf",
    "Exp", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Max", "Min", "Mul", "Neg", "PRelu",
    "QuantizeLinear", "Relu", "Sigmoid", "Softplus", "Sqrt", "Sub", "Tanh", "Where",
))  # fmt: skip
_FIRST_ALONE = frozenset(
    (BYTE_FUNCTION, "Clip", "DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear")
)
"""The other inputs are numbers, or vectors along an axis that is named."""
_POOL = "GlobalAveragePool"
_MOST_ELEMENTS = 1 << 20
"""Larger constants are not copied to be transposed."""


@dataclass
class _Walk:
    """The nodes so far; ``last`` has what is kept channels last, as (name, rank), by the name that
    it had."""

    r: Rewriter
    last: dict[str, tuple[str, int]] = field(default_factory=dict)
    turned: set[str] = field(default_factory=set)

    def first(self, name: str) -> None:
        """The tensor as it was, for an operator that needs it so."""
        if name in self.last and name not in self.turned:
            held, rank = self.last[name]
            self.r.op("Transpose", held, out=name, perm=to_first(rank))
            self.turned.add(name)

    def keep(self, name: str, rank: int) -> str:
        """A new name for a result that is kept channels last."""
        self.last[name] = f"{name}//last", rank
        return f"{name}//last"

    def operand(self, name: str, rank: int) -> str | None:
        """What an operator on images that are channels last reads for an operand."""
        if name in self.last:
            held, own = self.last[name]
            return held if own == rank else None
        constant, kind = self.r.constants.get(name), self.r.types.get(name)
        if constant is not None:
            if constant.size == 1:
                return name
            if constant.size > _MOST_ELEMENTS or constant.ndim > rank:
                return None
            whole = constant.reshape([1] * (rank - constant.ndim) + [*constant.shape])
            return self.r.weight(np.ascontiguousarray(whole.transpose(to_last(rank))))
        if kind is None or kind[1] is None:
            return None
        if len(kind[1]) == 0 or kind[1] == (1,):
            return name
        return self.r.op("Transpose", name, perm=to_last(rank)) if len(kind[1]) == rank else None


def channels_last(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model itself, with fewer transpositions around its convolutions of bytes."""
    if not any(n.op_type == INTEGER_CONV for n in model.graph.node):
        return model
    opset = opset_of(model)
    constants = {t.name: array_of(t) for t in model.graph.initializer}
    walk = _Walk(Rewriter(opset, types_of(model), constants, mark="//turned "))
    for node in model.graph.node:
        walk.r.node = node
        rule = _RULES.get(node.op_type, _pointwise if node.op_type in _POINTWISE else None)
        if rule is None or not rule(walk):
            for name in node.input:
                walk.first(name)
            walk.r.nodes.append(node)
    for output in model.graph.output:
        walk.first(output.name)
    del model.graph.node[:]
    model.graph.node.extend(walk.r.nodes)
    model.graph.initializer.extend(walk.r.weights)
    return model


def _transpose(walk: _Walk) -> bool:
    (x,), (out,) = walk.r.node.input, walk.r.node.output
    perm = walk.r.attribute("perm", [])
    if x in walk.last and perm == to_last(walk.last[x][1]):
        walk.r.op("Identity", walk.last[x][0], out=out)
        return True
    producer = walk.r.nodes[-1] if walk.r.nodes else None
    own = producer is not None and producer.op_type == INTEGER_CONV and producer.output[0] == x
    if own and perm == to_first(len(perm)):
        walk.last[out] = x, len(perm)
        return True
    return False


def _reshape(walk: _Walk) -> bool:
    """Of a constant, which becomes another one."""
    r = walk.r
    (x, shape), (out,) = r.node.input, r.node.output
    data, sizes = r.constants.get(x), r.constants.get(shape)
    if data is None or sizes is None or data.size > _MOST_ELEMENTS:
        return False
    held = data.reshape([data.shape[i] if s == 0 else int(s) for i, s in enumerate(sizes)])
    r.constants = {**r.constants, out: held}
    r.weights.append(numpy_helper.from_array(held, out))
    return True


def _pointwise(walk: _Walk) -> bool:
    r, node = walk.r, walk.r.node
    main = 1 if node.op_type in _FIRST_ALONE else len(node.input)
    ranks = {walk.last[name][1] for name in node.input[:main] if name in walk.last}
    if len(ranks) != 1:
        return False
    rank = ranks.pop()
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if attributes.get("block_size") or (node.op_type == "Clip" and "min" in attributes):
        return False
    operands = [walk.operand(name, rank) for name in node.input[:main]]
    found = [name for name in operands if name is not None]
    if len(found) < main:
        return False
    if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        axis = attributes.get("axis", 1) % rank
        attributes["axis"] = to_last(rank).index(axis)
    outputs = [walk.keep(node.output[0], rank), *node.output[1:]]
    given = [*found, *node.input[main:]]
    r.nodes.append(helper.make_node(node.op_type, given, outputs, node.name, **attributes))
    return True


def _concat(walk: _Walk) -> bool:
    r, node = walk.r, walk.r.node
    held = [walk.last[name] for name in node.input if name in walk.last]
    if len(held) < len(node.input) or len({rank for _, rank in held}) != 1:
        return False
    rank = held[0][1]
    axis = to_last(rank).index(r.attribute("axis", 0) % rank)
    out = walk.keep(node.output[0], rank)
    r.nodes.append(
        helper.make_node("Concat", [name for name, _ in held], [out], node.name, axis=axis)
    )
    return True


def _mean(walk: _Walk) -> bool:
    """Over all of the image; axes count from the end too."""
    r = walk.r
    (out,) = r.node.output
    x = r.node.input[0]
    if x not in walk.last:
        return False
    held, rank = walk.last[x]
    axes = r.attribute("axes", list(range(2, rank)) if r.node.op_type == _POOL else None)
    if len(r.node.input) > 1:
        given = r.constants.get(r.node.input[1])
        axes = None if given is None else given.tolist()
    if axes is None or sorted(a % rank for a in axes) != list(range(2, rank)):
        return False
    keep = r.attribute("keepdims", 1)
    result = walk.keep(out, rank) if keep else out
    axes_last = list(range(1, rank - 1))
    r.along("ReduceMean", held, axes_last, out=result, keepdims=keep)
    return True


_RULES: dict[str, Callable[[_Walk], bool]] = {
    "Concat": _concat,
    _POOL: _mean,
    "ReduceMean": _mean,
    "Reshape": _reshape,
    "Transpose": _transpose,
}
