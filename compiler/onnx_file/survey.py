"""A look at a file before its import: its inputs, and its graph as it is.

A user waits for it, so it does without TVM, which takes longer to load than a file to read.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from nnjit_studio.compiler.onnx_file import check
from nnjit_studio.compiler.onnx_file.ports import dims_of
from nnjit_studio.model import DTYPE_BYTES, NUMPY_DTYPES, Graph, Node, TensorSpec
from nnjit_studio.model.survey import InputPort, Survey

PASSED_BY = frozenset({
    "Add", "Cast", "Clip", "Concat", "Div", "DynamicQuantizeLinear", "Expand", "Identity", "If",
    "Mul", "Pad", "QuantizeLinear", "DequantizeLinear", "Reshape", "Slice", "Squeeze", "Sub",
    "Transpose", "Unsqueeze",
})  # fmt: skip
"""Operators that move or scale a tensor and do not tell what it is."""
_REACH = 12
"""Operators from an input to the one that tells."""
_NOTES = 20
_NOTE_CHARACTERS = 200


def survey(path: Path) -> Survey:
    """Read a model's file; neither shapes nor operators have to be ones that can be imported.

    Raises
    ------
    ModelError
        When it is no valid model.
    """
    model = check.load_model(path)
    held = {t.name for t in model.graph.initializer}
    ports = [p for p in model.graph.input if p.name not in held]
    nodes = list(flat(model.graph))
    weights = {t.name: t for t in model.graph.initializer} | _constants(nodes)
    readers = _readers(nodes)
    notes = list(model.metadata_props)[:_NOTES]
    return Survey(
        path,
        hashlib.sha256(path.read_bytes()).hexdigest(),
        sum(map(_nbytes, weights.values())),
        check.opset_of(model),
        tuple(_port(p, readers, weights) for p in ports),
        _graph(model, path.stem, ports, nodes),
        {p.key: p.value[:_NOTE_CHARACTERS] for p in notes},
    )


def flat(graph: onnx.GraphProto, scope: str = "") -> Iterator[tuple[str, onnx.NodeProto]]:
    """Every node with its path; those of branches and loop bodies follow the node they are in."""
    for position, node in enumerate(graph.node):
        name = f"{scope}{check.node_name(node) or f'{node.op_type}_{position}'}"
        yield name, node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from flat(attribute.g, f"{name}/{attribute.name}/")


def _constants(nodes: Collection[tuple[str, onnx.NodeProto]]) -> dict[str, onnx.TensorProto]:
    """Weights that stand in nodes, by the tensors' names."""
    return {
        node.output[0]: attribute.t
        for _, node in nodes
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.type == onnx.AttributeProto.TENSOR
    }


def _readers(nodes: Collection[tuple[str, onnx.NodeProto]]) -> Mapping[str, list[onnx.NodeProto]]:
    found: dict[str, list[onnx.NodeProto]] = {}
    for _, node in nodes:
        for name in node.input:
            found.setdefault(name, []).append(node)
    return found


def _port(
    port: onnx.ValueInfoProto,
    readers: Mapping[str, list[onnx.NodeProto]],
    weights: Mapping[str, onnx.TensorProto],
) -> InputPort:
    known = port.type.tensor_type.HasField("shape")
    told = _first_readers(port.name, readers)
    convolution = next(
        (n for n in told if n.op_type in ("Conv", "ConvInteger", "QLinearConv")), None
    )
    kernel: tuple[int, ...] = ()
    if convolution is not None:
        place = 3 if convolution.op_type == "QLinearConv" else 1
        weight = weights.get(convolution.input[place])
        kernel = () if weight is None else tuple(weight.dims)
        groups = next((a.i for a in convolution.attribute if a.name == "group"), 1)
    return InputPort(
        port.name,
        _dtype(port.type.tensor_type.elem_type),
        tuple(dims_of(port)) if known else None,
        tuple(dict.fromkeys(n.op_type for n in told)),
        kernel[1] * groups if len(kernel) > 2 else 0,
        max(len(kernel) - 2, 0),
    )


def _first_readers(name: str, readers: Mapping[str, list[onnx.NodeProto]]) -> list[onnx.NodeProto]:
    told: list[onnx.NodeProto] = []
    reached, names = {name}, [name]
    for _ in range(_REACH):
        nodes = [n for each in names for n in readers.get(each, ())]
        told += [n for n in nodes if n.op_type not in PASSED_BY]
        outputs = (o for n in nodes if n.op_type in PASSED_BY for o in n.output)
        names = [o for o in dict.fromkeys(outputs) if o not in reached]
        reached.update(names)
    return told


def _dtype(number: int) -> str:
    try:
        return str(np.dtype(helper.tensor_dtype_to_np_dtype(number)).name)
    except (KeyError, TypeError):
        return "object"


def _nbytes(tensor: onnx.TensorProto) -> int:
    dtype = _dtype(tensor.data_type)
    size = 1 if dtype == "object" else np.dtype(dtype).itemsize
    return size * math.prod(int(d) for d in tensor.dims)


def _graph(
    model: onnx.ModelProto,
    name: str,
    ports: list[onnx.ValueInfoProto],
    nodes: list[tuple[str, onnx.NodeProto]],
) -> Graph:
    graph = model.graph
    infos = (*graph.value_info, *graph.output, *ports)
    specs = (_spec(i.name, i.type.tensor_type.elem_type, dims_of(i)) for i in infos)
    weights = (_spec(t.name, t.data_type, list(t.dims)) for t in graph.initializer)
    taken: dict[str, int] = {}
    return Graph(
        name,
        tuple(p.name for p in ports),
        tuple(o.name for o in graph.output),
        tuple(_node(path, node, taken) for path, node in nodes if node.op_type != "Constant"),
        {s.name: s for s in (*specs, *weights) if s is not None},
    )


def _node(path: str, node: onnx.NodeProto, taken: dict[str, int]) -> Node:
    taken[path] = taken.get(path, 0) + 1
    name = path if taken[path] == 1 else f"{path} ({taken[path]})"
    inputs = tuple(i for i in node.input if i)
    return Node(name, node.op_type, inputs, tuple(o for o in node.output if o), "", (path,))


def _spec(name: str, dtype: int, dims: list[Any]) -> TensorSpec | None:
    """None where the file leaves a dimension open, or the dtype is none of ours."""
    known = {str(d.name): ours for ours, d in NUMPY_DTYPES.items()}
    ours = known.get(_dtype(dtype), "")
    if ours not in DTYPE_BYTES or any(isinstance(d, str) for d in dims):
        return None
    return TensorSpec(name, tuple(int(d) for d in dims), ours)
