"""A two-layer GPT-2 with past keys and values and open sizes, as older exporters wrote it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

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
    graph = helper.make_graph(b.nodes, "gpt", b.inputs, b.outputs, list(b.initializers.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, str(path))
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
