"""Whether what a node reads fits its weights: kernels are made by the shape of either."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nnjit_studio.compiler.tvm_adapter.quantised import TABLE_PRODUCT
from nnjit_studio.compiler.tvm_adapter.quantised_conv import INTEGER_CONV
from nnjit_studio.errors import ModelError

_Shape = tuple[int, ...]
_Attributes = Mapping[str, Any]


def check_operands(op_type: str, name: str, inputs: Any, attributes: _Attributes) -> None:
    """Refuse a node whose first input has another extent than its weights are for.

    Raises
    ------
    ModelError
    """
    if op_type not in _WANTED or len(inputs) < 2:
        return
    x, w = map(_shape, inputs[:2])
    if not x or not w:
        return
    axis, count = _WANTED[op_type](x, w, attributes)
    if x[axis] != count:
        raise ModelError(
            f"Node {name!r} reads an input of the shape {list(x)}, with {x[axis]} numbers where "
            f"its weights are for {count}.",
            "Correct the shapes that the file declares, or that --dim, --shape and --inputs give.",
        )


def _shape(value: Any) -> _Shape:
    """Empty where it is not known, or a single number's."""
    try:
        return tuple(int(d) for d in value.ty.shape)
    except (AttributeError, TypeError):
        return ()


def _product(x: _Shape, w: _Shape, attributes: _Attributes) -> tuple[int, int]:
    return -1, w[max(len(w) - 2, 0)]


def _table(x: _Shape, w: _Shape, attributes: _Attributes) -> tuple[int, int]:
    return -1, w[-1]


def _gemm(x: _Shape, w: _Shape, attributes: _Attributes) -> tuple[int, int]:
    columns, turned = (bool(attributes.get(side, 0)) for side in ("transA", "transB"))
    return -2 if columns else -1, w[-1 if turned else -2]


def _conv(x: _Shape, w: _Shape, attributes: _Attributes) -> tuple[int, int]:
    return 1, w[1] * int(attributes.get("group", 1))


def _conv_of_bytes(x: _Shape, w: _Shape, attributes: _Attributes) -> tuple[int, int]:
    return -1, w[1] * int(attributes.get("group", 1))


def _transposed_conv(x: _Shape, w: _Shape, attributes: _Attributes) -> tuple[int, int]:
    return 1, w[0]


def _blocks(x: _Shape, w: _Shape, attributes: _Attributes) -> tuple[int, int]:
    return -1, int(attributes["K"])


_WANTED: dict[str, Callable[[_Shape, _Shape, _Attributes], tuple[int, int]]] = {
    "Conv": _conv,
    "ConvInteger": _conv,
    "ConvTranspose": _transposed_conv,
    "Gemm": _gemm,
    "MatMul": _product,
    "MatMulInteger": _product,
    "MatMulNBits": _blocks,
    INTEGER_CONV: _conv_of_bytes,
    TABLE_PRODUCT: _table,
}
"""By operator: the axis of the input, and the extent that the weights are for."""
