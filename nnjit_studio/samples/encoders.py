"""Encoders: RoBERTa, DistilBERT, ViT and Whisper's; and the layer that BART shares with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnjit_studio.samples.builder import Builder


@dataclass(frozen=True)
class Sizes:
    """What the transformers here differ in."""

    layers: int
    heads: int
    width: int
    inner: int
    vocabulary: int = 0
    positions: int = 0


ROBERTA = Sizes(12, 12, 768, 3072, 50265, 514)
DISTILBERT = Sizes(6, 12, 768, 3072, 30522, 512)
VIT_TINY = Sizes(12, 3, 192, 768)
WHISPER_TINY = Sizes(4, 6, 384, 1536, positions=1500)


def attend(b: Builder, c: Sizes, x: str, source: str, queries: int, keys: int, mask: str) -> str:
    """Multi-head attention with its four linear layers; ``source`` gives keys and values."""
    depth = c.width // c.heads
    q = b.heads(b.linear("query", x, c.width, c.width), queries, depth)
    k = b.heads(b.linear("key", source, c.width, c.width), keys, depth)
    v = b.heads(b.linear("value", source, c.width, c.width), keys, depth)
    mixed = b.joined(b.attention(q, k, v, c.heads, keys, depth, mask), queries, c.width)
    return b.linear("output", mixed, c.width, c.width)


def feed_forward(b: Builder, c: Sizes, x: str) -> str:
    return b.linear("fc2", b.gelu(b.linear("fc1", x, c.width, c.inner)), c.inner, c.width)


def post_norm_layer(b: Builder, c: Sizes, x: str, sequence: int, mask: str) -> str:
    """BERT's layer: each part, then the residual, then the norm."""
    with b.within("attention"):
        mixed = attend(b, c, x, x, sequence, sequence, mask)
    x = b.norm("attention_norm", b.op("Add", mixed, x), c.width)
    return b.norm("output_norm", b.op("Add", feed_forward(b, c, x), x), c.width)


def _encode(b: Builder, c: Sizes, x: str, mask: str, sequence: int) -> None:
    """All layers of BERT, to ``last_hidden_state``."""
    added = b.additive(b.padding_mask(mask, sequence, sequence))
    for layer in range(c.layers):
        with b.within(f"layer.{layer}"):
            x = post_norm_layer(b, c, x, sequence, added)
    b.output("last_hidden_state", x, 1, sequence, c.width)


def roberta(b: Builder, c: Sizes, sequence: int) -> None:
    """``input_ids`` and ``attention_mask [1, sequence]`` to ``last_hidden_state``."""
    from onnx import TensorProto

    ids = b.input("input_ids", 1, sequence, integers=True)
    mask = b.input("attention_mask", 1, sequence, integers=True)
    one = b.constant(1, np.int64)
    # Positions count the tokens that are not padding, which has the id 1.
    token = b.op("Cast", b.op("Not", b.op("Equal", ids, one)), to=TensorProto.INT32)
    wide = b.op("Cast", token, to=TensorProto.INT64)
    count = b.op("Cast", b.op("CumSum", wide, one), to=TensorProto.INT32)
    count = b.op("Cast", b.op("Mul", count, token), to=TensorProto.INT64)
    positions = b.op("Add", count, one)
    buffered = b.constant(np.zeros((1, c.positions)), np.int64, "token_type_ids")
    types = b.op("GatherElements", buffered, positions, axis=1)
    with b.within("embeddings"):
        words = b.embedding("word", ids, c.vocabulary, c.width)
        x = b.op("Add", words, b.embedding("token_type", types, 1, c.width))
        x = b.op("Add", x, b.embedding("position", positions, c.positions, c.width))
        x = b.norm("norm", x, c.width)
    _encode(b, c, x, mask, sequence)


