"""GPT-2: the prefill graph and the decode step with past keys and values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnjit_studio.samples.builder import Builder, causal


@dataclass(frozen=True)
class Gpt2:
    """Sizes of Radford et al., "Language Models are Unsupervised Multitask Learners" (small)."""

    layers: int = 12
    heads: int = 12
    width: int = 768
    vocabulary: int = 50257
    positions: int = 1024


def gpt2(
    b: Builder, c: Gpt2, sequence: int, past: int | None = None, present: bool = False
) -> None:
    """One graph of the network.

    Without ``past``: ``input_ids [1, sequence]`` to ``logits``, and with ``present`` also
    ``present.N.key`` and ``.value``. With it: also ``attention_mask [1, past + sequence]``,
    ``position_ids [1, sequence]`` and ``past_key_values.N.key`` and ``.value``, each
    ``[1, heads, past, depth]``; ``present.N.*`` are those with this step's appended.
    """
    depth, total = c.width // c.heads, (past or 0) + sequence
    ids = b.input("input_ids", 1, sequence, integers=True)
    allowed = b.constant(causal(sequence, total), np.bool_, "causal")
    if past is None:
        positions = b.constant(np.arange(sequence)[None], np.int64, "position_ids")
    else:
        mask = b.input("attention_mask", 1, total, integers=True)
        positions = b.input("position_ids", 1, sequence, integers=True)
        allowed = b.op("And", allowed, b.padding_mask(mask, sequence, total))
    mask = b.additive(allowed)
    words = b.embedding("wte", b.reshape(ids, -1, sequence), c.vocabulary, c.width)
    x = b.op("Add", words, b.embedding("wpe", positions, c.positions, c.width))
    for layer in range(c.layers):
        with b.within(f"h.{layer}"):
            normed = b.norm("ln_1", x, c.width)
            qkv = _conv1d(b, "attn.c_attn", normed, sequence, c.width, 3 * c.width)
            parts = b.ops("Split", 3, qkv, axis=2, num_outputs=3)
            q, k, v = (b.heads(part, sequence, depth) for part in parts)
            if past is not None:
                held = [
                    b.input(f"past_key_values.{layer}.{kind}", 1, c.heads, past, depth)
                    for kind in ("key", "value")
                ]
                k, v = (b.op("Concat", p, n, axis=-2) for p, n in zip(held, (k, v), strict=True))
            mixed = b.attention(q, k, v, c.heads, total, depth, mask)
            flat = b.reshape(b.op("Transpose", mixed, perm=[0, 2, 1, 3]), sequence, c.width)
            x = b.op("Add", _conv1d(b, "attn.c_proj", flat, sequence, c.width, c.width), x)
            inner = _conv1d(
                b, "mlp.c_fc", b.norm("ln_2", x, c.width), sequence, c.width, 4 * c.width
            )
            inner = b.gelu_tanh(inner)
            x = b.op("Add", x, _conv1d(b, "mlp.c_proj", inner, sequence, 4 * c.width, c.width))
            if present or past is not None:
                for kind, value in (("key", k), ("value", v)):
                    b.output(f"present.{layer}.{kind}", value, 1, c.heads, total, depth)
    x = b.reshape(b.norm("ln_f", x, c.width), -1, sequence, c.width)
    head = b.op("Transpose", "wte.weight", perm=[1, 0])
    b.output("logits", b.op("MatMul", x, head), 1, sequence, c.vocabulary)
    b.outputs.insert(0, b.outputs.pop())  # as others have it: logits first


def _conv1d(b: Builder, name: str, x: str, sequence: int, k: int, n: int) -> str:
    """GPT-2's linear layer: a Gemm between two reshapes, its weight as stored."""
    weight, bias = b.weight(f"{name}.weight", k, n, scale=k**-0.5), f"{name}.bias"
    product = b.op("Gemm", b.reshape(x, -1, k), weight, b.weight(bias, n, scale=0.1))
    return b.reshape(product, 1, sequence, n)
