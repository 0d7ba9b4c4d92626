"""A two-layer GPT-2 with past keys and values and open sizes, as older exporters wrote it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_models import save

from nnjit_studio.samples.builder import LOWEST, Builder

HEADS, DEPTH, LAYERS, VOCABULARY, POSITIONS = 2, 8, 2, 61, 48


def decoder(
    path: Path,
    positions: bool = True,
    counted: bool = False,
    mask: bool = True,
    join: int = 2,
    depth: int = DEPTH,
) -> Path:
    """Write the model.

    Parameters
    ----------
    positions
        Whether there is an input ``position_ids``.
    counted
        Whether positions without that input come from the mask, not from the past's size.
    mask
        Whether the model has its ``attention_mask``.
    join
        The axis on which past and new rows are joined.
    depth
        Width of a head.
    """
    width = HEADS * depth
    b = Builder()
    ids = _input(b, "input_ids", TensorProto.INT64, "batch", "sequence")
    keys = _input(b, "attention_mask", TensorProto.INT64, "batch", "total") if mask else ""
    first = _past(b, 0, "key", depth)
    past = b.op("Gather", b.op("Shape", first), b.ints(2))
    rows = b.op("Gather", b.op("Shape", ids), b.ints(1))
    total = b.op("Add", past, rows)
    if positions:
        place = _input(b, "position_ids", TensorProto.INT64, "batch", "sequence")
    elif counted:
        count = b.op("Sub", b.op("CumSum", keys, b.ints(1)), b.ints(1))
        place = b.op("Slice", count, past, total, b.ints(1))
    else:
        place = b.op("Range", *(b.op("Squeeze", v) for v in (past, total)), b.constant(1, np.int64))
    triangle = b.constant(np.tri(POSITIONS, dtype=np.bool_)[None, None], np.bool_, "triangle")
    seen = b.op("Slice", triangle, past, total, b.ints(2))
    seen = b.op("Slice", seen, b.ints(0), total, b.ints(3))
    x = b.op(
        "Add",
        b.embedding("wte", ids, VOCABULARY, width),
        b.embedding("wpe", place, POSITIONS, width),
    )
    for layer in range(LAYERS):
        with b.within(f"h.{layer}"):
            qkv = b.linear("attn", b.norm("ln_1", x, width), width, 3 * width)
            parts = b.ops("Split", 3, qkv, axis=2, num_outputs=3)
            q, k, v = (_heads(b, part, depth) for part in parts)
            k, v = (
                b.op("Concat", known or _past(b, layer, kind, depth), new, axis=join)
                for kind, new, known in (("key", k, "" if layer else first), ("value", v, ""))
            )
            scores = b.op("MatMul", q, b.op("Transpose", k, perm=[0, 1, 3, 2]))
            scores = b.op("Div", scores, b.constant(depth**0.5))
            scores = b.op("Where", seen, scores, b.constant(LOWEST))
            if mask:
                hidden = b.op("Sub", b.constant(1.0), b.op("Cast", keys, to=TensorProto.FLOAT))
                hidden = b.op("Mul", b.op("Unsqueeze", hidden, b.ints(1, 2)), b.constant(-1e9))
                scores = b.op("Add", scores, hidden)
            mixed = b.op("MatMul", b.op("Softmax", scores, axis=-1), v)
            flat = b.op("Reshape", b.op("Transpose", mixed, perm=[0, 2, 1, 3]), b.ints(0, 0, width))
            x = b.op("Add", x, b.linear("proj", flat, width, width))
            inner = b.gelu_tanh(b.linear("fc", b.norm("ln_2", x, width), width, 3 * width))
            x = b.op("Add", x, b.linear("out", inner, 3 * width, width))
            for kind, value in (("key", k), ("value", v)):
                name = f"present.{layer}.{kind}"
                _output(b, name, value, "batch", HEADS, "all", depth)
    head = b.op("Transpose", "wte.weight", perm=[1, 0])
    logits = b.op("MatMul", b.norm("ln_f", x, width), head)
    _output(b, "logits", logits, "batch", "sequence", VOCABULARY)
    save(path, b.nodes, b.inputs, b.outputs, list(b.initializers.values()), opset=18)
    return path


def _heads(b: Builder, x: str, depth: int) -> str:
    return b.op("Transpose", b.op("Reshape", x, b.ints(0, 0, HEADS, depth)), perm=[0, 2, 1, 3])


def _past(b: Builder, layer: int, kind: str, depth: int) -> str:
    name = f"past_key_values.{layer}.{kind}"
    return _input(b, name, TensorProto.FLOAT, "batch", HEADS, "past", depth)


def _input(b: Builder, name: str, dtype: int, *dims: int | str) -> str:
    b.inputs.append(helper.make_tensor_value_info(name, dtype, dims))
    return name


def _output(b: Builder, name: str, value: str, *dims: int | str) -> None:
    b.nodes.append(helper.make_node("Identity", [value], [name]))
    b.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))


def merged(path: Path) -> Path:
    """Write the same network as optimum merges its two forms: an If on ``use_cache_branch``."""
    whole = onnx.load(decoder(path))
    graph = whole.graph
    without = onnx.GraphProto()
    without.CopyFrom(graph)
    _forget_past(without)
    branches = []
    for inner, name in ((graph, "with_past"), (without, "no_past")):
        nodes = []
        for node in inner.node:
            mine = onnx.NodeProto()
            mine.CopyFrom(node)
            _rename(mine, f"{name}/", {p.name for p in graph.input} | _weights(graph))
            nodes.append(mine)
        ports = [helper.make_tensor_value_info(f"{name}/{o.name}", 1, None) for o in graph.output]
        branches.append(helper.make_graph(nodes, name, [], ports))
    choose = helper.make_node(
        "If", ["use_cache_branch"], [o.name for o in graph.output], "optimum::if",
        then_branch=branches[0], else_branch=branches[1],
    )  # fmt: skip
    del graph.node[:]
    graph.node.append(choose)
    port = helper.make_tensor_value_info("use_cache_branch", TensorProto.BOOL, [1])
    graph.input.append(port)
    onnx.save(whole, str(path))
    return path


def without_past(model: onnx.ModelProto) -> onnx.ModelProto:
    """The form that reads a prompt, in place: no past goes in."""
    _forget_past(model.graph)
    ports = [p for p in model.graph.input if not p.name.startswith("past_key_values")]
    del model.graph.input[:]
    model.graph.input.extend(ports)
    return model


def _weights(graph: onnx.GraphProto) -> set[str]:
    return {t.name for t in graph.initializer}


def _rename(node: onnx.NodeProto, prefix: str, outer: set[str]) -> None:
    for names in (node.input, node.output):
        names[:] = [n if n in outer or not n else f"{prefix}{n}" for n in names]


def _forget_past(graph: onnx.GraphProto) -> None:
    """The form without a past: its rows are the new ones, their number before is 0."""
    for node in graph.node:
        if node.op_type == "Concat" and node.input[0].startswith("past_key_values"):
            node.op_type = "Identity"
            del node.input[0], node.attribute[:]
        if node.op_type == "Shape" and node.input[0].startswith("past_key_values"):
            node.op_type = "Constant"
            del node.input[:]
            zeros = numpy_helper.from_array(np.zeros(4, np.int64))
            node.attribute.append(helper.make_attribute("value", zeros))
