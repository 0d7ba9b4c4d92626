"""Whether what an operator reads fits its weights: kernels are made by the shape of either."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter
from nnjit_studio.errors import ModelError

_Shape = tuple[int, ...]


def check_operands(r: Rewriter) -> None:
    """Refuse a node whose input has another extent than its weights are for.

    Raises
    ------
    ModelError
    """
    node = r.node
    if node.op_type not in _FORMS:
        return
    places, wanted = _FORMS[node.op_type]
    x, w = (_shape(r, node, place) for place in places)
    if x is None or w is None:
        return
    axis, count = wanted(r, x, w)
    if x[axis] != count:
        name = node.name or node.output[0]
        raise ModelError(
            f"The operator {node.op_type} of node {name!r} reads {x[axis]} numbers along an axis "
            f"of {node.input[places[0]]!r}, whose shape is {list(x)}; its weights are for {count}.",
            "Correct the shapes that the file declares, or that --dim, --shape and --inputs give.",
        )


def _shape(r: Rewriter, node: onnx.NodeProto, place: int) -> _Shape | None:
    name = node.input[place] if place < len(node.input) else ""
    return r.types.get(name, (0, None))[1] or None


def _product(r: Rewriter, x: _Shape, w: _Shape) -> tuple[int, int]:
    return -1, w[max(len(w) - 2, 0)]


def _gemm(r: Rewriter, x: _Shape, w: _Shape) -> tuple[int, int]:
    return (0 if r.attribute("transA", 0) else 1), w[1 if r.attribute("transB", 0) else 0]


def _conv(r: Rewriter, x: _Shape, w: _Shape) -> tuple[int, int]:
    return 1, w[1] * int(r.attribute("group", 1))


def _transposed_conv(r: Rewriter, x: _Shape, w: _Shape) -> tuple[int, int]:
    return 1, w[0]


def _blocks(r: Rewriter, x: _Shape, w: _Shape) -> tuple[int, int]:
    return -1, int(r.attribute("K", 0))


def _recurrent(r: Rewriter, x: _Shape, w: _Shape) -> tuple[int, int]:
    return -1, w[-1]


_FORMS: dict[str, tuple[_Shape, Callable[[Rewriter, _Shape, _Shape], tuple[int, int]]]] = {
    "Conv": ((0, 1), _conv),
    "ConvInteger": ((0, 1), _conv),
    "ConvTranspose": ((0, 1), _transposed_conv),
    "GRU": ((0, 1), _recurrent),
    "Gemm": ((0, 1), _gemm),
    "LSTM": ((0, 1), _recurrent),
    "MatMul": ((0, 1), _product),
    "MatMulInteger": ((0, 1), _product),
    "MatMulNBits": ((0, 1), _blocks),
    "QLinearConv": ((0, 3), _conv),
    "QLinearMatMul": ((0, 3), _product),
    "RNN": ((0, 1), _recurrent),
}
"""By operator: which inputs are the numbers and the weights, and the axis of the first with the
extent that the second is for."""
CHECKED = frozenset(_FORMS)
