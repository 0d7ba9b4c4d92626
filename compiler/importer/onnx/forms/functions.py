"""Operators that ONNX defines by others, and for which the importer has no converter of its own."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import TypeProto, defs, helper

from nnjit_studio.compiler.importer.onnx.walk import Walk, attribute_of, refuse

NAMES = (
    "Attention", "BlackmanWindow", "CausalConvWithState", "CenterCropPad", "HammingWindow",
    "HannWindow", "LinearAttention", "NegativeLogLikelihoodLoss", "RMSNormalization",
    "SoftmaxCrossEntropyLoss", "SwiGLU", "Swish",
)  # fmt: skip


def laid_out(w: Walk, node: onnx.NodeProto) -> bool:
    """Walk the nodes by which ONNX defines this one.

    Raises
    ------
    UnsupportedOpError
        When ONNX has no definition for these inputs.
    """
    if node.op_type == "RMSNormalization" and not _over_everything(w, node):
        return False
    given = [w.types.get(name, TypeProto()).SerializeToString() for name in node.input]
    schema = defs.get_schema(node.op_type, w.opsets[""], "")
    version = max(v for v in schema.all_function_opset_versions if v <= w.opsets[""])
    body = onnx.FunctionProto()
    try:
        if schema.has_context_dependent_function:
            bare = node.SerializeToString()
            read = schema.get_context_dependent_function_with_opset_version
            body.ParseFromString(read(version, bare, given))
        else:
            body.ParseFromString(schema.get_function_with_opset_version(version))
    except Exception as e:  # what its C++ raises for types that it wants to know
        raise refuse(node, "inputs of known types and ranks") from e
    defaults = {n: a.default_value for n, a in schema.attributes.items() if a.default_value.type}
    graph = _graph_of(body, node, defaults)
    inputs = [*node.input, *[""] * len(graph.input)][: len(graph.input)]
    found = w.inline(graph, inputs)
    w.alias.update((n, f) for n, f in zip(node.output, found, strict=False) if n)
    return True


def _over_everything(w: Walk, node: onnx.NodeProto) -> bool:
    """The form that the converter does not take."""
    shape = w.shape(node.input[0])
    return shape is not None and attribute_of(node, "axis", -1) % len(shape) == 0


def _graph_of(
    body: onnx.FunctionProto, node: onnx.NodeProto, defaults: Mapping[str, onnx.AttributeProto]
) -> onnx.GraphProto:
    """The nodes of a definition, with the attributes of one call."""
    held = {**defaults, **{a.name: a for a in node.attribute}}
    graph = onnx.GraphProto(name=node.name or node.output[0])
    for inner in body.node:
        made = graph.node.add()
        made.CopyFrom(inner)
        del made.attribute[:]
        for a in inner.attribute:
            value = held.get(a.ref_attr_name) if a.ref_attr_name else a
            if value is not None:
                made.attribute.add().CopyFrom(value)
                made.attribute[-1].name = a.name
    graph.input.extend(helper.make_empty_tensor_value_info(n) for n in body.input)
    graph.output.extend(helper.make_empty_tensor_value_info(n) for n in body.output)
    return graph
