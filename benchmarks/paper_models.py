"""The Nimble paper's three models in time per token: LSTMs, a Tree-LSTM, BERT-base.

    python benchmarks/paper_models.py --markdown benchmarks/results.md

A bundle for any length, bundles for one length and ONNX Runtime Web run in turns in one page of
Chromium, on inputs of the same length.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from any_size import MODEL as ENCODER
from any_size import exported, measured, parser_of, place_of, provider_of
from bert_base import VOCABULARY, write_bert_base
from onnx import TensorProto, helper, numpy_helper
from tree_lstm import tree_lstm

from nnjit_studio.bench.report import Report, Table, append

WIDTH, HIDDEN = 300, 512
_ROWS = {"name": "x", "ids": False, "floats": True}
_SEQUENCE = {
    "dim": "tokens", "vocabulary": 0, "output": "y",
    "inputs": [{**_ROWS, "dims": ["tokens", 1, WIDTH]}],
}  # fmt: skip
_TREE = {
    "dim": "nodes", "vocabulary": 0, "output": "y",
    "inputs": [
        {**_ROWS, "dims": ["nodes", WIDTH]},
        {"name": "tree", "ids": False, "tree": True, "dims": ["nodes", 2]},
    ],
}  # fmt: skip
COLUMNS = {"any": "any length", "fixed": "one length", "ort": "ORT Web"}


@dataclass(frozen=True)
class Paper:
    """A model of the paper, and the sizes that it is measured at."""

    about: str
    model: Mapping[str, Any]
    """What the page has to know of its inputs."""
    write: Callable[[Path], Any]
    lengths: Sequence[int]
    """By default: tokens of a text, or nodes of a tree."""
    leaves: bool = False
    """Whether a token is a leaf of a binary tree of so many nodes."""

    def tokens(self, length: int) -> int:
        return (length + 1) // 2 if self.leaves else length


def _lstm(layers: int) -> Paper:
    about = f"LSTM of 300 inputs and 512 units, {layers} layer{'s' * (layers > 1)}"
    return Paper(about, _SEQUENCE, lambda path: onnx.save(lstm(layers), path), (1, 8, 24, 64))


PAPER = {
    "lstm-1": _lstm(1),
    "lstm-2": _lstm(2),
    "tree-lstm": Paper(
        "child-sum Tree-LSTM of 300 inputs and 150 units over binary trees",
        _TREE, lambda path: onnx.save(tree_lstm(), path), (1, 15, 39), leaves=True,
    ),
    "bert-base": Paper(
        "BERT-base", {**ENCODER, "vocabulary": VOCABULARY}, write_bert_base, (8, 24, 53, 128)
    ),
}  # fmt: skip


def main(options: argparse.Namespace) -> int:
    documents = {name: at_lengths(name, options) for name in options.models}
    rows = tuple(row for name, found in documents.items() for row in rows_of(name, found))
    head = ["model", "tokens", *(f"{c}, us" for c in COLUMNS.values()), "IQR, us"]
    table = Table([*head, "any / one", "ORT / any"], rows)
    most = max(r["difference"] for found in documents.values() for r in found["rows"])
    about = "; ".join(f"{name} is {PAPER[name].about}" for name in options.models)
    facts = [
        f"Batch 1, seeded weights, kernels untuned. {about}. Time per token is the median run over "
        "its tokens (leaves of a tree); interquartile ranges are in the order of the columns. "
        f"Largest difference of an output: {most:.1e}."
    ]
    first = next(iter(documents.values()))
    title = f"The Nimble paper's models by tokens, {place_of(options)}"
    report = Report(
        first, title, "benchmarks/paper_models.py; contenders in turns in one page, medians.",
        (table, *facts),
    )  # fmt: skip
    print(report.text())
    if options.markdown:
        append(options.markdown, report.markdown())
    return 0


def at_lengths(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """A model at all lengths."""
    paper = PAPER[name]
    lengths = options.lengths or list(paper.lengths)
    folder: Path = options.out / provider_of(options) / name
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "model.onnx").exists():
        paper.write(folder / "model.onnx")
    exported(folder, "any", options)
    dim = paper.model["dim"]
    fixed = {n: exported(folder, f"fixed-{n}", options, f"{dim}={n}") for n in lengths}
    # A tree's count of nodes is odd.
    warm = 31 if paper.leaves else 32
    job = {"model": paper.model, "lengths": lengths, "fixed": fixed, "warm": warm, "storm": []}
    return measured(folder, job, options)


def lstm(layers: int) -> onnx.ModelProto:
    """Layers of one direction, one behind the other, over texts of any length."""
    rng, nodes, current = np.random.default_rng(0), [], "x"
    weights = [numpy_helper.from_array(np.array([1], np.int64), "direction")]
    for layer in range(layers):
        out = "y" if layer == layers - 1 else f"y{layer}"
        width = HIDDEN if layer else WIDTH
        shapes = {"w": (1, 4 * HIDDEN, width), "r": (1, 4 * HIDDEN, HIDDEN), "b": (1, 8 * HIDDEN)}
        for name, shape in shapes.items():
            drawn = rng.uniform(-0.05, 0.05, shape).astype(np.float32)
            weights.append(numpy_helper.from_array(drawn, f"{name}{layer}"))
        names = [current, *(f"{name}{layer}" for name in shapes)]
        nodes.append(helper.make_node("LSTM", names, [f"all{layer}"], hidden_size=HIDDEN))
        nodes.append(helper.make_node("Squeeze", [f"all{layer}", "direction"], [out]))
        current = out
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["tokens", 1, size])
        for name, size in (("x", WIDTH), ("y", HIDDEN))
    ]
    graph = helper.make_graph(nodes, "lstm", ports[:1], ports[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def rows_of(name: str, document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for row in document["rows"]:
        tokens = PAPER[name].tokens(row["length"])
        per = {who: 1000.0 * ms / tokens for who, ms in row["ms"].items()}
        spread = [1000.0 * row["iqr_ms"][who] / tokens for who in COLUMNS]
        yield (
            name, str(tokens), *(f"{per[who]:.1f}" for who in COLUMNS),
            ", ".join(f"{each:.1f}" for each in spread),
            f"{row['over_fixed']:.2f}", f"{row['ort_over_any']:.2f}",
        )  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = parser_of(__doc__, "out/paper-models", 15)
    parser.add_argument("--models", nargs="+", choices=[*PAPER], default=[*PAPER])
    parser.add_argument("--lengths", type=int, nargs="+", help="in place of each model's own")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main(arguments()))
