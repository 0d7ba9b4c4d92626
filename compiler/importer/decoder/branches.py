"""Decoders of two forms in one file, or in two: with a past, and without one.

optimum's merged decoders choose by an input, ``use_cache_branch``, between two graphs in one If.
Which of them a plan needs is known when it is imported.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from nnjit_studio.errors import ModelError

CHOICE = "use_cache_branch"
_WITH_PAST, _WITHOUT = "decoder_with_past_model", "decoder_model"


def has_branches(model: onnx.ModelProto) -> bool:
    return any(port.name == CHOICE for port in model.graph.input)


def take_branch(model: onnx.ModelProto, past: bool) -> None:
    """Leave the graph with a past, or the one without, in place; other models stay as they are.

    Raises
    ------
    ModelError
        When the input is read by anything but an If of the whole model.
    """
    if not has_branches(model):
        return
    graph: Any = model.graph
    nodes = []
    for node in graph.node:
        if CHOICE not in node.input:
            nodes.append(node)
        elif node.op_type != "If":
            raise ModelError(
                f"The input {CHOICE!r} is read by more than an If: {node.op_type}.",
                "Export the decoder with past keys and values as a file of its own.",
            )
        else:
            nodes += _laid_out(graph, node, "then_branch" if past else "else_branch")
    ports = [port for port in graph.input if port.name != CHOICE]
    del graph.node[:], graph.input[:]
    graph.node.extend(nodes)
    graph.input.extend(ports)


def _laid_out(graph: Any, node: Any, branch: str) -> list[Any]:
    """The nodes of a branch; its weights and types become those of the graph around it.

    Names are unique across both, as ONNX wants them, but for the results.
    """
    inner: Any = next(a.g for a in node.attribute if a.name == branch)
    known = {t.name for t in graph.initializer}
    graph.initializer.extend(t for t in inner.initializer if t.name not in known)
    graph.value_info.extend(inner.value_info)
    made = {name for n in inner.node for name in n.output}
    ends = []
    renamed = {}
    for port, name in zip(inner.output, node.output, strict=True):
        if port.name in made and port.name not in renamed:
            renamed[port.name] = name or port.name
        elif name:
            ends.append(helper.make_node("Identity", [port.name], [name], f"{name}//branch"))
    for mine in inner.node:
        for names in (mine.input, mine.output):
            names[:] = [renamed.get(n, n) for n in names]
    return [*inner.node, *ends]


def prefill_beside(path: Path) -> Path | None:
    """The file of the form without a past, where optimum wrote one next to that with it."""
    if not path.stem.startswith(_WITH_PAST):
        return None
    other = path.with_name(path.name.replace(_WITH_PAST, _WITHOUT, 1))
    return other if other.is_file() else None
