"""Decoders whose attention is GroupQueryAttention, as ONNX Runtime's own builder writes them.

The operator finds its length and its positions itself, from the ones of the attention mask, and
hides what stands behind them. Here both become explicit: an input of positions, which its rotation
reads, and what is added to the scores of slots without a token. What is left is attention over a
past that fills its buffer, which the importer spells in products.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nnjit_studio.compiler.importer.decoder.parts import GROUPED, MASK, POSITIONS, Decoder

_PAST, _LENGTHS, _TOTAL, _POSITIONS, _ADDED = 3, 5, 6, 9, 10
_OWN = "nnjit//"
_LOWEST = float(np.finfo(np.float32).min)


def explicit_masks(model: onnx.ModelProto, decoder: Decoder, rows: int, past: int) -> Decoder:
    """Say what GroupQueryAttention finds out, in place; the sizes are fixed.

    Returns
    -------
    Decoder
        With the input of positions, which the model has now.
    """
    nodes = [n for n in model.graph.node if n.op_type == GROUPED]
    if not nodes:
        return decoder
    made = _Made(model.graph)
    if POSITIONS not in {i.name for i in model.graph.input}:
        port = helper.make_tensor_value_info(POSITIONS, TensorProto.INT64, (1, rows))
        model.graph.input.append(port)
    lengths = made.constant("lengths", np.array([past + rows - 1], np.int32))
    total = made.constant("total", np.array(past + rows, np.int32))
    for node in nodes:
        inputs = [*node.input, *[""] * 12][: max(12, len(node.input))]
        inputs[_LENGTHS], inputs[_TOTAL] = lengths, total
        if _attribute(node, "do_rotary", 0) and not inputs[_POSITIONS]:
            inputs[_POSITIONS] = POSITIONS
        if not past:  # later places are hidden anyway, and a window counts from 0
            inputs[_PAST] = inputs[_PAST + 1] = ""
        else:
            hidden = made.hidden(rows, past, int(_attribute(node, "local_window_size", -1)))
            inputs[_ADDED] = made.sum(inputs[_ADDED], hidden) if inputs[_ADDED] else hidden
            _drop_attribute(node, "local_window_size")
        while not inputs[-1]:
            inputs.pop()
        del node.input[:]
        node.input.extend(inputs)
    made.put_first()
    return replace(decoder, positions=POSITIONS)


class _Made:
    """New nodes and constants of a graph, each once."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._nodes: list[Any] = []
        self._late: list[Any] = []
        self._names: set[str] = set()

    def constant(self, name: str, array: Any) -> str:
        if (whole := f"{_OWN}{name}") not in self._names:
            self._names.add(whole)
            self._graph.initializer.append(numpy_helper.from_array(np.asarray(array), whole))
        return whole

    def op(self, op_type: str, name: str, *inputs: str, **attributes: Any) -> str:
        if (whole := f"{_OWN}{name}") not in self._names:
            self._names.add(whole)
            node = helper.make_node(op_type, list(inputs), [whole], whole, **attributes)
            self._nodes.append(node)
        return whole

    def sum(self, given: str, hidden: str) -> str:
        """A model's own summand with the hidden slots; it stands behind what makes the first."""
        whole = f"{given}//{hidden}"
        if whole not in self._names:
            self._names.add(whole)
            self._late.append((given, helper.make_node("Add", [given, hidden], [whole], whole)))
        return whole

    def hidden(self, rows: int, past: int, window: int) -> str:
        """What is added to scores, (1, 1, 1 or rows, past + rows): the lowest f32 where no token
        is, or where a window does not reach."""
        mask = self.op("Cast", "filled", MASK, to=TensorProto.BOOL)
        seen = self._wide("seen", mask, 1)
        if window > 0:
            keys = self._key_positions(rows, past)
            first = self.op(
                "Sub", f"first {window}", POSITIONS, self.constant(f"window {window}", [window])
            )
            first = self.op(
                "Reshape", f"column {window}", first, self.constant("column", [1, 1, rows, 1])
            )
            near = self.op("Greater", f"near {window}", keys, first)
            seen = self.op("And", f"seen {window}", seen, near)
        ends = [self.constant(n, np.float32(v)) for n, v in (("shown", 0.0), ("lowest", _LOWEST))]
        return self.op("Where", f"hidden {max(window, 0)}", seen, *ends)

    def _key_positions(self, rows: int, past: int) -> str:
        """Positions of all slots, (1, 1, 1, past + rows).

        A step of one row is written into its slot; several stand behind the whole cache.
        """
        if rows == 1:
            return self.constant("slots", np.arange(past + 1)[None, None, None])
        both = self.op(
            "Concat", "slots", self.constant("past", np.arange(past)[None]), POSITIONS, axis=1
        )
        return self._wide("wide slots", both, 1)

    def _wide(self, name: str, x: str, rows: int) -> str:
        return self.op("Reshape", name, x, self.constant(f"wide {rows}", [1, 1, rows, -1]))

    def put_first(self) -> None:
        """The new nodes before all others, a sum before its first reader."""
        nodes = [*self._nodes, *self._graph.node]
        for given, node in self._late:
            made = next((i for i, n in enumerate(nodes) if given in n.output), len(self._nodes) - 1)
            nodes.insert(made + 1, node)
        del self._graph.node[:]
        self._graph.node.extend(nodes)


def _attribute(node: Any, name: str, default: Any) -> Any:
    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


def _drop_attribute(node: Any, name: str) -> None:
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
