"""8 bits in the products that keep an error: weights by column, activations by row as they come.

ONNX Runtime's tools give all activations of a tensor one scale; a row that is small then keeps few
steps. Here each row has a scale of its own, written with standard operators. Columns of activations
that are large on the inputs at hand are made smaller, and the rows of weights that meet them
larger.

Products that read one tensor are taken together. Each group's error at the outputs is measured
alone, then groups are taken in the order of error by work saved, as many as stay within the limit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from nnjit_studio.compiler.derived.layers import relative_error
from nnjit_studio.compiler.derived.lifted import FIRST_IR
from nnjit_studio.compiler.onnx_file.arrays import array_of
from nnjit_studio.compiler.onnx_file.budget import progress
from nnjit_studio.compiler.onnx_file.check import opset_of
from nnjit_studio.compiler.onnx_file.native import PATIENT, native_session
from nnjit_studio.compiler.oracle.onnx_reference import reads
from nnjit_studio.errors import UserError
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.support.phases import OnPhase, quiet

Port: TypeAlias = onnx.ValueInfoProto
MARGIN = 0.75
"""Of the limit: in our engine other values fall on a neighbouring step than in ONNX Runtime."""
MOST = 64
"""Groups that are tried, the largest; each costs an inference."""
LEAST_COLUMNS = 64
"""Of a group's weights together: rounding the activations costs as much as a few columns."""
BYTES_OPSET, AXES_OPSET = 10, 18
"""Versions of ONNX: the first with products of bytes; the first whose ReduceMax takes its axes as
an input."""
_STEPS, _SMALLEST = np.float32(127), np.finfo(np.float32).tiny
_FLOOR = 1e-2
"""Of the largest column: one that is 0 on these inputs need not be on others."""


@dataclass(frozen=True)
class _Product:
    node: NodeProto
    held: TensorProto
    turned: bool
    """Whether the file has its weight as N x K."""

    @property
    def shape(self) -> tuple[int, int]:
        """K and N."""
        first, second = self.held.dims
        return (second, first) if self.turned else (first, second)

    def weight(self) -> NDArray[np.float32]:
        """K x N, read anew: a process has room for few copies of the weights."""
        return self.as_in_file(array_of(self.held))

    def as_in_file(self, weight: NDArray[np.float32]) -> NDArray[np.float32]:
        """The same one or the file's, each made of the other."""
        return weight.T if self.turned else weight


@dataclass(frozen=True)
class _Group:
    """Products that read one tensor."""

    read: str
    products: tuple[_Product, ...]

    @property
    def columns(self) -> int:
        return sum(p.shape[1] for p in self.products)


@dataclass(frozen=True)
class Kept:
    """A file in 8 bits as far as its error allows."""

    model: onnx.ModelProto
    products: int
    """In 8 bits."""
    of: int
    """Products that have a constant weight."""


def by_row(
    model: onnx.ModelProto,
    feeds: Feeds,
    max_error: float,
    on_phase: OnPhase = quiet,
) -> Kept:
    """The model with as many products in 8 bits as keep the error of its outputs on these inputs.

    Parameters
    ----------
    max_error
        Largest difference of an output over its largest value.
    on_phase
        Is told each trial.

    Raises
    ------
    UserError
        When the file is older than version 10 of ONNX.
    """
    if opset_of(model) < BYTES_OPSET:
        raise UserError(
            "The file is older than version 10 of ONNX, which has no products of bytes.",
            "Export it with a newer version.",
        )
    groups = list(_groups(model))
    extremes, rows = _extremes(model, groups, feeds)
    work = {g.read: rows[g.read] * g.products[0].shape[0] * g.columns for g in groups}
    there = (g for g in groups if work[g.read])  # others have no rows on these inputs
    largest = sorted(there, key=lambda g: -work[g.read])[:MOST]
    opset = opset_of(model)
    writers = [_Writer(f"8 bits {i}", g, extremes[g.read], opset) for i, g in enumerate(largest)]
    saved = [work[g.read] for g in largest]
    taken = _most(saved, _trials(model, writers, feeds), MARGIN * max_error, on_phase)
    # Here nothing of the trials is held any more: a process has room for few copies of the weights.
    chosen = [
        _Writer(w.name, w.group, extremes[w.group.read], opset) for w in (writers[i] for i in taken)
    ]
    for writer in chosen:
        writer.for_good()
    products = sum(len(w.group.products) for w in chosen)
    return Kept(_placed(model, chosen), products, sum(len(g.products) for g in groups))


