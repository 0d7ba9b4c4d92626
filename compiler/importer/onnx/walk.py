"""One walk over an ONNX graph: shapes and values that are known, and the nodes that remain."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, TypeProto, defs, helper, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from nnjit_studio.compiler.onnx_file import budget
from nnjit_studio.compiler.onnx_file.check import WASM_BYTES
from nnjit_studio.compiler.onnx_file.external import tensor_bytes, widened_bytes
from nnjit_studio.compiler.onnx_file.order import MAX_NODES
from nnjit_studio.errors import UnsupportedOpError

_MAX_FLOATS = 1 << 16
_MAX_INTEGERS = 1 << 20
"""Elements up to which a constant is evaluated here; larger ones are the importer's."""
_MAX_DATA = 1024
"""Elements up to which a constant may be a shape or an axis for type inference."""
_REMEMBERED = 512
"""Bytes of an input or attribute up to which a computation is done once for all nodes alike."""
_LEAST_CONSTANT = 1 << 28
"""Bytes up to which any model may compute a constant; larger weights allow larger ones."""
_KEPT = {"DequantizeLinear", "RandomNormal", "RandomUniform", "RandomNormalLike",
         "RandomUniformLike", "Bernoulli", "Multinomial"}  # fmt: skip
_READS = ("Gather", "GatherElements", "GatherND")
_HINT = "Replace it in the exported model; docs/limits.md lists what is missing."
Array = NDArray[Any]
Rule = Callable[["Walk", onnx.NodeProto], bool]
"""A rule for an operator; returns whether the node is done."""


