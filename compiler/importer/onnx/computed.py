"""Weights of recurrent layers that a file computes from others, as PaddlePaddle's exporter does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TypeProto, helper
from onnx.reference import ReferenceEvaluator

Array = NDArray[Any]


def computed_weights(model: onnx.ModelProto, constants: Mapping[str, Array]) -> dict[str, Array]:
    """Values, by name, of those that follow from constants alone."""
    places = {name: i for i, node in enumerate(model.graph.node) for name in node.output if name}
    wanted = {
        name
        for node in model.graph.node
        if node.op_type in ("GRU", "LSTM", "RNN")
        for name in node.input[1:4]
        if name in places and name not in constants
    }
    found = {name: _value(model, constants, places, name) for name in sorted(wanted)}
    return {name: value for name, value in found.items() if value is not None}


def _value(
    model: onnx.ModelProto, constants: Mapping[str, Array], places: Mapping[str, int], name: str
) -> Array | None:
    """What the nodes behind a tensor make of constants; None where they read anything else."""
    chain, feeds, left = set[int](), dict[str, Array](), [name]
    while left:
        at = left.pop()
        if at in constants:
            feeds[at] = constants[at]
        elif at not in places:
            return None
        elif places[at] not in chain:
            chain.add(places[at])
            left += [n for n in model.graph.node[places[at]].input if n]
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
              for n, a in feeds.items()]  # fmt: skip
    nodes = [model.graph.node[i] for i in sorted(chain)]
    graph = helper.make_graph(nodes, name, inputs, [helper.make_value_info(name, TypeProto())])
    imports, version = model.opset_import, model.ir_version
    alone = helper.make_model(graph, opset_imports=imports, ir_version=version)
    try:
        (value,) = ReferenceEvaluator(alone).run(None, feeds)
    except Exception:  # an operator that it lacks: the layer says what it needs
        return None
    return np.asarray(value)
