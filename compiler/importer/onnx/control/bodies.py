"""Loop and Scan that stay loops: their bodies become models of their own.

A body takes what it reads from outside, the number of its run, then its condition, the carried
tensors, and the rows that it scans. It gives the condition, the carried tensors, and the rows of
its results. What has no such form is laid out step by step, where its count is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TypeProto, helper, numpy_helper

from nnjit_studio.compiler.importer.onnx.walk import Walk, attribute_of, refuse
from nnjit_studio.compiler.tvm_adapter.loops import LOOP_FORM, LOOP_OP
from nnjit_studio.errors import UnsupportedOpError
from nnjit_studio.model.plan import MOST_TRIPS


@dataclass(frozen=True)
class LoopBody:
    """What a loop runs again and again, and how its inputs and outputs follow one another.

    Inputs of the call are ``captured`` tensors, the condition before the first run, the carried
    tensors as they begin, what is scanned, then the count.
    """

    model: onnx.ModelProto
    captured: int
    trips: int | None
    """None where the count is a tensor."""
    going: bool
    """Whether the condition is computed."""
    carried: int
    scanned: tuple[bool, ...]
    """Whether each of them is read from its end on."""
    results: tuple[bool, ...]
    """Whether rows of each result are written from its end on."""


@dataclass(frozen=True)
class _Form:
    """A Loop or a Scan in the terms of :class:`LoopBody`."""

    graph: onnx.GraphProto
    ports: Sequence[str]
    """Names of the body's inputs but constants: number, condition, carried tensors, rows."""
    types: Sequence[TypeProto]
    constants: Mapping[str, Any]
    outputs: Sequence[str]
    given: Sequence[str]
    """Inputs of the call behind the captured ones."""
    trips: int | None
    going: bool
    carried: int
    scanned: tuple[bool, ...] = ()
    turned: tuple[bool, ...] = ()


def kept(w: Walk, node: onnx.NodeProto, form_of: Callable[[Walk, onnx.NodeProto], Any]) -> bool:
    """Keep a loop as one call, where the walk keeps loops and it has a form for that.

    Raises
    ------
    UnsupportedOpError
        When it has none, and its count is not known ahead.
    """
    if w.bodies is None:
        return False
    try:
        form: _Form | None = form_of(w, node)
        if form is None:
            return False
        _keep(w, node, form)
    except UnsupportedOpError:
        if node.op_type == "Loop" and node.input[0] not in w.values:
            raise
        return False
    return True


def loop_of(w: Walk, node: onnx.NodeProto) -> _Form | None:
    """The form of a Loop; None where it is better laid out."""
    trips, condition, *carried = node.input
    graph = attribute_of(node, "body")
    number, going, *names = [p.name for p in graph.input]
    known = w.values.get(condition) if condition else np.array(True)
    if trips in w.stored or (known is not None and not bool(known.reshape(-1)[0])):
        return None
    count = w.values.get(trips)
    limit = MOST_TRIPS if not trips else None if count is None else int(count.reshape(-1)[0])
    int64 = helper.make_tensor_type_proto(onnx.TensorProto.INT64, ())
    types = [int64, *(_type(w, node, n) for n in carried)]
    ports, starts = [number, *names], [*carried]
    outputs = [o.name for o in graph.output]
    constants = {}
    computed = known is None or not _stays_true(w, graph, going)
    if computed:
        if len(outputs) - 1 > len(carried):
            raise refuse(node, "no stacked results where a computed condition ends it")
        given = condition or w.constant(np.array(True))
        ports.insert(1, going)
        types.insert(1, _type(w, node, given))
        starts.insert(0, given)
    else:
        constants[going] = np.array(True)
        outputs.pop(0)
    if trips and count is None:
        if len(outputs) - computed > len(carried):
            raise refuse(node, "no stacked results where its count is computed from values")
        starts.append(trips)
    if not trips and not computed:
        raise refuse(node, "a count or a condition that ends it")
    return _Form(graph, ports, types, constants, outputs, starts, limit, computed, len(carried),
                 turned=(False,) * (len(outputs) - computed - len(carried)))  # fmt: skip


def scan_of(w: Walk, node: onnx.NodeProto) -> _Form | None:
    """The form of a Scan along first axes; None for another one."""
    graph, count = attribute_of(node, "body"), attribute_of(node, "num_scan_inputs")
    states, sources = list(node.input[:-count]), list(node.input[-count:])
    outs = len(graph.output) - len(states)
    axes = (*attribute_of(node, "scan_input_axes", []), *attribute_of(node, "scan_output_axes", []))
    if any(axes):
        return None
    int64 = helper.make_tensor_type_proto(onnx.TensorProto.INT64, ())
    types = [int64, *(_type(w, node, n) for n in states)]
    trips = 0
    for name in sources:
        whole = _type(w, node, name)
        trips, *row = w.shape(name) or ()
        types.append(helper.make_tensor_type_proto(whole.tensor_type.elem_type, row))
    ports = [f"{node.output[0]}//number", *(p.name for p in graph.input)]
    scanned = tuple(map(bool, attribute_of(node, "scan_input_directions", [0] * count)))
    turned = tuple(map(bool, attribute_of(node, "scan_output_directions", [0] * outs)))
    outputs = [o.name for o in graph.output]
    return _Form(graph, ports, types, {}, outputs, [*states, *sources], trips, False, len(states),
                 scanned, turned)  # fmt: skip