def distilbert(b: Builder, c: Sizes, sequence: int) -> None:
    """``input_ids`` and ``attention_mask [1, sequence]`` to ``last_hidden_state``."""
    ids = b.input("input_ids", 1, sequence, integers=True)
    mask = b.input("attention_mask", 1, sequence, integers=True)
    positions = b.constant(np.arange(sequence)[None], np.int64, "position_ids")
    with b.within("embeddings"):
        words = b.embedding("word", ids, c.vocabulary, c.width)
        places = b.embedding("position", positions, c.positions, c.width)
        x = b.norm("norm", b.op("Add", words, places), c.width)
    _encode(b, c, x, mask, sequence)


def vit(b: Builder, c: Sizes, image: int, patch: int, classes: int) -> None:
    """``pixel_values [1, 3, image, image]`` to ``logits [1, classes]``."""
    pixels = b.input("pixel_values", 1, 3, image, image)
    count = (image // patch) ** 2
    kernel = b.weight("patch.weight", c.width, 3, patch, patch, scale=(3 * patch**2) ** -0.5)
    bias = b.weight("patch.bias", c.width, scale=0.1)
    x = b.op("Conv", pixels, kernel, bias, kernel_shape=[patch] * 2, strides=[patch] * 2)
    x = b.op("Transpose", b.reshape(x, 1, c.width, count), perm=[0, 2, 1])
    x = b.op("Concat", b.weight("class_token", 1, 1, c.width, scale=1.0), x, axis=1)
    x = b.op("Add", x, b.weight("positions", 1, count + 1, c.width, scale=0.1))
    # No mask, and yet the exporter adds zeros and guards the softmax.
    zeros = b.constant(np.zeros((1, 1, count + 1, count + 1)), np.float32, "no_mask")
    for layer in range(c.layers):
        with b.within(f"layer.{layer}"):
            x = pre_norm_layer(b, c, x, count + 1, zeros)
    x = b.norm("norm", x, c.width)
    first = b.op("Gather", x, b.constant(0, np.int64), axis=1)
    b.output("logits", b.gemm("classifier", first, c.width, classes), 1, classes)


def pre_norm_layer(b: Builder, c: Sizes, x: str, sequence: int, mask: str) -> str:
    """ViT's layer: the norm, then each part, then the residual."""
    normed = b.norm("norm_before", x, c.width)
    with b.within("attention"):
        mixed = attend(b, c, normed, normed, sequence, sequence, mask)
    x = b.op("Add", mixed, x)
    return b.op("Add", feed_forward(b, c, b.norm("norm_after", x, c.width)), x)


def whisper_encoder(b: Builder, c: Sizes, bands: int) -> None:
    """``input_features [1, bands, 2 * positions]`` to ``last_hidden_state``."""
    frames, depth = c.positions, c.width // c.heads
    x = b.input("input_features", 1, bands, 2 * frames)
    for name, channels, stride in (("conv1", bands, 1), ("conv2", c.width, 2)):
        kernel = b.weight(f"{name}.weight", c.width, channels, 3, scale=(3 * channels) ** -0.5)
        bias = b.weight(f"{name}.bias", c.width, scale=0.1)
        options = {"kernel_shape": [3], "strides": [stride], "pads": [1, 1]}
        x = b.gelu(b.op("Conv", x, kernel, bias, **options))
    x = b.op("Transpose", x, perm=[0, 2, 1])
    x = b.op("Add", x, b.weight("positions", frames, c.width, scale=0.1))
    for layer in range(c.layers):
        with b.within(f"layers.{layer}"):
            normed = b.norm("attention_norm", x, c.width)
            q = b.op("Mul", b.linear("q", normed, c.width, c.width), b.constant(depth**-0.5))
            k = b.linear("k", normed, c.width, c.width, bias=False)
            v = b.linear("v", normed, c.width, c.width)
            q, k, v = (b.heads(part, frames, depth) for part in (q, k, v))
            mixed = b.attention(q, k, v, c.heads, frames, depth, scaled=False)
            flat = b.joined(mixed, frames, c.width)
            x = b.op("Add", x, b.linear("out", flat, c.width, c.width))
            x = b.op("Add", x, feed_forward(b, c, b.norm("final_norm", x, c.width)))
    b.output("last_hidden_state", b.norm("norm", x, c.width), 1, frames, c.width)
