"""BERT-base (Devlin et al., 2018: 12 layers of 768) as an ONNX file with seeded weights."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.samples.minilm import write_bert

HIDDEN, INNER, VOCABULARY, LONGEST = 768, 3072, 30522, 512
CONFIG: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "max_position_embeddings": LONGEST,
    "layer_norm_eps": 1e-12,
}
_TABLES = {"word": VOCABULARY, "position": LONGEST, "token_type": 2}


def weight(name: str) -> NDArray[Any]:
    """A weight that follows from its name: normal, 0.02 wide, as BERT's are before training."""
    *_, layer, kind = name.split(".")
    inner = "intermediate" in name
    if kind == "bias":
        return np.zeros(INNER if inner else HIDDEN, np.float32)
    if layer == "LayerNorm":
        return np.ones(HIDDEN, np.float32)
    shape = (INNER if inner else HIDDEN, HIDDEN)
    if layer.endswith("_embeddings"):
        shape = (_TABLES[layer.removesuffix("_embeddings")], HIDDEN)
    elif layer == "dense" and not inner and "attention" not in name:
        shape = (HIDDEN, INNER)
    drawn = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape, np.float32)
    return np.asarray(drawn * np.float32(0.02))


def names() -> Iterator[str]:
    """Of all weights."""
    dense = ("self.query", "self.key", "self.value", "output.dense", "output.LayerNorm")
    layers = [f"attention.{part}" for part in dense]
    layers += ["intermediate.dense", "output.dense", "output.LayerNorm"]
    modules = [*(f"embeddings.{table}_embeddings" for table in _TABLES), "embeddings.LayerNorm"]
    for i in range(CONFIG["num_hidden_layers"]):
        modules += [f"encoder.layer.{i}.{part}" for part in layers]
    return (f"{module}.{kind}" for module in modules for kind in ("weight", "bias"))


def write_bert_base(out: Path) -> Path:
    """Write the encoder for sentences of 1 to 512 tokens."""
    return write_bert(out, "bert-base", CONFIG, {name: weight(name) for name in names()})