def _most(
    saved: Sequence[float],
    error: Callable[[Sequence[int]], float],
    limit: float,
    on_phase: OnPhase = quiet,
) -> Sequence[int]:
    """Places to take, the cheapest in error by what they save first; errors add up as squares."""
    alone: list[float] = []
    for i in range(len(saved)):
        on_phase(f"trying products in 8 bits, {i + 1} of {len(saved)}")
        alone.append(error([i]))
    order = [i for i in range(len(saved)) if alone[i] <= limit]
    order.sort(key=lambda i: alone[i] ** 2 / saved[i])
    low, high = 0, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        on_phase(f"trying {middle} of {len(order)} that keep the limit together")
        low, high = (middle, high) if error(order[:middle]) <= limit else (low, middle - 1)
    return order[:low]


def _groups(model: onnx.ModelProto) -> Iterator[_Group]:
    weights = {w.name: w for w in model.graph.initializer if w.data_type == TensorProto.FLOAT}
    read: dict[str, list[_Product]] = defaultdict(list)
    for node in model.graph.node:
        if node.op_type not in ("MatMul", "Gemm") or node.input[0] in weights:
            continue
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        plain = attributes.get("alpha", 1.0) == attributes.get("beta", 1.0) == 1.0
        plain = plain and weights.keys() >= set(node.input[2:])
        held = weights.get(node.input[1])
        if plain and not attributes.get("transA") and held is not None and len(held.dims) == 2:
            turned = bool(attributes.get("transB"))
            read[node.input[0]].append(_Product(node, held, turned))
    groups = (_Group(name, tuple(products)) for name, products in read.items())
    return (g for g in groups if g.columns >= LEAST_COLUMNS)


def _extremes(
    model: onnx.ModelProto, groups: Sequence[_Group], feeds: Feeds
) -> tuple[dict[str, NDArray[np.float32]], dict[str, int]]:
    """Of each tensor that a group reads: the largest value of each column, and its rows."""
    inputs = {port.name for port in model.graph.input}
    names = [g.read for g in groups]
    asked = [n for n in names if n not in inputs]
    given = {p.node.input[1]: array_of(p.held) for g in groups for p in g.products}
    ports = [onnx.ValueInfoProto(name=n) for n in asked]
    part = _remade(model, model.graph.node, [], _ports(given), ports)
    session = _opened(part)
    values = {
        **feeds,
        **dict(zip(asked, session.run(asked, {**feeds, **given}) if asked else (), strict=True)),
    }
    flat = {n: np.abs(values[n]).reshape(-1, values[n].shape[-1]) for n in names}
    largest = {n: a.max(axis=0, initial=0) for n, a in flat.items()}
    return largest, {n: len(a) for n, a in flat.items()}


