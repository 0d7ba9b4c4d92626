"""Models whose sums of bytes native ONNX Runtime computes exactly, for results to be compared with.

On x64 without VNNI it adds pairs of products of unsigned and signed bytes in 16 bits, which
saturate; its web build and GPUs do not. A result was off by 0.4 of the largest value.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx import GraphProto, NodeProto, TensorProto, helper

from nnjit_studio.compiler.onnx_file.native import native_session

_WEIGHTS: dict[str, tuple[tuple[int, int], ...]] = {
    "MatMulInteger": ((1, 3),),
    "ConvInteger": ((1, 3),),
    "QLinearMatMul": ((3, 5),),
    "QLinearConv": ((3, 5),),
    "QGemm": ((3, 5),),
    "DynamicQuantizeMatMul": ((1, 3),),
    "MatMulIntegerToFloat": ((1, 5),),
    "DynamicQuantizeLSTM": ((1, 9), (2, 11)),
    "QAttention": ((1, 7),),
}
"""By operator, the inputs that hold weights, each with that of their zero point."""
_SIDE: dict[str, tuple[int, int]] = {
    "MatMulInteger": (0, 2),
    "ConvInteger": (0, 2),
    "QLinearMatMul": (0, 2),
    "QLinearConv": (0, 2),
    "QGemm": (0, 2),
    "MatMulIntegerToFloat": (0, 4),
    "QAttention": (0, 6),
}
"""The other factor and its zero point; what is not here rounds floats to unsigned bytes itself."""


_EXTERNAL = "session.model_external_initializers_file_folder_path"
"""Where a model from memory has its external data."""
_PASSES = {"session.x64quantprecision": "1"}
"""Where ONNX Runtime's passes make products of bytes, they make them so too."""


def exact_session(path: Path, changed: onnx.ModelProto | None = None, **options: Any) -> Any:
    """A session of native ONNX Runtime whose sums of bytes no processor saturates.

    Parameters
    ----------
    path
        The model, whose external data lie beside it.
    changed
        What runs in its place: the model without its external data, or with all.
    options
        As of :func:`nnjit_studio.compiler.onnx_file.native.native_session`.
    """
    model = onnx.load(str(path), load_external_data=False) if changed is None else changed
    exact = with_exact_sums(model)
    if changed is None and exact is model:
        return native_session(path, entries=_PASSES, **options)
    entries = {**_PASSES, _EXTERNAL: str(path.parent.resolve())}
    return native_session(exact.SerializeToString(), entries=entries, **options)


def with_exact_sums(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with unsigned weights where signed ones meet unsigned bytes.

    Weights and zero points move by 128, which no result shows. ONNX Runtime has a pass that does
    the same (``session.x64quantprecision``), for constant weights that one node reads.
    """
    if not any(node.op_type in _WEIGHTS for node in model.graph.node):
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    types = dict(_types(graph))
    nodes = [made for node in graph.node for made in _exact(node, types)]
    del graph.node[:]
    graph.node.extend(nodes)
    return changed


def _types(graph: GraphProto) -> Iterator[tuple[str, int]]:
    """Element types of tensors, where the file says them."""
    yield from ((t.name, t.data_type) for t in graph.initializer)
    for value in (*graph.input, *graph.value_info, *graph.output):
        yield value.name, value.type.tensor_type.elem_type
    for node in graph.node:
        if node.op_type == "DynamicQuantizeLinear":
            yield from ((name, TensorProto.UINT8) for i, name in enumerate(node.output) if i != 1)
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            yield node.output[0], node.attribute[0].t.data_type


def _exact(node: NodeProto, types: dict[str, int]) -> Iterator[NodeProto]:
    """The node itself, after those that make its weights unsigned."""

    def type_of(places: tuple[int, int]) -> int:
        found = (types.get(node.input[i], 0) for i in places if i < len(node.input))
        return next((t for t in found if t), 0)

    side = _SIDE.get(node.op_type)
    if side is None or type_of(side) == TensorProto.UINT8:
        for number, places in enumerate(_WEIGHTS.get(node.op_type, ())):
            if type_of(places) == TensorProto.INT8:
                yield from _unsigned(node, places, f"{node.output[0]}/exact{number}")
    yield node


def _unsigned(node: NodeProto, places: tuple[int, int], name: str) -> Iterator[NodeProto]:
    """Nodes that add 128 to weights and zero point; the node reads what they give."""
    yield _constant(f"{name}/128", TensorProto.INT32, 128)
    node.input.extend([""] * (max(places) + 1 - len(node.input)))
    for place in places:
        if not node.input[place]:
            yield _constant(f"{name}/{place}", TensorProto.UINT8, 128)
        else:
            wide, moved = f"{name}/{place}/wide", f"{name}/{place}/moved"
            yield helper.make_node("Cast", [node.input[place]], [wide], to=TensorProto.INT32)
            yield helper.make_node("Add", [wide, f"{name}/128"], [moved])
            yield helper.make_node("Cast", [moved], [f"{name}/{place}"], to=TensorProto.UINT8)
        node.input[place] = f"{name}/{place}"


def _constant(name: str, dtype: int, value: int) -> NodeProto:
    tensor = helper.make_tensor(name, dtype, (), [value])
    return helper.make_node("Constant", [], [name], value=tensor)
