"""Functions of one byte, as tables of their 256 results.

A quantised file rounds to bytes between any two operators: behind a convolution, its normalisation
and its activation there may be eight times a product, a rounding, two limits and a quotient. Where
all other operands are numbers the last byte follows from the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from nnjit_studio.compiler.importer.onnx.decompose import types_of
from nnjit_studio.compiler.importer.onnx.rewriter import Types
from nnjit_studio.compiler.onnx_file.arrays import array_of
from nnjit_studio.compiler.onnx_file.check import opset_of
from nnjit_studio.compiler.onnx_file.native import NO_PASSES, native_session
from nnjit_studio.compiler.tvm_adapter.bits.byte_function import BYTE_FUNCTION
from nnjit_studio.compiler.tvm_adapter.origins import node_name

_BYTES = {TensorProto.INT8: np.int8, TensorProto.UINT8: np.uint8}
_CHEAP = frozenset((
    "Abs", "Add", "Clip", "Div", "Identity", "LeakyRelu", "Max", "Min", "Mul", "Neg", "PRelu",
    "Reciprocal", "Relu", "Sqrt", "Sub",
))  # fmt: skip
"""As a part of the kernel before they cost less than a table, if they round to no byte between."""
_DEAR = frozenset((
    "Celu", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "Log", "Mish", "Pow", "Selu",
    "Sigmoid", "Softplus", "Softsign", "Tanh", "ThresholdedRelu",
))  # fmt: skip
_KINDS = _CHEAP | _DEAR | {"DequantizeLinear", "QuantizeLinear"}
_MOST_NODES = 64
"""A longer chain is several functions."""


@dataclass(frozen=True)
class _Function:
    """A tensor that follows element by element from the bytes of another one, or is a number.

    Attributes
    ----------
    root
        Name of the bytes; empty of a number.
    nodes
        In order of execution, by their outputs.
    rank
        Axes of the number among the operands that has most.
    """

    root: str
    nodes: Mapping[str, onnx.NodeProto]
    rank: int = 0

    @property
    def pays(self) -> bool:
        kinds = [node.op_type for node in self.nodes.values()]
        costs = not _DEAR.isdisjoint(kinds) or kinds.count("QuantizeLinear") > 1
        return costs and bool(self.root)


def byte_functions(model: onnx.ModelProto, absorbed: dict[str, tuple[str, ...]]) -> onnx.ModelProto:
    """The model itself, with tables in place of nodes between bytes.

    Their results are those of ONNX Runtime; what it cannot run stays as it is. ``absorbed`` gets
    the names of the nodes that are in a table now, by that of the table's node.
    """
    graph = model.graph
    ends = {n.output[0] for n in graph.node if n.op_type == "QuantizeLinear"}
    if not ends:
        return model
    found = _found(graph)
    wanted = {name: found[name] for name in ends & found.keys() if found[name].pays}
    if not wanted:
        return model
    types, opset = types_of(model), opset_of(model)
    numbers = {t.name: array_of(t) for t in graph.initializer if t.name in found}
    tables = {
        name: _table(function, numbers, types[function.root][0], opset)
        for name, function in wanted.items()
        if _fits(function, types)
    }
    _replace(graph, wanted, {name: held for name, held in tables.items() if held is not None})
    left = {node.output[0] for node in graph.node}
    for name in tables.keys() & left:
        *before, last = wanted[name].nodes.values()
        gone = (node_name(node) for node in before if node.output[0] not in left)
        absorbed[node_name(last)] = tuple(gone)
    return model


def _found(graph: onnx.GraphProto) -> dict[str, _Function]:
    """Every tensor that is a number or a function of one byte."""
    found = {
        t.name: _Function("", {}, len(t.dims))
        for t in graph.initializer
        if np.prod(t.dims, dtype=np.int64) == 1
    }
    for node in graph.node:
        names = [name for name in node.input if name]
        operands = [found.get(name) for name in names]
        if node.op_type == "DequantizeLinear":
            behind = operands[0]
            if behind is None or len(behind.nodes) > _MOST_NODES // 2:
                operands[0] = _Function(names[0], {})
        known = [function for function in operands if function is not None]
        if node.op_type not in _KINDS or len(known) < len(names):
            continue
        nodes = {name: n for function in known for name, n in function.nodes.items()}
        roots = {function.root for function in known} - {""}
        if len(roots) <= 1 and len(nodes) < _MOST_NODES:
            out, rank = node.output[0], max(function.rank for function in known)
            found[out] = _Function("".join(roots), {**nodes, out: node}, rank)
    return found


def _fits(function: _Function, types: Types) -> bool:
    """Whether it begins with bytes, and no number has more axes than they have."""
    kind, shape = types.get(function.root, (0, None))
    return kind in _BYTES and shape is not None and function.rank <= max(1, len(shape))


def _table(function: _Function, numbers: Mapping[str, NDArray[Any]], kind: int, opset: int) -> Any:
    """Results for all bytes, from the smallest on; None where ONNX Runtime has none."""
    limits = np.iinfo(_BYTES[kind])
    every = np.arange(limits.min, limits.max + 1).astype(_BYTES[kind])
    nodes = list(function.nodes.values())
    read = {name for node in nodes for name in node.input} & numbers.keys()
    graph = helper.make_graph(
        nodes,
        "byte",
        [helper.make_tensor_value_info(function.root, kind, [len(every)])],
        [helper.make_empty_tensor_value_info(nodes[-1].output[0])],
        [numpy_helper.from_array(numbers[name].reshape(()), name) for name in sorted(read)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    try:
        session = native_session(model.SerializeToString(), NO_PASSES, intra_op_num_threads=1)
        (table,) = session.run(None, {function.root: every})
    except Exception:  # it lacks an operator for these types
        return None
    return table if table.dtype in (np.int8, np.uint8) else None


def _replace(
    graph: onnx.GraphProto,
    functions: Mapping[str, _Function],
    tables: Mapping[str, NDArray[Any]],
) -> None:
    """Write the tables that bytes have, and leave out what nobody reads then."""
    taken = {name: table for name, table in tables.items() if table.dtype in (np.int8, np.uint8)}
    within = {name for end in taken for name in functions[end].nodes}
    read = {port.name for port in graph.output}
    nodes = []
    for node in reversed(graph.node):
        out = node.output[0]
        if out in within and out not in read:
            continue
        if out in tables:
            held = f"{out}//table"
            graph.initializer.append(numpy_helper.from_array(tables[out], held))
            node = helper.make_node(BYTE_FUNCTION, [functions[out].root, held], [out], node.name)
        read.update(node.input)
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(reversed(nodes))
