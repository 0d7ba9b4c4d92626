"""A two-layer decoder with the operators and names of onnxruntime-genai's model builder.

Equal in form to what `python -m onnxruntime_genai.models.builder -p fp32 -e cpu` (or, with `bits`,
`-p int4 -e webgpu`) writes of a seeded transformers config, but small. As a program it writes one
in 4 bits with f16 scales, of any sizes::

    python tests/compiler/grouped_models.py model.onnx --layers 8    # in the sizes of Llama 2 7B
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HEADS, SHARED, DEPTH, LAYERS, VOCABULARY, POSITIONS, BLOCK = 4, 2, 16, 2, 96, 128, 32
WIDTH = HEADS * DEPTH


@dataclass(frozen=True)
class Sizes:
    """``heads`` of queries, ``shared`` ones of keys and values, each ``depth`` wide."""

    heads: int = HEADS
    shared: int = SHARED
    depth: int = DEPTH
    hidden: int = 2 * WIDTH
    layers: int = LAYERS
    vocabulary: int = VOCABULARY
    positions: int = POSITIONS

    @property
    def width(self) -> int:
        return self.heads * self.depth

    @property
    def qkv(self) -> int:
        return (self.heads + 2 * self.shared) * self.depth

    @property
    def gain(self) -> float:
        """Of weights, so that wide sums are no larger than those of the small model."""
        return float((WIDTH / self.width) ** 0.5)


SMALL = Sizes()
_LARGEST = 1 << 30
"""Bytes of weights that a file without a second one holds; protobuf ends at twice as many."""
LLAMA_7B = Sizes(32, 32, 128, 11008, 32, 32000, 4096)


class _Graph:
    def __init__(self, bits: int, half: bool, sizes: Sizes) -> None:
        self.sizes = sizes
        self.bits = bits
        self.half = half
        self.float = TensorProto.FLOAT16 if half else TensorProto.FLOAT
        self.numpy = np.float16 if half else np.float32
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.values: list[Any] = []
        self.random = np.random.default_rng(3)

    def weight(self, name: str, array: Any) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(self, op: str, name: str, inputs: list[str], outputs: int = 1, **given: Any) -> str:
        outs = [f"{name}/output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, outs, name, **given))
        return outs[0]

    def contrib(self, op: str, name: str, inputs: list[str], **given: Any) -> str:
        return self.op(op, name, inputs, domain="com.microsoft", **given)

    def codes(self, name: str, n: int, k: int) -> tuple[str, str]:
        """4-bit weights (n, k / 32, 16) around 8, and their scales (n * k / 32)."""
        drawn = self.random.integers(0, 256, (n, k // BLOCK, BLOCK // 2), np.uint8)
        scales = self.random.uniform(0.03, 0.06, n * k // BLOCK) * self.sizes.gain
        scales = scales.astype(self.numpy)
        return self.weight(f"{name}_Q4", drawn), self.weight(f"{name}_scales", scales)

    def linear(self, name: str, x: str, k: int, n: int) -> str:
        if self.bits == 0:
            drawn = self.random.normal(0, 1.6 / k**0.5, (k, n)).astype(self.numpy)
            return self.op("MatMul", f"/{name}/MatMul", [x, self.weight(f"{name}.weight", drawn)])
        return self.packed(name, x, k, n, *self.codes(f"{name}.weight", n, k))

    def packed(self, name: str, x: str, k: int, n: int, codes: str, scales: str) -> str:
        sizes: dict[str, Any] = {"K": k, "N": n, "bits": 4, "block_size": BLOCK}
        level = {} if self.half else {"accuracy_level": 4}
        return self.contrib("MatMulNBits", f"/{name}/MatMul", [x, codes, scales], **sizes, **level)

    def norm(self, name: str) -> str:
        return self.weight(
            f"{name}.weight", self.random.uniform(0.8, 1.2, self.sizes.width).astype(self.numpy)
        )


def grouped(
    path: Path,
    bits: int = 0,
    half: bool = False,
    window: int = -1,
    rotary: int = 1,
    sizes: Sizes = SMALL,
) -> Path:
    """Write the model.

    Parameters
    ----------
    bits
        4 for weights in 4 bits and a common table of words and logits; 0 for floats.
    half
        Whether numbers are f16.
    window
        How many keys a query sees; -1 for all before it.
    rotary
        Whether attention turns queries and keys.
    """
    g, s = _Graph(bits, half, sizes), sizes
    one = g.weight("one", np.array([1], np.int64))
    count = g.op("ReduceSum", "/mask/ReduceSum", ["attention_mask", one], keepdims=0)
    lengths = g.op("Cast", "/mask/Lengths", [g.op("Sub", "/mask/Sub", [count, one])], to=6)
    shape = g.op("Shape", "/mask/Shape", ["attention_mask"])
    index = g.weight("index", np.array(1, np.int64))
    total = g.op("Cast", "/mask/Total", [g.op("Gather", "/mask/Gather", [shape, index])], to=6)
    x, head = _words(g)
    angles = np.arange(s.positions)[:, None] * 10000.0 ** (
        -np.arange(s.depth // 2) / (s.depth // 2)
    )
    tables = [g.weight(n, f(angles).astype(g.numpy)) for n, f in (("cos", np.cos), ("sin", np.sin))]
    normed = g.op(
        "SimplifiedLayerNormalization", "/norm", [x, g.norm("norm")], epsilon=1e-6, axis=-1
    )
    for layer in range(s.layers):
        qkv = g.linear(f"layers.{layer}/qkv", normed, s.width, s.qkv)
        g.values.append(helper.make_tensor_value_info(qkv, g.float, ["batch", "sequence", s.qkv]))
        name = f"/layers.{layer}/GroupQueryAttention"
        pasts = [f"past_key_values.{layer}.{kind}" for kind in ("key", "value")]
        outs = [f"{name}/output_0", *(f"present.{layer}.{kind}" for kind in ("key", "value"))]
        inputs = [qkv, "", "", *pasts, lengths, total, *(tables if rotary else ["", ""])]
        g.nodes.append(
            helper.make_node(
                "GroupQueryAttention", inputs, outs, name, domain="com.microsoft",
                num_heads=s.heads, kv_num_heads=s.shared, scale=s.depth**-0.5, do_rotary=rotary,
                local_window_size=window,
            )
        )  # fmt: skip
        x, normed = _skip(
            g, f"layers.{layer}/a", x, g.linear(f"layers.{layer}/o", outs[0], s.width, s.width)
        )
        gate = g.linear(f"layers.{layer}/gate", normed, s.width, s.hidden)
        up = g.linear(f"layers.{layer}/up", normed, s.width, s.hidden)
        silu = g.op("Mul", f"/l{layer}/silu", [gate, g.op("Sigmoid", f"/l{layer}/sigmoid", [gate])])
        inner = g.op("Mul", f"/l{layer}/gated", [silu, up])
        x, normed = _skip(
            g, f"layers.{layer}/b", x, g.linear(f"layers.{layer}/down", inner, s.hidden, s.width)
        )
    if bits:
        logits = g.packed("lm_head", normed, s.width, s.vocabulary, *head)
    else:
        logits = g.op("MatMul", "/lm_head/MatMul", [normed, head[0]])
    g.nodes[-1].output[0] = "logits"
    assert logits
    _save(g, path)
    return path


def _words(g: _Graph) -> tuple[str, tuple[str, ...]]:
    """The words' rows, and the weights of the product that gives the logits."""
    s = g.sizes
    if g.bits:
        codes, scales = g.codes("lm_head.MatMul.weight", s.vocabulary, s.width)
        rows = g.weight("rows", np.array([s.vocabulary, s.width // 2], np.int64))
        table = g.op("Reshape", "/embed/Reshape", [codes, rows])
        g.weights[-2].dims[:] = [s.vocabulary, s.width // BLOCK]
        return g.contrib(
            "GatherBlockQuantized", "/embed", [table, "input_ids", scales],
            bits=4, block_size=BLOCK, gather_axis=0, quantize_axis=1,
        ), (codes, scales)  # fmt: skip
    drawn = g.random.normal(0, 0.5, (s.width, s.vocabulary)).astype(g.numpy)
    head = g.weight("lm_head.MatMul.weight", drawn)
    table = g.op("Transpose", "/embed/Transpose", [head], perm=[1, 0])
    return g.op("Gather", "/embed/Gather", [table, "input_ids"]), (head,)


def _skip(g: _Graph, name: str, x: str, y: str) -> tuple[str, str]:
    """The sum of both, and that normalised."""
    normed, whole = f"/{name}/output_0", f"/{name}/output_3"
    g.nodes.append(
        helper.make_node(
            "SkipSimplifiedLayerNormalization", [x, y, g.norm(name)], [normed, "", "", whole],
            f"/{name}", domain="com.microsoft", epsilon=1e-6,
        )
    )  # fmt: skip
    return whole, normed


def _save(g: _Graph, path: Path) -> None:
    def port(name: str, dtype: int, *dims: int | str) -> Any:
        return helper.make_tensor_value_info(name, dtype, dims)

    s = g.sizes
    inputs = [
        port("input_ids", TensorProto.INT64, "batch_size", "sequence_length"),
        port("attention_mask", TensorProto.INT64, "batch_size", "total_sequence_length"),
    ]
    outputs = [port("logits", g.float, "batch_size", "sequence_length", s.vocabulary)]
    for kind in ("key", "value"):
        for layer in range(s.layers):
            tail = (s.shared, "past_sequence_length", "kv_cache_dim")
            inputs.append(port(f"past_key_values.{layer}.{kind}", g.float, "batch_size", *tail))
            tail = (s.shared, "total_sequence_length", "kv_cache_dim")
            outputs.append(port(f"present.{layer}.{kind}", g.float, "batch_size", *tail))
    graph = helper.make_graph(g.nodes, "main_graph", inputs, outputs, g.weights)
    graph.value_info.extend(g.values)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    apart = sum(t.ByteSize() for t in g.weights) > _LARGEST
    onnx.save(model, str(path), save_as_external_data=apart, location=f"{path.name}.data")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a decoder in 4 bits with f16 scales.")
    parser.add_argument("path", type=Path)
    for field in fields(Sizes):
        parser.add_argument(f"--{field.name}", type=int, default=getattr(LLAMA_7B, field.name))
    given = vars(parser.parse_args())
    grouped(given.pop("path"), 4, True, sizes=Sizes(**given))
