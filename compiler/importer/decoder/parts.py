"""The parts of a decoder that was exported with past keys and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import onnx

from nnjit_studio.errors import ModelError

IDS, MASK, POSITIONS = "input_ids", "attention_mask", "position_ids"
GROUPED = "GroupQueryAttention"
"""ONNX Runtime's operator that joins past and new rows itself."""
_TOKEN_AXIS = 2
EXPORT_AGAIN = (
    "Export the decoder with past keys and values, an attention mask and position ids, "
    "as optimum's text-generation-with-past task does."
)
_POSITIONAL = (
    "Identity",
    "Cast",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Expand",
    "Slice",
    "Where",
    "Add",
    "Sub",
    "Mul",
)
"""Operators that exporters write between the positions and the position table."""


@dataclass(frozen=True)
class Past:
    """One layer's keys or values: ``[1, heads, tokens, width]``."""

    input: str
    output: str
    heads: int
    width: int
    half: bool
    """Whether the file has it in f16."""


@dataclass(frozen=True)
class Decoder:
    """The parts of an exported decoder."""

    pasts: tuple[Past, ...]
    logits: str
    positions: str
    """Name of that input; empty when the model counts the mask's ones."""
    rows: int | None
    """Tokens that a run takes; None where that is open."""
    past: int | None
    """Tokens before those of the run; None where that is open."""
    longest: int | None
    """Rows of the position table; None where there is none."""


def find_decoder(model: onnx.ModelProto) -> Decoder:
    """The inputs and outputs of a decoder with past keys and values, by their role.

    Raises
    ------
    ModelError
        Naming the part that is not there, or that is there in another form.
    """
    graph = model.graph
    weights = {t.name for t in graph.initializer}
    inputs = {i.name: i for i in graph.input if i.name not in weights}
    pasts = (*_pasts(graph, inputs), *_grouped_pasts(graph, inputs))
    if not pasts:
        raise ModelError(
            "The model has no past keys and values: no input is joined with new rows "
            "by a Concat on axis 2, or by GroupQueryAttention, whose result is an output.",
            EXPORT_AGAIN,
        )
    for name, part in ((IDS, "takes no tokens"), (MASK, "hides no empty slots of a cache")):
        if name not in inputs:
            raise ModelError(f"The model has no input {name!r}, so it {part}.", EXPORT_AGAIN)
    known = {IDS, MASK, POSITIONS, *(p.input for p in pasts)}
    for name in inputs.keys() - known:
        raise ModelError(f"The input {name!r} plays no known part in a decoder.", EXPORT_AGAIN)
    placed = POSITIONS in inputs or _turns(graph) or _counts(graph, MASK)
    if not placed:
        raise ModelError(
            f"The model has no input {POSITIONS!r} and does not count its mask: "
            "its positions were fixed when it was exported.",
            EXPORT_AGAIN,
        )
    presents = {p.output for p in pasts}
    others = [o.name for o in graph.output if o.name not in presents]
    if len(others) != 1:
        found = ", ".join(others) or "none"
        raise ModelError(
            f"The model must have one output besides the presents, its logits; found: {found}.",
            EXPORT_AGAIN,
        )
    return Decoder(
        pasts,
        others[0],
        POSITIONS if POSITIONS in inputs else "",
        _size(inputs[IDS], 1),
        _size(inputs[pasts[0].input], _TOKEN_AXIS),
        _table_rows(graph),
    )


def _pasts(graph: Any, inputs: Mapping[str, Any]) -> Iterator[Past]:
    outputs = {o.name for o in graph.output}
    source: dict[str, str] = {}
    readers: dict[str, list[Any]] = {}
    for node in graph.node:
        alone = node.op_type == "Identity" or (node.op_type == "Concat" and len(node.input) == 1)
        if alone:
            source[node.output[0]] = source.get(node.input[0], node.input[0])
        for name in node.input:
            readers.setdefault(name, []).append(node)
    for node in graph.node:
        if node.op_type != "Concat" or len(node.input) != 2 or _axis(node) not in (2, -2):
            continue
        past = source.get(node.input[0], node.input[0])
        after = [n.output[0] for n in readers.get(node.output[0], ()) if n.op_type == "Identity"]
        given = [name for name in (node.output[0], *after) if name in outputs]
        if past not in inputs or not given:
            continue
        heads, width = _size(inputs[past], 1), _size(inputs[past], 3)
        if heads is None or width is None:
            raise ModelError(
                f"The past input {past!r} leaves its heads or their width open.", EXPORT_AGAIN
            )
        yield Past(past, given[0], heads, width, _is_half(inputs[past]))


def _grouped_pasts(graph: Any, inputs: Mapping[str, Any]) -> Iterator[Past]:
    """Keys and values that GroupQueryAttention joins; it says how many heads they have."""
    outputs = {o.name for o in graph.output}
    widths = {i.name: _size(i, 2) for i in graph.value_info}
    tables = {t.name: t.dims for t in graph.initializer}
    for node in graph.node:
        if node.op_type != GROUPED or len(node.input) < 5 or len(node.output) < 3:
            continue
        sizes = {a.name: a.i for a in node.attribute}
        heads, shared = int(sizes["num_heads"]), int(sizes["kv_num_heads"])
        parts = heads if node.input[1] else heads + 2 * shared
        whole = widths.get(node.input[0])
        table = tables.get(node.input[7]) if len(node.input) > 7 else None
        for past, output in zip(node.input[3:5], node.output[1:3], strict=True):
            if past not in inputs or output not in outputs:
                continue
            width = _size(inputs[past], 3) or (whole // parts if whole else None)
            width = width or (2 * int(table[1]) if table else None)
            if width is None:
                raise ModelError(f"The width of the past {past!r} is not known.", EXPORT_AGAIN)
            yield Past(past, output, shared, width, _is_half(inputs[past]))


def _is_half(port: Any) -> bool:
    return bool(port.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16)


def _turns(graph: Any) -> bool:
    """Whether attention turns its queries and keys by positions that it counts itself."""
    return any(
        node.op_type == GROUPED and any(a.name == "do_rotary" and a.i for a in node.attribute)
        for node in graph.node
    )


def _axis(node: Any) -> int:
    return next(int(a.i) for a in node.attribute if a.name == "axis")


def _size(port: Any, axis: int) -> int | None:
    """A dimension of an input; None where it is open."""
    dims = port.type.tensor_type.shape.dim
    if axis >= len(dims) or not dims[axis].HasField("dim_value") or dims[axis].dim_value < 1:
        return None
    return int(dims[axis].dim_value)


def _counts(graph: Any, mask: str) -> bool:
    """Whether positions come from a running sum of the mask."""
    reached = {mask}
    for node in graph.node:
        if any(name in reached for name in node.input):
            if node.op_type == "CumSum":
                return True
            reached.update(node.output)
    return False


def _table_rows(graph: Any) -> int | None:
    """Rows of the table that positions are looked up in."""
    sizes = {t.name: t.dims[0] for t in graph.initializer if len(t.dims) == 2}
    reached = {POSITIONS}
    for node in graph.node:
        if node.op_type == GROUPED and len(node.input) > 7 and node.input[7] in sizes:
            return int(sizes[node.input[7]])
        if node.op_type == "Gather" and node.input[1] in reached and node.input[0] in sizes:
            return int(sizes[node.input[0]])
        moves = node.op_type in _POSITIONAL and any(name in reached for name in node.input)
        if moves or node.op_type == "CumSum":
            reached.update(node.output)
    return None