@dataclass
class Counted:
    """Ranges over sizes: what follows from them at one size is another constant at the next."""

    kept: bool = False
    """Whether each is a computation, and what follows from it, and not a constant."""
    ends: list[int] = field(default_factory=list)
    """Where each ends."""
    from_sizes: set[str] = field(default_factory=set)
    """Values that hang on the size of a tensor."""
    sources: dict[str, frozenset[int]] = field(default_factory=dict)
    """Numbers of the kept ranges that a value follows from."""
    tables: list[tuple[int, ...]] = field(default_factory=list)
    """Of each read of weights at places that follow from kept ranges, where these end."""
    level: dict[tuple[int, ...], set[int]] = field(default_factory=dict)
    """Extents that stay in tables which are resized to sizes, by their shapes."""
    searches: list[onnx.NodeProto] = field(default_factory=list)
    """Nodes that stay and whose results are as large as their data says: they want one size."""
    found: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Of each output that is as long as its data says the axis, and the output with its length."""

    def follow(self, node: onnx.NodeProto, constants: Container[str]) -> None:
        """Note what the results of a node follow from."""
        names = [n for n in node.output if n]
        if not self.from_sizes.isdisjoint(node.input):
            self.from_sizes.update(names)
        sources = frozenset().union(*(self.sources.get(n, ()) for n in node.input))
        if sources:
            self.sources.update(dict.fromkeys(names, sources))
            if node.op_type in _READS and node.input[0] in constants:
                self.tables.append(tuple(self.ends[i] for i in sorted(sources)))


class Walk:
    """One walk over a graph in order of execution: what is known, and the nodes that stay."""

    def __init__(
        self,
        model: onnx.ModelProto,
        rules: Mapping[str, Rule],
        given: Mapping[str, int],
        bodies: dict[str, Any] | None = None,
        keep_ranges: bool = False,
    ) -> None:
        self.bodies = bodies
        self.counted = Counted(keep_ranges)
        self.rules = rules
        self.relied: set[str] = set()
        self.opsets = {("" if o.domain == "ai.onnx" else o.domain): o.version
                       for o in model.opset_import}  # fmt: skip
        self.imports = list(model.opset_import)
        self.ir_version = model.ir_version
        self.types: dict[str, TypeProto] = {}
        self.values: dict[str, Array] = {}
        self.computed: dict[Hashable, list[Array]] = {}
        self.sequences: dict[str, list[str]] = {}
        self.alias: dict[str, str] = {}
        self.scopes: list[dict[str, str]] = []
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, TensorProto] = {}
        self.kept: list[onnx.ValueInfoProto] = []
        """Results of operators that nobody else knows the types of."""
        self.count = 0
        self.visited = 0
        self.constants: set[str] = set()
        stored = sum(map(widened_bytes, model.graph.initializer))
        self.constant_bytes = max(_LEAST_CONSTANT, 2 * stored)
        graph = model.graph
        self.declared = {v.name: v.type for v in graph.value_info}
        for port in graph.input:
            self.types[port.name] = port.type
        self.assumed = {
            name: (self._of_input(name, value), frozenset([name]))
            for name, value in given.items()
            if self.shape(name) is not None
        }
        self.limits: set[str] = set()
        self.stored = {t.name: t for t in graph.initializer}
        for tensor in graph.initializer:
            self.known(tensor.name, tensor)

    def known(self, name: str, tensor: TensorProto) -> None:
        self.constants.add(name)
        self.types[name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        if _small(tensor.data_type, tensor.dims) and not tensor.external_data:
            self.values[name] = numpy_helper.to_array(tensor)

    def settle(self, name: str, value: Array) -> None:
        """The value of a tensor is known."""
        array = np.asarray(value)
        self.constants.add(name)
        self.values[name] = array
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.types[name] = helper.make_tensor_type_proto(dtype, array.shape)

    def _of_input(self, name: str, value: int) -> Array:
        kind = helper.tensor_dtype_to_np_dtype(self.types[name].tensor_type.elem_type)
        return np.full(self.shape(name) or (), value, kind)

    def decides(self, name: str) -> Array | None:
        """What decides the structure, where it is known; it may rest on inputs at hand, on which
        the result then relies."""
        if name in self.assumed and name not in self.values:
            value, inputs = self.assumed[name]
            self.relied |= inputs
            return value
        return self.values.get(name)

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
        self.visited += 1
        if self.visited > MAX_NODES:
            raise refuse(node, "fewer nodes once it is laid out")
        if self.visited % 256 == 0:
            budget.progress()
        rule = self.rules.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if rule is None or not rule(self, node):
            self.plain(node)

    def plain(self, node: onnx.NodeProto) -> None:
        """Evaluate the node, or keep it with the types of its outputs."""
        self.counted.follow(node, self.constants)
        computation = self._computation(node)
        if computation in self.computed:
            for name, value in zip(node.output, self.computed[computation], strict=True):
                self.settle(name, value)
            return
        inferred = self.infer(node)
        self._check_size(node, inferred)
        if self._is_empty(node, inferred):
            return
        if node.op_type not in _KEPT and all(n in self.values for n in node.input if n):
            sizes = [t.tensor_type for t in inferred.values()]
            fits = all(_small(t.elem_type, [d.dim_value for d in t.shape.dim]) for t in sizes)
            if fits and self.evaluate(node):
                if computation is not None:
                    self.computed[computation] = [self.values[n] for n in node.output]
                return
        self._assume(node)
        for name in node.output:
            if name in inferred:
                self.types[name] = inferred[name]
            elif name in self.declared:
                self.types[name] = self.declared[name]
        self.nodes.append(node)

    def _is_empty(self, node: onnx.NodeProto, inferred: Mapping[str, TypeProto]) -> bool:
        """Whether the one result has no elements, so that it is known."""
        dims = [d for t in inferred.values() for d in t.tensor_type.shape.dim]
        known = len(inferred) == 1 and all(d.HasField("dim_value") for d in dims)
        shape = [d.dim_value for d in dims]
        if not known or 0 not in shape:
            return False
        name, kind = next((n, t.tensor_type.elem_type) for n, t in inferred.items())
        self.settle(name, np.zeros(shape, helper.tensor_dtype_to_np_dtype(kind)))
        return True

    def _computation(self, node: onnx.NodeProto) -> Hashable:
        """All that the results of a small node of constants hang on; None for any other node.

        Laid-out loops and the shapes of layers alike compute the same thing many times.
        """
        inputs = [self.values.get(n) for n in node.input]
        parts: list[Hashable] = [node.domain, node.op_type, len(node.output)]
        for value in inputs:
            if value is None or value.dtype.hasobject or value.nbytes > _REMEMBERED:
                return None
            parts.append((value.dtype, value.shape, value.tobytes()))
        for attribute in node.attribute:
            graph = attribute.HasField("g") or attribute.graphs
            if graph or attribute.ByteSize() > _REMEMBERED:
                return None
            parts.append(attribute.SerializeToString(deterministic=True))
        return tuple(parts) if all(node.output) else None

    def _check_size(self, node: onnx.NodeProto, inferred: Mapping[str, TypeProto]) -> None:
        """Refuse what no memory holds, by its type, before anybody makes it."""
        constant = all(n in self.constants for n in node.input if n)
        if constant:
            self.constants.update(node.output)
        limit = self.constant_bytes if constant else WASM_BYTES
        nbytes = max(map(_bytes_of, inferred.values()), default=0)
        if nbytes > limit:
            raise refuse(node, f"a result of at most {limit >> 20} MiB; it has {nbytes >> 20}")

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
            bare = onnx.NodeProto()  # without attributes of ours
            bare.CopyFrom(node)
            bare.ClearField("attribute")
            bare.attribute.extend(a for a in node.attribute if a.name in schema.attributes)
            found: Mapping[str, TypeProto] = shape_inference.infer_node_outputs(
                schema, bare, types, data, opset_imports=self.imports, ir_version=self.ir_version
            )
        except Exception:  # unknown domain or input, or an inference that fails
            return {}
        return found

    def evaluate(self, node: onnx.NodeProto) -> bool:
        results = self.results(node, {n: self.values[n] for n in node.input if n})
        for name, result in results.items():
            self.settle(name, result)
        return bool(results)

    def _assume(self, node: onnx.NodeProto) -> None:
        """The results of a node that stays, if inputs have the values that are at hand."""
        names = [n for n in node.input if n]
        known = all(n in self.assumed or n in self.values for n in names)
        if known and any(n in self.assumed for n in names):
            feeds = {n: self.assumed[n][0] if n in self.assumed else self.values[n] for n in names}
            inputs = frozenset().union(*(self.assumed[n][1] for n in names if n in self.assumed))
            for name, result in self.results(node, feeds).items():
                if result.size <= _MAX_DATA:
                    self.assumed[name] = result, inputs

    def results(self, node: onnx.NodeProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs of a node by name; none where it cannot be evaluated here."""
        if node.domain not in ("", "ai.onnx"):
            return {}
        try:
            with np.errstate(all="ignore"):
                results = ReferenceEvaluator(self._alone(node)).run(None, dict(feeds))
        except Exception:  # the importer has its own way with it
            return {}
        if not all(isinstance(r, (np.ndarray, np.generic)) for r in results):
            return {}
        return dict(zip(filter(None, node.output), map(np.asarray, results), strict=True))

    def _alone(self, node: onnx.NodeProto) -> onnx.ModelProto:
        """A model of one node: the evaluator takes a node alone as one of the newest opset."""
        inputs = (helper.make_value_info(n, self.types[n]) for n in dict.fromkeys(node.input) if n)
        outputs = (helper.make_value_info(n, TypeProto()) for n in node.output if n)
        graph = helper.make_graph([node], "alone", list(inputs), list(outputs))
        return helper.make_model(graph, opset_imports=self.imports, ir_version=self.ir_version)

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
        graph.value_info.extend(self.kept)
        for name in sorted(wanted - self.stored.keys() - made):
            if name in self.weights:
                tensor = TensorProto()
                tensor.CopyFrom(self.weights[name])
                tensor.name = name
                graph.initializer.append(tensor)
            elif name in self.values:
                graph.initializer.append(numpy_helper.from_array(self.values[name], name))


def _bytes_of(found: TypeProto) -> int:
    """Bytes of a tensor of this type; 0 where its shape is not known."""
    kind = found.tensor_type
    if not kind.HasField("shape"):
        return 0
    return tensor_bytes(
        TensorProto(data_type=kind.elem_type, dims=[d.dim_value for d in kind.shape.dim])
    )


def _small(dtype: int, dims: Iterable[int]) -> bool:
    floats = dtype in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
    return math.prod(dims) <= (_MAX_FLOATS if floats else _MAX_INTEGERS)


def attribute_of(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    """Value of a node's attribute."""
    for attribute in node.attribute:
        if attribute.name == name:
            return helper.get_attribute_value(attribute)
    return default


def refuse(node: onnx.NodeProto, what: str, hint: str = _HINT) -> UnsupportedOpError:
    name = node.name or node.output[0]
    return UnsupportedOpError(f"The operator {node.op_type} of node {name!r} needs {what}.", hint)
