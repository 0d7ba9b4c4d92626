"""Nodes of an ONNX file as text. Runs in the compile process, because the file is untrusted."""

from __future__ import annotations

from pathlib import Path

import onnx

from nnjit_studio.compiler.onnx_file import check

LONGEST = 80
"""Characters of an attribute's value; a constant can hold millions of numbers."""


def attributes_of(path: Path) -> dict[str, dict[str, str]]:
    """Operator and attributes of every node by its name, as text; ``op`` is the operator.

    Raises
    ------
    ModelError
        When the file is no valid model any more.
    """
    return {check.node_name(n): _texts(n) for n in check.load_model(path).graph.node}


def model_text(model: onnx.ModelProto) -> str:
    """A line for each input, output and node of the graph; weights are known by their names."""
    graph = model.graph
    lines = [f"inputs {', '.join(p.name for p in graph.input)}"]
    lines.append(f"outputs {', '.join(p.name for p in graph.output)}")
    for node in graph.node:
        known = _texts(node)
        op = known.pop("op")
        settings = "".join(f" {name}={text}" for name, text in known.items())
        lines.append(f"{', '.join(node.output)} = {op}({', '.join(node.input)}){settings}")
    return "\n".join(lines) + "\n"


def _texts(node: onnx.NodeProto) -> dict[str, str]:
    domain = f"{node.domain}." if node.domain else ""
    return {"op": domain + node.op_type} | {a.name: _text(a) for a in node.attribute}


def _text(attribute: onnx.AttributeProto) -> str:
    kind = onnx.AttributeProto
    if attribute.type == kind.TENSOR:
        dims = "x".join(map(str, attribute.t.dims)) or "scalar"
        return f"tensor {dims} {onnx.TensorProto.DataType.Name(attribute.t.data_type).lower()}"
    if attribute.type in (kind.GRAPH, kind.GRAPHS):
        return f"graph of {len(attribute.g.node)} nodes"
    value = onnx.helper.get_attribute_value(attribute)
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
