"""BART and T5: encoder and decoder as one graph, without a cache."""

from __future__ import annotations

import numpy as np

from nnjit_studio.samples.builder import LOWEST, Array, Builder, causal
from nnjit_studio.samples.encoders import Sizes, attend, feed_forward, post_norm_layer

BART = Sizes(6, 12, 768, 3072, 50265, 1026)
T5_SMALL = Sizes(6, 8, 512, 2048, 32128)
_BUCKETS, _FARTHEST = 32, 128


def bart(b: Builder, c: Sizes, sequence: int) -> None:
    """``input_ids``, ``attention_mask``, ``decoder_input_ids`` to ``last_hidden_state``."""
    ids = b.input("input_ids", 1, sequence, integers=True)
    mask = b.input("attention_mask", 1, sequence, integers=True)
    decoder_ids = b.input("decoder_input_ids", 1, sequence, integers=True)
    # The first two rows of BART's positions are never used.
    positions = b.constant(np.arange(2, sequence + 2)[None], np.int64, "position_ids")

    def embedded(tokens: str) -> str:
        words = b.op("Gather", b.weight("/shared.weight", c.vocabulary, c.width, scale=0.1), tokens)
        places = b.embedding("positions", positions, c.positions, c.width)
        return b.norm("embedding_norm", b.op("Add", words, places), c.width)

    padding = b.additive(b.padding_mask(mask, sequence, sequence))
    future = b.additive(b.constant(causal(sequence, sequence), np.bool_, "causal"))
    with b.within("encoder"):
        memory = embedded(ids)
        for layer in range(c.layers):
            with b.within(f"layers.{layer}"):
                memory = post_norm_layer(b, c, memory, sequence, padding)
    with b.within("decoder"):
        x = embedded(decoder_ids)
        for layer in range(c.layers):
            with b.within(f"layers.{layer}"):
                for name, source, allowed in (("self", "", future), ("cross", memory, padding)):
                    with b.within(name):
                        mixed = attend(b, c, x, source or x, sequence, sequence, allowed)
                        x = b.norm("norm", b.op("Add", x, mixed), c.width)
                x = b.norm("final_norm", b.op("Add", x, feed_forward(b, c, x)), c.width)
    b.output("last_hidden_state", x, 1, sequence, c.width)


def t5(b: Builder, c: Sizes, sequence: int) -> None:
    """``input_ids``, ``attention_mask``, ``decoder_input_ids`` to ``logits``."""
    ids = b.input("input_ids", 1, sequence, integers=True)
    mask = b.input("attention_mask", 1, sequence, integers=True)
    decoder_ids = b.input("decoder_input_ids", 1, sequence, integers=True)
    shared = b.weight("shared.weight", c.vocabulary, c.width, scale=1.0)
    padding = b.padding_mask(mask, sequence, sequence)
    future = b.constant(causal(sequence, sequence), np.bool_, "causal")
    with b.within("encoder"):
        memory = _t5_stack(b, c, b.op("Gather", shared, ids), sequence, padding, "", "")
    cross = b.additive(padding)
    with b.within("decoder"):
        x = _t5_stack(b, c, b.op("Gather", shared, decoder_ids), sequence, future, memory, cross)
    # The head is the embedding, transposed and scaled.
    x = b.op("Mul", x, b.constant(c.width**-0.5))
    head = b.op("Transpose", shared, perm=[1, 0])
    b.output("logits", b.op("MatMul", x, head), 1, sequence, c.vocabulary)


def _t5_stack(
    b: Builder, c: Sizes, x: str, sequence: int, allowed: str, memory: str, cross: str
) -> str:
    buckets = b.constant(_buckets(sequence, not memory), np.int64, f"{b.scope}buckets")
    bias = b.op("Gather", b.weight("relative_bias.weight", _BUCKETS, c.heads, scale=1.0), buckets)
    bias = b.op("Unsqueeze", b.op("Transpose", bias, perm=[2, 0, 1]), b.ints(0))
    bias = b.op("Where", allowed, bias, b.constant(LOWEST))
    for layer in range(c.layers):
        with b.within(f"block.{layer}"):
            parts = [("self", "", bias)] + ([("cross", memory, cross)] if memory else [])
            for name, source, mask in parts:
                with b.within(name):
                    normed = _rms_norm(b, x, c.width)
                    mixed = _t5_attend(b, c, normed, source or normed, sequence, mask)
                    x = b.op("Add", x, mixed)
            inner = b.linear("wi", _rms_norm(b, x, c.width), c.width, c.inner, bias=False)
            x = b.op("Add", x, b.linear("wo", b.op("Relu", inner), c.inner, c.width, bias=False))
    return _rms_norm(b, x, c.width)


def _t5_attend(b: Builder, c: Sizes, x: str, source: str, sequence: int, mask: str) -> str:
    """T5 has no factor on the scores: its initial Q is smaller by the root of the depth."""
    depth = c.width // c.heads
    weight = b.weight("q.weight", c.width, c.width, scale=(c.width * depth) ** -0.5)
    k, v = (b.linear(name, source, c.width, c.width, bias=False) for name in "kv")
    q, k, v = (b.heads(part, sequence, depth) for part in (b.op("MatMul", x, weight), k, v))
    mixed = b.attention(q, k, v, c.heads, sequence, depth, mask, scaled=False)
    return b.linear("o", b.joined(mixed, sequence, c.width), c.width, c.width, bias=False)


def _rms_norm(b: Builder, x: str, width: int) -> str:
    square = b.op("Pow", x, b.constant(2.0))
    mean = b.op("ReduceMean", square, b.ints(-1), keepdims=1)
    root = b.op("Sqrt", b.op("Add", mean, b.constant(1e-6)))
    normed = b.op("Mul", x, b.op("Reciprocal", root))
    weight = b.weight(f"norm_{len(b.nodes)}.weight", width, scale=0.1, mean=1.0)
    return b.op("Mul", weight, normed)


def _buckets(sequence: int, both_ways: bool) -> Array:
    """Bucket of each relative position: Raffel et al., T5 (2020), section 2.1.

    Half of the buckets hold exact distances, the others grow logarithmically up to 128.
    """
    distance = np.arange(sequence)[None, :] - np.arange(sequence)[:, None]
    count = _BUCKETS // 2 if both_ways else _BUCKETS
    base = np.where(distance > 0, count, 0) if both_ways else 0
    distance = np.abs(distance) if both_ways else np.maximum(-distance, 0)
    exact = count // 2
    steps = np.log(np.maximum(distance, 1) / exact) / np.log(_FARTHEST / exact)
    far = np.minimum(exact + (steps * (count - exact)).astype(np.int64), count - 1)
    return np.asarray(base + np.where(distance < exact, distance, far))
