"""Small stand-ins of MiniLM for the examples of docs/web.md, with seeded weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TOKENS, WIDTH, WORDS = 128, 8, 50
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "cat", "dog", "sleeps", "barks")


def minilm_like(shape: tuple[int | str, int | str] = (1, TOKENS)) -> onnx.ModelProto:
    """The inputs and the output of MiniLM around one table; token types are zeros."""
    nodes = [
        helper.make_node("Add", ["input_ids", "token_type_ids"], ["ids"]),
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["column"]),
        helper.make_node("Mul", ["rows", "column"], ["masked"]),
        helper.make_node("MatMul", ["masked", "mixed"], ["last_hidden_state"]),
    ]
    ids = [
        helper.make_tensor_value_info(name, TensorProto.INT64, shape)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    out = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, (*shape, WIDTH))
    weights = [
        numpy_helper.from_array(_table(), "table"),
        numpy_helper.from_array(np.array([2], np.int64), "last"),
        numpy_helper.from_array(np.eye(WIDTH, dtype=np.float32), "mixed"),
    ]
    graph = helper.make_graph(nodes, "minilm", ids, [out], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _table() -> np.ndarray:
    return np.random.default_rng(7).standard_normal((WORDS, WIDTH)).astype(np.float32)


def likeness(one: str, other: str) -> float:
    """Cosine of the means of the rows of two texts of the vocabulary, as a pipeline has them."""

    def mean(text: str) -> np.ndarray:
        ids = [VOCABULARY.index(word) for word in ("[CLS]", *text.split(), "[SEP]")]
        row: np.ndarray = _table()[ids].mean(axis=0)
        return row / np.linalg.norm(row)

    return float(mean(one) @ mean(other))


def write_tokenizer(folder: Path) -> None:
    """The files that transformers.js reads next to a model of the family of BERT."""
    special = [
        {
            "id": i, "content": word, "special": True, "normalized": False,
            "single_word": False, "lstrip": False, "rstrip": False,
        }
        for i, word in enumerate(VOCABULARY[:4])
    ]  # fmt: skip
    tokenizer = {
        "version": "1.0",
        "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "BertProcessing",
            "sep": ["[SEP]", 3],
            "cls": ["[CLS]", 2],
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {word: i for i, word in enumerate(VOCABULARY)},
        },
    }
    named = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    files = {
        "config.json": {"model_type": "bert", "hidden_size": WIDTH},
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {"tokenizer_class": "BertTokenizer", "model_max_length": 512}
        | named,
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