class _Writer:
    """Writes one group in 8 bits, for good or behind a switch."""

    def __init__(self, name: str, group: _Group, extremes: NDArray[np.float32], opset: int) -> None:
        self.name, self.group, self._opset = name, group, opset
        largest = np.max([_largest(p.weight(), 1) for p in group.products], axis=0)
        self._columns = np.sqrt(_floored(largest) / _floored(extremes))
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []

    def op(self, kind: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        out = out or f"{self.name}/{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [out], **attributes))
        return out

    def weight(self, array: Any, dtype: Any = np.float32) -> str:
        name = f"{self.name}/w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def bytes_by_row(self) -> tuple[str, str, str]:
        """The activations in int8, the step of each row, the factors of columns."""
        columns = self.weight(self._columns)
        x = self.op("Mul", self.group.read, columns)
        axes: dict[str, Any] = {"axes": [-1]} if self._opset < AXES_OPSET else {}
        axis = [] if axes else [self.weight([-1], np.int64)]
        high = self.op("ReduceMax", self.op("Abs", x), *axis, keepdims=1, **axes)
        high = self.op("Max", high, self.weight(_STEPS * _SMALLEST))  # of zeros alone
        step = self.op("Div", high, self.weight(_STEPS))
        one, none = self.weight(1), self.weight(0, np.int8)
        return self.op("QuantizeLinear", self.op("Div", x, step), one, none), step, columns

    def bytes_of(self, product: _Product) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        """The weight in int8, and a scale for each column."""
        steps, scale = self._steps_of(product)
        return steps.astype(np.int8), scale

    def _steps_of(self, product: _Product) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The same, the integers in float32."""
        steps = product.weight() / self._columns[:, None]
        scale = np.maximum(_largest(steps, 0) / _STEPS, _SMALLEST)
        steps /= scale
        return np.rint(steps, out=steps), scale

    def place(self, product: _Product) -> str:
        """Of a weight as an input."""
        return f"{self.name}/{product.node.output[0]}"

    def plain(self) -> dict[str, NDArray[np.float32]]:
        """The group's weights as the file has them, by their places."""
        return {self.place(p): array_of(p.held) for p in self.group.products}

    def rounded(self) -> dict[str, NDArray[np.float32]]:
        """As :meth:`plain` with the errors of 8 bits."""
        found = {}
        for product in self.group.products:
            weight, scale = self._steps_of(product)
            weight *= scale
            weight *= self._columns[:, None]
            found[self.place(product)] = product.as_in_file(weight)
        return found

    def for_good(self) -> None:
        """Products of integers in place of the group's."""
        rows, step, _ = self.bytes_by_row()
        for product in self.group.products:
            held, by_column = self.bytes_of(product)
            weight, scale = self.weight(held, np.int8), self.weight(by_column)
            total = self.op("Cast", self.op("MatMulInteger", rows, weight), to=TensorProto.FLOAT)
            bias = product.node.input[2:]
            (out,) = product.node.output
            y = self.op("Mul", self.op("Mul", total, step), scale, out="" if bias else out)
            if bias:
                self.op("Add", y, *bias, out=out)

    def switched(self) -> None:
        """The group's products of floats, their activations rounded where an input says so."""
        rows, step, columns = self.bytes_by_row()
        whole = self.op("Cast", rows, to=TensorProto.FLOAT)
        back = self.op("Div", self.op("Mul", whole, step), columns)
        x = self.op("Where", self.name, back, self.group.read)
        for product in self.group.products:
            node = NodeProto()
            node.CopyFrom(product.node)
            node.input[0], node.input[1] = x, self.place(product)
            self.nodes.append(node)


def _placed(
    model: onnx.ModelProto, writers: Sequence[_Writer], inputs: Sequence[Port] = ()
) -> onnx.ModelProto:
    """The model with what was written in the places of the groups, and no weight too many."""
    of = {p.node.output[0]: writer for writer in writers for p in writer.group.products}
    first = {writer.group.products[0].node.output[0] for writer in writers}
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        (out, *_) = node.output
        nodes += [node] if out not in of else of[out].nodes if out in first else []
    weights = [w for writer in writers for w in writer.weights]
    return _remade(model, nodes, weights, inputs, model.graph.output)


def _remade(
    model: onnx.ModelProto,
    nodes: Sequence[NodeProto],
    weights: Sequence[TensorProto],
    inputs: Sequence[Port],
    outputs: Sequence[Port],
) -> onnx.ModelProto:
    """A model of these nodes; its own weights are left out where nobody reads them, or where they
    are inputs: a process has room for few copies."""
    graph, more = model.graph, {port.name for port in inputs}
    held = {w.name for w in model.graph.initializer}  # in old files they are inputs, too
    read = {name for node in nodes for name in reads(node)} | {out.name for out in outputs}
    kept = [w for w in graph.initializer if w.name in read and w.name not in more]
    ports = [*(port for port in graph.input if port.name not in more | held), *inputs]
    bare = helper.make_graph(nodes, graph.name, ports, outputs, value_info=graph.value_info)
    made = helper.make_model(
        bare, opset_imports=model.opset_import, ir_version=max(model.ir_version, FIRST_IR),
        functions=model.functions,
    )  # fmt: skip
    made.graph.initializer.extend([*kept, *weights])  # copied once: a model copies its graph
    return made


def _ports(arrays: Mapping[str, NDArray[np.float32]]) -> list[Port]:
    kind = TensorProto.FLOAT
    return [helper.make_tensor_value_info(n, kind, a.shape) for n, a in arrays.items()]


def _opened(model: onnx.ModelProto) -> Any:
    """A session that holds each weight once."""
    entries = {**PATIENT, "session.disable_prepacking": "1"}
    return native_session(model.SerializeToString(), entries=entries, enable_cpu_mem_arena=False)


def _trials(
    model: onnx.ModelProto, writers: Sequence[_Writer], feeds: Feeds
) -> Callable[[Sequence[int]], float]:
    """What gives the error of the outputs with some groups in 8 bits: weights and switches are
    inputs."""
    for writer in writers:
        writer.switched()
    given = {name: array for writer in writers for name, array in writer.plain().items()}
    switches = [helper.make_tensor_value_info(w.name, TensorProto.BOOL, ()) for w in writers]
    session = _opened(_placed(model, writers, [*_ports(given), *switches]))
    names = [out.name for out in model.graph.output]

    def outputs(taken: Sequence[int]) -> list[NDArray[Any]]:
        progress()
        flags = {w.name: np.array(i in taken) for i, w in enumerate(writers)}
        for i in taken:  # in the places of the plain ones: one set of weights is held
            given.update(writers[i].rounded())
        found = session.run(names, {**feeds, **given, **flags})
        for i in taken:
            given.update(writers[i].plain())
        return [np.asarray(a) for a in found]

    reference = outputs(())
    return lambda taken: float(np.max([*map(relative_error, outputs(taken), reference)]))  # or NaN


def _largest(weight: NDArray[np.float32], axis: int) -> NDArray[np.float32]:
    """Without a copy of the weight, as absolute values would be one."""
    found: NDArray[np.float32] = np.maximum(weight.max(axis), -weight.min(axis))
    return found


def _floored(values: NDArray[np.float32]) -> NDArray[np.float32]:
    floor = max(_FLOOR * float(values.max()), float(_SMALLEST))
    return values.clip(np.float32(floor))
