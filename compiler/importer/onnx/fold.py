"""Shapes, constants and control flow in one walk over the nodes.

With every input's shape fixed, most of what exporters write around dynamic axes (Shape,
Gather, Concat, Range, Expand) is known ahead. One pass in order of execution infers each
node's output types, evaluates what depends on constants alone, and lays out If, Loop, Scan
and sequences flat, so that the importer behind it meets tensors of static shape only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, TypeProto, defs, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from nnjit_studio.errors import UnsupportedOpError

MAX_TRIPS = 128
"""Iterations of a Loop or Scan: each becomes kernels of its own in the plan."""
MAX_NODES = 200_000
_MAX_FLOATS = 1 << 16
_MAX_INTEGERS = 1 << 20
"""Elements up to which a constant is evaluated here; larger ones are the importer's."""
_MAX_DATA = 1024
"""Elements up to which a constant may be a shape or an axis for type inference."""
_KEPT = {"DequantizeLinear", "RandomNormal", "RandomUniform", "RandomNormalLike",
         "RandomUniformLike", "Bernoulli", "Multinomial"}  # fmt: skip
_HINT = "Replace it in the exported model; docs/limits.md lists what is missing."

Array = NDArray[Any]


def fold(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model itself, its graph replaced by the folded one.

    Raises
    ------
    UnsupportedOpError
        When control flow depends on data, or has more than ``MAX_TRIPS`` iterations.
    """
    walk = _Walk(model)
    walk.run(model.graph.node)
    walk.finish(model.graph)
    return model


class _Walk:
    def __init__(self, model: onnx.ModelProto) -> None:
        self.opsets = {("" if o.domain == "ai.onnx" else o.domain): o.version
                       for o in model.opset_import}  # fmt: skip
        self.imports = list(model.opset_import)
        self.ir_version = model.ir_version
        self.types: dict[str, TypeProto] = {}
        self.values: dict[str, Array] = {}
        self.sequences: dict[str, list[str]] = {}
        self.alias: dict[str, str] = {}
        self.scopes: list[dict[str, str]] = []
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, TensorProto] = {}
        self.count = 0
        graph = model.graph
        self.declared = {v.name: v.type for v in graph.value_info}
        for port in graph.input:
            self.types[port.name] = port.type
        self.stored = {t.name for t in graph.initializer}
        for tensor in graph.initializer:
            self.known(tensor.name, tensor)

    def known(self, name: str, tensor: TensorProto) -> None:
        self.types[name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        if _small(tensor.data_type, tensor.dims) and not tensor.external_data:
            self.values[name] = numpy_helper.to_array(tensor)

    def settle(self, name: str, value: Array) -> None:
        """The value of a tensor is known."""
        array = np.asarray(value)
        self.values[name] = array
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.types[name] = helper.make_tensor_type_proto(dtype, array.shape)

    def resolve(self, name: str) -> str:
        """The tensor that a name stands for, seen from the innermost graph outwards."""
        inner = next((s for s in reversed(self.scopes) if name in s), {})
        name = inner.get(name, name)
        return self.alias.get(name, name)

    def shape(self, name: str) -> tuple[int, ...] | None:
        tensor = self.types.get(name, TypeProto()).tensor_type
        if not tensor.HasField("shape"):
            return None
        dims = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
        return None if any(d < 0 for d in dims) else tuple(dims)

    def run(self, nodes: Iterable[onnx.NodeProto]) -> None:
        for original in nodes:
            self.visit(self.bound(original))

    def bound(self, original: onnx.NodeProto) -> onnx.NodeProto:
        """A copy that reads the tensors its inputs stand for."""
        node = onnx.NodeProto()
        node.CopyFrom(original)
        node.input[:] = [self.resolve(name) if name else "" for name in node.input]
        return node

    def visit(self, node: onnx.NodeProto) -> None:
        if len(self.nodes) > MAX_NODES:
            raise _refuse(node, "fewer nodes once it is laid out")
        rule = _RULES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if rule is None or not rule(self, node):
            self.plain(node)

    def plain(self, node: onnx.NodeProto) -> None:
        """Evaluate the node, or keep it with the types of its outputs."""
        inferred = self.infer(node)
        if node.op_type not in _KEPT and all(n in self.values for n in node.input if n):
            sizes = [t.tensor_type for t in inferred.values()]
            fits = all(
                _small(t.elem_type, [d.dim_value for d in t.shape.dim]) for t in sizes
            )  # fmt: skip
            if fits and self.evaluate(node):
                return
        for name in node.output:
            if name in inferred:
                self.types[name] = inferred[name]
            elif name in self.declared:
                self.types[name] = self.declared[name]
        self.nodes.append(node)

    def infer(self, node: onnx.NodeProto) -> Mapping[str, TypeProto]:
        domain = "" if node.domain == "ai.onnx" else node.domain
        try:
            schema = defs.get_schema(node.op_type, self.opsets.get(domain, 1), domain)
            types = {n: self.types[n] for n in node.input if n}
            data = {
                n: numpy_helper.from_array(self.values[n], n)
                for n in types
                if n in self.values and self.values[n].size <= _MAX_DATA
            }
            found: Mapping[str, TypeProto] = shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=self.imports, ir_version=self.ir_version
            )
        except Exception:  # unknown domain or input, or an inference that fails
            return {}
        return found

    def evaluate(self, node: onnx.NodeProto) -> bool:
        if node.domain not in ("", "ai.onnx"):
            return False
        feeds = {n: self.values[n] for n in node.input if n}
        try:
            with np.errstate(all="ignore"):
                results = ReferenceEvaluator(node, opsets=self.opsets).run(None, feeds)
        except Exception:  # the importer has its own way with it
            return False
        if not all(isinstance(r, (np.ndarray, np.generic)) for r in results):
            return False
        for name, result in zip(node.output, results, strict=False):
            if name:
                self.settle(name, result)
        return True

    def emit(self, op_type: str, *inputs: str, axes: Sequence[int] = (), **attributes: Any) -> str:
        """A node of ours, through the same walk; ``axes`` go where the opset wants them."""
        self.count += 1
        name = f"folded//{self.count}"
        names = list(inputs)
        if axes and self.opsets[""] < 13:
            attributes["axes"] = list(axes)
        elif axes:
            names.append(self.constant(np.array(axes, np.int64)))
        self.plain(helper.make_node(op_type, names, [name], name, **attributes))
        return self.resolve(name)

    def constant(self, value: Array) -> str:
        self.count += 1
        name = f"folded//{self.count}"
        self.settle(name, value)
        return name

    def inline(self, graph: onnx.GraphProto, inputs: Sequence[str]) -> list[str]:
        """Walk a subgraph with its inputs bound; the tensors of its outputs."""
        self.count += 1
        prefix = f"{graph.name or 'graph'}//{self.count}/"
        scope = dict(zip((i.name for i in graph.input), inputs, strict=True))
        for tensor in graph.initializer:
            name = scope[tensor.name] = prefix + tensor.name
            self.known(name, tensor)
            self.weights[name] = tensor
        self.scopes.append(scope)
        for original in graph.node:
            node = self.bound(original)
            for i, name in enumerate(node.output):
                if name:
                    node.output[i] = scope[name] = prefix + name
            node.name = prefix + node.name if node.name else ""
            self.visit(node)
        outputs = [self.resolve(o.name) for o in graph.output]
        self.scopes.pop()
        return outputs

    def finish(self, graph: onnx.GraphProto) -> None:
        """Write the walk's result into the graph: live nodes, used constants, static outputs."""
        for port in graph.output:
            source = self.resolve(port.name)
            if source != port.name:
                self.nodes.append(helper.make_node("Identity", [source], [port.name]))
                self.types[port.name] = self.types.get(source, port.type)
            if self.shape(port.name) is not None:
                port.type.CopyFrom(self.types[port.name])
        wanted = {o.name for o in graph.output}
        live = []
        for node in reversed(self.nodes):
            if any(name in wanted for name in node.output):
                live.append(node)
                wanted.update(node.input)
        made = {name for node in live for name in node.output} | {i.name for i in graph.input}
        del graph.node[:]
        graph.node.extend(reversed(live))
        del graph.value_info[:]
        for name in sorted(wanted - self.stored - made):
            if name in self.weights:
                tensor = TensorProto()
                tensor.CopyFrom(self.weights[name])
                tensor.name = name
                graph.initializer.append(tensor)
            elif name in self.values:
                graph.initializer.append(numpy_helper.from_array(self.values[name], name))


def _small(dtype: int, dims: Iterable[int]) -> bool:
    floats = dtype in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
    return math.prod(dims) <= (_MAX_FLOATS if floats else _MAX_INTEGERS)


def _refuse(node: onnx.NodeProto, what: str) -> UnsupportedOpError:
    name = node.name or node.output[0]
    return UnsupportedOpError(f"The operator {node.op_type} of node {name!r} needs {what}.", _HINT)


def _attribute(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    for attribute in node.attribute:
        if attribute.name == name:
            return helper.get_attribute_value(attribute)
    return default


def _shape(w: _Walk, node: onnx.NodeProto) -> bool:
    shape = w.shape(node.input[0])
    if shape is None:
        return False
    part = shape[_attribute(node, "start", 0) : _attribute(node, "end", None)]
    w.settle(node.output[0], np.array(part, np.int64))
    return True


def _size(w: _Walk, node: onnx.NodeProto) -> bool:
    shape = w.shape(node.input[0])
    if shape is not None:
        w.settle(node.output[0], np.array(math.prod(shape), np.int64))
    return shape is not None


def _identity(w: _Walk, node: onnx.NodeProto) -> bool:
    w.alias[node.output[0]] = node.input[0]
    return True


def _if(w: _Walk, node: onnx.NodeProto) -> bool:
    condition = node.input[0]
    branches = [_attribute(node, "then_branch"), _attribute(node, "else_branch")]
    if condition in w.values:
        taken = branches[0 if bool(w.values[condition].reshape(-1)[0]) else 1]
        w.alias.update(zip(node.output, w.inline(taken, []), strict=True))
        return True
    # Nothing has side effects: run both branches, then choose.
    for name, *both in zip(node.output, *(w.inline(b, []) for b in branches), strict=True):
        if w.shape(both[0]) is None or w.shape(both[0]) != w.shape(both[1]):
            raise _refuse(node, "branches of one static shape, or a condition that is known ahead")
        w.alias[name] = w.emit("Where", condition, *both)
    return True


def _stacked(w: _Walk, parts: Sequence[str], axis: int = 0) -> str:
    return w.emit("Concat", *(w.emit("Unsqueeze", p, axes=[axis]) for p in parts), axis=axis)


def _loop(w: _Walk, node: onnx.NodeProto) -> bool:
    trips, condition, *carried = node.input
    body = _attribute(node, "body")
    if trips and trips not in w.values:
        raise _refuse(node, "a trip count that is known ahead")
    limit = int(w.values[trips].reshape(-1)[0]) if trips else None
    scans: list[list[str]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    done = 0
    while limit is None or done < limit:
        if condition and condition not in w.values:
            raise _refuse(node, "a condition that is known ahead")
        if condition and not bool(w.values[condition].reshape(-1)[0]):
            break
        if done == MAX_TRIPS:
            raise _refuse(node, f"at most {MAX_TRIPS} iterations")
        goes_on = condition or w.constant(np.array(True))
        results = w.inline(body, [w.constant(np.array(done, np.int64)), goes_on, *carried])
        condition = results[0]
        carried = results[1 : 1 + len(carried)]
        for scan, part in zip(scans, results[1 + len(carried) :], strict=True):
            scan.append(part)
        done += 1
    if scans and not done:
        raise _refuse(node, "at least one iteration")
    finals = [*carried, *(_stacked(w, scan) for scan in scans)]
    w.alias.update((n, f) for n, f in zip(node.output, finals, strict=True) if n)
    return True


def _scan(w: _Walk, node: onnx.NodeProto) -> bool:
    body, count = _attribute(node, "body"), _attribute(node, "num_scan_inputs")
    states, sources = list(node.input[:-count]), node.input[-count:]
    axes = _attribute(node, "scan_input_axes", [0] * count)
    backwards = _attribute(node, "scan_input_directions", [0] * count)
    outs = len(body.output) - len(states)
    first = w.shape(sources[0])
    if w.opsets[""] < 9 or first is None:
        raise _refuse(node, "opset 9 or later and inputs of known shape")
    trips = first[axes[0]]
    if trips > MAX_TRIPS:
        raise _refuse(node, f"at most {MAX_TRIPS} iterations")
    scans: list[list[str]] = [[] for _ in range(outs)]
    for step in range(trips):
        parts = []
        for source, axis, backward in zip(sources, axes, backwards, strict=True):
            index = w.constant(np.array(trips - 1 - step if backward else step, np.int64))
            parts.append(w.emit("Gather", source, index, axis=axis))
        results = w.inline(body, [*states, *parts])
        states = results[: len(states)]
        for scan, part in zip(scans, results[len(states) :], strict=True):
            scan.append(part)
    turned = _attribute(node, "scan_output_directions", [0] * outs)
    scans = [s[::-1] if t else s for s, t in zip(scans, turned, strict=True)]
    places = _attribute(node, "scan_output_axes", [0] * outs)
    stacks = [_stacked(w, scan, axis) for scan, axis in zip(scans, places, strict=True)]
    w.alias.update((n, f) for n, f in zip(node.output, [*states, *stacks], strict=True) if n)
    return True


def _sequence(w: _Walk, node: onnx.NodeProto) -> bool:
    """Sequences are lists of tensors that are known ahead; only their tensors stay."""
    kind, out = node.op_type, node.output[0]
    if kind == "SequenceEmpty":
        w.sequences[out] = []
        return True
    if kind == "SequenceConstruct":
        w.sequences[out] = list(node.input)
        return True
    if kind == "SplitToSequence":
        w.sequences[out] = _split(w, node)
        return True
    if node.input[0] not in w.sequences:
        raise _refuse(node, "a sequence whose tensors are known ahead")
    parts = list(w.sequences[node.input[0]])
    if kind == "SequenceLength":
        w.settle(out, np.array(len(parts), np.int64))
    elif kind == "ConcatFromSequence":
        axis = _attribute(node, "axis", 0)
        new = _attribute(node, "new_axis", 0)
        w.alias[out] = _stacked(w, parts, axis) if new else w.emit("Concat", *parts, axis=axis)
    else:
        position = (*node.input, "", "")[2 if kind == "SequenceInsert" else 1]
        if position and position not in w.values:
            raise _refuse(node, "a position that is known ahead")
        at = int(w.values[position].reshape(-1)[0]) if position else None
        if kind == "SequenceAt":
            w.alias[out] = parts[at or 0]
        elif kind == "SequenceErase":
            parts.pop(-1 if at is None else at)
            w.sequences[out] = parts
        else:
            parts.insert(len(parts) if at is None else at, node.input[1])
            w.sequences[out] = parts
    return True


def _split(w: _Walk, node: onnx.NodeProto) -> list[str]:
    source, shape = node.input[0], w.shape(node.input[0])
    lengths = node.input[1] if len(node.input) > 1 else ""
    if shape is None or (lengths and lengths not in w.values):
        raise _refuse(node, "an input of known shape and lengths that are known ahead")
    axis = _attribute(node, "axis", 0) % len(shape)
    given = w.values[lengths] if lengths else np.array(1)
    whole = shape[axis]
    ends = np.cumsum(given) if given.ndim else np.arange(int(given), whole + int(given), int(given))
    parts, start = [], 0
    for end in np.minimum(ends, whole).tolist():
        bounds = (w.constant(np.array([n], np.int64)) for n in (start, end, axis))
        parts.append(w.emit("Slice", source, *bounds))
        start = end
    if not lengths and not _attribute(node, "keepdims", 1):
        parts = [w.emit("Squeeze", part, axes=[axis]) for part in parts]
    return parts


_RULES = {
    "ConcatFromSequence": _sequence,
    "Identity": _identity,
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceAt": _sequence,
    "SequenceConstruct": _sequence,
    "SequenceEmpty": _sequence,
    "SequenceErase": _sequence,
    "SequenceInsert": _sequence,
    "SequenceLength": _sequence,
    "Shape": _shape,
    "Size": _size,
    "SplitToSequence": _sequence,
}