def _keep(w: Walk, node: onnx.NodeProto, form: _Form) -> None:
    assert w.bodies is not None
    model, captured = _model(w, node, form)
    sub = Walk(model, w.rules, {})
    sub.run(model.graph.node)
    sub.finish(model.graph)
    made = [p.type for p in model.graph.output]
    if any(sub.shape(p.name) is None for p in model.graph.output):
        raise refuse(node, "a body whose results have shapes that are known ahead")
    first = 1 + form.going
    for before, after in zip(form.types[1 : first + form.carried], made, strict=False):
        if before.tensor_type.shape != after.tensor_type.shape:
            raise refuse(node, "carried tensors that keep their shapes")
    finals = made[form.going :]
    types = finals[: form.carried]
    for row in finals[form.carried :]:
        dims = [d.dim_value for d in row.tensor_type.shape.dim]
        kind = row.tensor_type.elem_type
        types.append(helper.make_tensor_type_proto(kind, (form.trips or 0, *dims)))
    if form.trips is not None and not 1 <= form.trips <= MOST_TRIPS:
        raise refuse(node, f"1 to {MOST_TRIPS} iterations, not {form.trips}")
    w.count += 1
    key = f"{LOOP_FORM}{len(w.bodies)}"
    w.bodies[key] = LoopBody(
        model, len(captured), form.trips, form.going, form.carried, form.scanned, form.turned
    )
    names = [n or f"{key}//{i}" for i, n in enumerate(node.output)]
    call = helper.make_node(
        LOOP_OP, [*captured, *form.given], names, node.name, form=key,
        results=[_text(t) for t in types],
    )  # fmt: skip
    for name, kind in zip(names, types, strict=True):
        w.types[name] = kind
        w.kept.append(helper.make_value_info(name, kind))
    w.nodes.append(call)


def _model(w: Walk, node: onnx.NodeProto, form: _Form) -> tuple[onnx.ModelProto, list[str]]:
    """The body as a model, and the tensors outside that it reads and that are computed."""
    weights = [*form.graph.initializer]
    weights += [numpy_helper.from_array(v, n) for n, v in form.constants.items()]
    inputs, captured = [], []
    own = {*form.ports, *form.constants}
    for name in dict.fromkeys(outside(form.graph)):
        if name in own:
            continue
        source = w.resolve(name)
        if source in w.values:
            weights.append(numpy_helper.from_array(w.values[source], name))
        elif source in w.weights or source in w.stored:
            tensor = onnx.TensorProto()
            tensor.CopyFrom(w.weights.get(source) or w.stored[source])
            tensor.name = name
            weights.append(tensor)
        else:
            inputs.append(helper.make_value_info(name, _type(w, node, source)))
            captured.append(source)
    ports = zip(form.ports, form.types, strict=True)
    inputs += [helper.make_value_info(name, kind) for name, kind in ports]
    ends = [f"{name}//{i}" for i, name in enumerate(form.outputs)]
    # An output may be an input, or two may be one tensor.
    moves = [
        helper.make_node("Identity", [name], [end])
        for name, end in zip(form.outputs, ends, strict=True)
    ]
    results = [helper.make_value_info(end, TypeProto()) for end in ends]
    graph = helper.make_graph([*form.graph.node, *moves], "body", inputs, results, weights)
    return helper.make_model(graph, opset_imports=w.imports, ir_version=w.ir_version), captured


def _stays_true(w: Walk, graph: onnx.GraphProto, going: str) -> bool:
    """Whether the condition behind a run is the one before it, or a constant that holds."""
    name = graph.output[0].name
    made = {o: n for n in graph.node for o in n.output}
    while name in made and made[name].op_type in ("Identity", "Cast"):
        name = made[name].input[0]
    if name == going:
        return True
    held = {t.name: numpy_helper.to_array(t) for t in graph.initializer if t.name == name}
    if name in made and made[name].op_type == "Constant":
        held[name] = numpy_helper.to_array(attribute_of(made[name], "value"))
    elif name not in made and name not in held:
        found = w.values.get(w.resolve(name))
        held |= {} if found is None else {name: found}
    return name in held and bool(held[name].reshape(-1)[0])


def outside(graph: onnx.GraphProto) -> Iterator[str]:
    """Names that a graph reads and does not define, in order."""
    known = {*(p.name for p in graph.input), *(t.name for t in graph.initializer)}
    for node in graph.node:
        read = [n for n in node.input if n]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                read += outside(attribute.g)
        yield from (n for n in read if n not in known)
        known.update(node.output)
    yield from (o.name for o in graph.output if o.name not in known)


def _type(w: Walk, node: onnx.NodeProto, name: str) -> TypeProto:
    if w.shape(name) is None:
        raise refuse(node, "inputs whose shapes are known ahead")
    return w.types[name]


def _text(kind: TypeProto) -> str:
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type)).name
    return " ".join((dtype, *(str(d.dim_value) for d in kind.tensor_type.shape.dim)))
