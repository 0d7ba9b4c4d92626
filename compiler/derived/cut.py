"""A model with fewer outputs or inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from numpy.typing import NDArray

from nnjit_studio.compiler.oracle.onnx_reference import reads
from nnjit_studio.errors import UserError


def keep_outputs(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """The model with these outputs alone, and the nodes and weights that they need.

    Raises
    ------
    UserError
        When it has no such output.
    """
    graph = model.graph
    kept = [port for port in graph.output if port.name in names]
    if len(kept) < len(set(names)):
        raise UserError("The model has not all of these outputs.", f"Asked: {', '.join(names)}.")
    writer = {out: i for i, node in enumerate(graph.node) for out in node.output if out}
    needed: set[int] = set()
    wanted = [port.name for port in kept]
    while wanted:
        place = writer.get(wanted.pop())
        if place is not None and place not in needed:
            needed.add(place)
            wanted += reads(graph.node[place])
    nodes = [graph.node[i] for i in sorted(needed)]
    read = {name for node in nodes for name in reads(node)} | {port.name for port in kept}
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for field in ("node", "output", "initializer", "input"):
        del getattr(made.graph, field)[:]
    made.graph.node.extend(nodes)
    made.graph.output.extend(kept)
    made.graph.initializer.extend(w for w in graph.initializer if w.name in read)
    made.graph.input.extend(p for p in graph.input if p.name in read)
    return made


def make_constant(model: onnx.ModelProto, values: Mapping[str, NDArray[Any]]) -> onnx.ModelProto:
    """The model with these inputs as constants.

    Raises
    ------
    UserError
        When it has no such input.
    """
    graph = model.graph
    ports = {port.name: port for port in graph.input}
    for name, value in values.items():
        if name not in ports:
            raise UserError(f"The model has no input {name!r}.")
        graph.input.remove(ports[name])
        old = [w for w in graph.initializer if w.name == name]
        for weight in old:
            graph.initializer.remove(weight)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(ports[name].type.tensor_type.elem_type)
        rank = len(ports[name].type.tensor_type.shape.dim)
        shaped = value.reshape(value.shape or (1,) * rank).astype(dtype)
        graph.initializer.append(onnx.numpy_helper.from_array(shaped, name))
    return model
