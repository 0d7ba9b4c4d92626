"""Rewriting of a decoder's graphs: its past becomes a cache of fixed capacity, updated in place.

An exported step joins the past with its new rows and gives the result back:
``present = Concat(past, new)``, once for each layer's keys and values. Here the
past becomes a cache of fixed capacity, the Concat an append into one slot, and
attention reads the cache. Slots without a token are hidden by the attention
mask; since attention does not depend on the order of its keys, slot n may hold
token n. Keys that attention reads transposed are kept transposed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from nnjit_studio.compiler.importer.decoder.parts import (
    EXPORT_AGAIN,
    IDS,
    MASK,
    POSITIONS,
    Decoder,
    Past,
)
from nnjit_studio.compiler.onnx_file.arrays import array_of
from nnjit_studio.compiler.tvm_adapter import APPEND_OP
from nnjit_studio.errors import ModelError

DOMAIN = "nnjit"
SLOT, LAST = "cache_slot", "cache_last"
_ELEMENTWISE = ("Identity", "Cast", "Add", "Sub", "Mul", "Div", "Tanh")


def fix_shapes(model: onnx.ModelProto, decoder: Decoder, rows: int, past: int) -> None:
    """Set the sizes of every input, in place; a past of 0 rows becomes an empty constant."""
    graph = model.graph
    shapes: dict[str, tuple[int, ...]] = {
        IDS: (1, rows),
        MASK: (1, past + rows),
        POSITIONS: (1, rows),
    }
    shapes |= {p.input: (1, p.heads, past, p.width) for p in decoder.pasts}
    kept = []
    for port in graph.input:
        if port.name not in shapes:
            kept.append(port)
            continue
        element, shape = port.type.tensor_type.elem_type, shapes[port.name]
        if 0 in shape:
            empty = np.zeros(shape, helper.tensor_dtype_to_np_dtype(element))
            graph.initializer.append(numpy_helper.from_array(empty, port.name))
        else:
            kept.append(helper.make_tensor_value_info(port.name, element, shape))
    del graph.input[:]
    graph.input.extend(kept)
    del graph.value_info[:]
    for port in graph.output:
        for dim in port.type.tensor_type.shape.dim:
            dim.Clear()


@dataclass(frozen=True)
class CacheLayout:
    """How each past is kept; ``columns`` names those that are kept transposed."""

    capacity: int
    columns: frozenset[str]
    halves: frozenset[str]
    """Those that are kept in f16."""


def decode_over_cache(
    model: onnx.ModelProto, decoder: Decoder, capacity: int, half: bool
) -> CacheLayout:
    """Turn a step of fixed shapes, one token behind ``capacity - 1``, into one over the cache.

    ``half`` keeps a past in f16 where the file has it so. An odd number of slots stays in f32: two
    lines of keys would share a word, which two threads of a GPU must not write.

    Raises
    ------
    ModelError
        When a past is read by something else than its Concat.
    """
    graph = _Rewriting(model)
    columns = set()
    joins = {past: graph.join_of(past) for past in decoder.pasts}
    for past, node in joins.items():
        if graph.reads_as_columns(node.output[0], (1, past.heads, capacity, past.width)):
            columns.add(past.input)
    half = half and capacity % 2 == 0
    halves = frozenset(p.input for p in decoder.pasts if half and p.half)
    layout = CacheLayout(capacity, frozenset(columns), halves)
    for past, node in joins.items():
        graph.append(node, past, layout)
    graph.add_input(SLOT, TensorProto.INT64, (1,))
    graph.set_caches(decoder, layout)
    graph.finish(model)
    return layout


def prefill_over_cache(
    model: onnx.ModelProto, decoder: Decoder, layout: CacheLayout, rows: int
) -> str:
    """Let a run over the first ``rows`` tokens write its keys and values into the cache.

    Returns
    -------
    str
        The input that says which row's logits are wanted; empty when all are given.
    """
    graph = _Rewriting(model)
    outputs = {o.name: o for o in model.graph.output}
    if decoder.logits not in outputs:
        raise ModelError(f"The prefill model has no output {decoder.logits!r}.", EXPORT_AGAIN)
    for past in decoder.pasts:
        if past.output not in outputs:
            raise ModelError(f"The prefill model has no output {past.output!r}.", EXPORT_AGAIN)
        new = graph.without_empty(past.output)
        kept = f"{past.output}//cache"
        graph.nodes += _appended(past, layout, new, kept)
        outputs[past.output].name = kept
    last = graph.gather_last(decoder.logits) if rows > 1 else ""
    graph.set_caches(decoder, layout)
    graph.finish(model)
    return last


def extend_over_cache(
    model: onnx.ModelProto, decoder: Decoder, layout: CacheLayout, rows: int
) -> str:
    """Let a run over ``rows`` tokens behind a past of the other slots write into the cache.

    Attention reads these slots and the new rows behind them, so that the model's own causal mask
    is right whatever the slot; past slots from that on have to be hidden by the attention mask.

    Returns
    -------
    str
        As of :func:`prefill_over_cache`.
    """
    graph = _Rewriting(model)
    outputs = {o.name: o for o in model.graph.output}
    for past in decoder.pasts:
        node = graph.join_of(past)
        kept = f"{past.output}//cache"
        graph.nodes += _appended(past, layout, node.input[1], kept, SLOT)
        outputs[past.output].name = kept
        graph.read_slots(node, past, layout, rows)
    last = graph.gather_last(decoder.logits)
    graph.add_input(SLOT, TensorProto.INT64, (1,))
    graph.set_caches(decoder, layout)
    graph.finish(model)
    return last


class _Rewriting:
    """A graph of fixed shapes while its nodes change."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.graph: Any = model.graph
        self.nodes = list(self.graph.node)
        self.constants: dict[str, Any] = {t.name: t for t in self.graph.initializer}
        for node in self.nodes:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.constants[node.output[0]] = node.attribute[0].t

    def producer(self, name: str) -> Any:
        """The node that computes a value, looking through copies; None for inputs."""
        node = next((n for n in self.nodes if name in n.output), None)
        if node is not None and _copies(node):
            return self.producer(node.input[0])
        return node

    def source(self, name: str) -> str:
        """The value behind copies."""
        node = next((n for n in self.nodes if name in n.output), None)
        return self.source(node.input[0]) if node is not None and _copies(node) else name

    def readers(self, name: str) -> list[Any]:
        return [n for n in self.nodes if name in n.input]

    def constant(self, name: str) -> NDArray[Any] | None:
        tensor = self.constants.get(name)
        return None if tensor is None else array_of(tensor)

    def join_of(self, past: Past) -> Any:
        """The Concat of a past and its new rows, the past's only reader.

        Raises
        ------
        ModelError
        """
        node = self.producer(past.output)
        if node is None or node.op_type != "Concat" or len(node.input) != 2:
            raise ModelError(
                f"The output {past.output!r} is no longer a Concat once shapes are fixed.",
                EXPORT_AGAIN,
            )
        other = [n for n in self.readers(node.input[0]) if n is not node]
        if other or self.source(node.input[0]) != past.input:
            name = other[0].name if other else node.input[0]
            raise ModelError(
                f"The past {past.input!r} is read by more than its Concat: {name!r}.",
                EXPORT_AGAIN,
            )
        return node

    def reads_as_columns(self, name: str, shape: tuple[int, ...]) -> bool:
        """Let attention read ``[1, heads, width, tokens]`` where all it does is to transpose.

        A scale on the way is moved to the queries, because it would touch the whole cache.
        """
        paths = [self._path(name, reader, shape) for reader in self._users(name)]
        if not paths or any(path is None for path in paths):
            return False
        for nodes, scale, product in (path for path in paths if path is not None):
            for node in nodes:
                self.nodes.remove(node)
            product.input[1] = name
            if scale is not None:
                scaled = f"{product.output[0]}//queries"
                node = helper.make_node("Mul", [product.input[0], scale], [scaled], scaled)
                self.nodes.insert(self.nodes.index(product), node)
                product.input[0] = scaled
        return True

    def _users(self, name: str) -> list[Any]:
        """The readers of a value that are more than a copy of it as an output."""
        given = {o.name for o in self.graph.output}
        return [n for n in self.readers(name) if not (_copies(n) and n.output[0] in given)]

    def _path(
        self, name: str, reader: Any, shape: tuple[int, ...]
    ) -> tuple[list[Any], str | None, Any] | None:
        """Nodes from the keys to the product with the queries, and their scale."""
        places = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
        wanted = places.swapaxes(-1, -2)
        nodes: list[Any] = []
        scale: str | None = None
        node = reader
        while True:
            if node.op_type == "MatMul" and node.input[1] == name and node.input[0] != name:
                same = places.shape == wanted.shape and bool((places == wanted).all())
                return (nodes, scale, node) if same else None
            if node.op_type == "Reshape" and (size := self.constant(node.input[1])) is not None:
                if any(a.name == "allowzero" and a.i for a in node.attribute) and 0 in size:
                    return None
                dims = [places.shape[i] if d == 0 else int(d) for i, d in enumerate(size)]
                places = places.reshape(dims)
            elif node.op_type == "Transpose":
                perm = [list(a.ints) for a in node.attribute if a.name == "perm"]
                places = places.transpose(*perm)
            elif node.op_type == "Mul" and scale is None:
                other = node.input[1] if node.input[0] == name else node.input[0]
                factor = self.constant(other)
                if factor is None or factor.size != 1:
                    return None
                scale = other
            elif node.op_type != "Identity":
                return None
            nodes.append(node)
            name = node.output[0]
            followers = self.readers(name)
            if len(followers) != 1 or name in {o.name for o in self.graph.output}:
                return None
            node = followers[0]

    def append(self, concat: Any, past: Past, layout: CacheLayout) -> None:
        """An append in place of the Concat; who reads a cache in f16 reads it widened."""
        name = concat.output[0]
        nodes = _appended(past, layout, concat.input[1], name, SLOT)
        if past.input in layout.halves:
            wide = f"{name}//f32"
            for reader in self._users(name):
                reader.input[:] = [wide if given == name else given for given in reader.input]
            nodes.append(_cast(name, wide, TensorProto.FLOAT))
        at = self.nodes.index(concat)
        self.nodes[at : at + 1] = nodes

    def read_slots(self, join: Any, past: Past, layout: CacheLayout, rows: int) -> None:
        """Join all slots of a cache but ``rows``, in place of a past."""
        columns = past.input in layout.columns
        count = layout.capacity - rows
        slots = f"{past.input}//slots"
        bounds = []
        for name, value in (("begin", 0), ("end", count), ("axis", 3 if columns else 2)):
            bounds.append(f"{slots}/{name}")
            array = np.array([value], np.int64)
            self.graph.initializer.append(numpy_helper.from_array(array, bounds[-1]))
        nodes = [helper.make_node("Slice", [past.input, *bounds], [slots], slots)]
        if columns:
            turned = f"{past.input}//rows"
            nodes.append(
                helper.make_node("Transpose", [slots], [turned], turned, perm=[0, 1, 3, 2])
            )
        if past.input in layout.halves:
            nodes.append(_cast(nodes[-1].output[0], f"{past.input}//f32", TensorProto.FLOAT))
        at = self.nodes.index(join)
        self.nodes[at:at] = nodes
        join.input[0] = nodes[-1].output[0]

    def without_empty(self, name: str) -> str:
        """The new rows alone, where they were joined with an empty past."""
        node = self.producer(name)
        if node is None or node.op_type != "Concat" or len(node.input) != 2:
            return name
        before = self.constant(self.source(node.input[0]))
        if before is None or before.size:
            return name
        joined, new = str(node.output[0]), str(node.input[1])
        self.nodes.remove(node)
        for reader in self.readers(joined):
            for i, given in enumerate(reader.input):
                if given == joined:
                    reader.input[i] = new
        return new

    def gather_last(self, logits: str) -> str:
        """Compute the vocabulary's product for one row alone, where that can be seen."""
        name, node = logits, self.producer(logits)
        while node is not None and node.op_type in _ELEMENTWISE:
            live = [i for i in node.input if i not in self.constants]
            if len(live) != 1:
                return ""
            name = live[0]
            node = self.producer(name)
        if node is None or not self._meets_weight(node):
            return ""
        row = f"{node.input[0]}//last"
        gather = helper.make_node("Gather", [node.input[0], LAST], [row], row, axis=1)
        self.nodes.insert(self.nodes.index(node), gather)
        node.input[0] = row
        self.add_input(LAST, TensorProto.INT64, (1,))
        return LAST

    def _meets_weight(self, node: Any) -> bool:
        """Whether a node is a product of rows and a matrix that is a weight."""
        if node.op_type == "MatMulNBits":
            return True
        weight = node.input[1] if node.op_type == "MatMul" else ""
        before = self.producer(weight) if weight else None
        if before is not None and before.op_type == "Transpose":
            weight = before.input[0]
        return len(getattr(self.constants.get(weight), "dims", ())) == 2

    def add_input(self, name: str, dtype: int, shape: tuple[int, ...]) -> None:
        self.graph.input.append(helper.make_tensor_value_info(name, dtype, shape))

    def set_caches(self, decoder: Decoder, layout: CacheLayout) -> None:
        """The caches as the last inputs, in the same order in every graph of the decoder."""
        pasts = {p.input for p in decoder.pasts}
        ports = [i for i in self.graph.input if i.name not in pasts]
        for past in decoder.pasts:
            tail = (layout.capacity, past.width)
            shape = (1, past.heads, *(tail[::-1] if past.input in layout.columns else tail))
            element = TensorProto.FLOAT16 if past.input in layout.halves else TensorProto.FLOAT
            ports.append(helper.make_tensor_value_info(past.input, element, shape))
        del self.graph.input[:]
        self.graph.input.extend(ports)
        weights = [t for t in self.graph.initializer if t.name not in pasts]
        if len(weights) < len(self.graph.initializer):
            del self.graph.initializer[:]
            self.graph.initializer.extend(weights)

    def finish(self, model: onnx.ModelProto) -> None:
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
        del self.graph.value_info[:]
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)


def _appended(past: Past, layout: CacheLayout, rows: str, kept: str, *slot: str) -> list[Any]:
    """The nodes that write new rows into a cache; ``kept`` is the cache then."""
    nodes = []
    if past.input in layout.halves:
        nodes.append(_cast(rows, f"{kept}//f16", TensorProto.FLOAT16))
        rows = nodes[-1].output[0]
    columns = int(past.input in layout.columns)
    inputs = [past.input, rows, *slot]
    append = helper.make_node(APPEND_OP, inputs, [kept], kept, domain=DOMAIN, columns=columns)
    return [*nodes, append]


def _cast(name: str, made: str, dtype: int) -> Any:
    return helper.make_node("Cast", [name], [made], made, to=dtype)


def _copies(node: Any) -> bool:
    return node.op_type == "Identity" or (node.op_type == "Concat" and len(node.input) == 1)
