"""The LSTMs of the Nimble paper (300 inputs, 512 units, one and two layers) in time per token.

    python benchmarks/paper_models.py --markdown benchmarks/results.md

A bundle for any length, bundles for one length and ONNX Runtime Web run in turns in one page of
Chromium, on texts of the same length.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from any_size import exported, measured, parser_of, place_of, provider_of
from onnx import TensorProto, helper, numpy_helper

from nnjit_studio.bench.report import Report, Table, append

WIDTH, HIDDEN = 300, 512
MODEL = {
    "dim": "tokens",
    "vocabulary": 0,
    "output": "y",
    "inputs": [{"name": "x", "ids": False, "floats": True, "dims": ["tokens", 1, WIDTH]}],
}
COLUMNS = {"any": "any length", "fixed": "one length", "ort": "ORT Web"}


def main(options: argparse.Namespace) -> int:
    documents = {n: layers_measured(n, options) for n in options.layers}
    rows = tuple(row for n, found in documents.items() for row in rows_of(n, found))
    head = ["layers", "tokens", *(f"{c}, us" for c in COLUMNS.values()), "IQR, us"]
    table = Table([*head, "any / one", "ORT / any"], rows)
    most = max(r["difference"] for found in documents.values() for r in found["rows"])
    facts = [
        "LSTM of 300 inputs and 512 units, batch 1, seeded weights, kernels untuned. Time per "
        "token is the median run over its tokens; interquartile ranges are in the order of the "
        "columns. "
        f"Largest difference of an output: {most:.1e}."
    ]
    first = next(iter(documents.values()))
    title = f"LSTM by tokens, {place_of(options)}"
    about = "benchmarks/paper_models.py; contenders in turns in one page, medians."
    report = Report(first, title, about, (table, *facts))
    print(report.text())
    if options.markdown:
        append(options.markdown, report.markdown())
    return 0


def layers_measured(layers: int, options: argparse.Namespace) -> dict[str, Any]:
    """A model of so many layers, at all lengths."""
    folder: Path = options.out / provider_of(options) / str(layers)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "model.onnx").exists():
        onnx.save(lstm(layers), folder / "model.onnx")
    exported(folder, "any", options)
    fixed = {n: exported(folder, f"fixed-{n}", options, f"tokens={n}") for n in options.lengths}
    job = {"model": MODEL, "lengths": options.lengths, "fixed": fixed, "warm": 32, "storm": []}
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


def rows_of(layers: int, document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for row in document["rows"]:
        per = {name: 1000.0 * ms / row["length"] for name, ms in row["ms"].items()}
        spread = [1000.0 * row["iqr_ms"][name] / row["length"] for name in COLUMNS]
        yield (
            str(layers), str(row["length"]), *(f"{per[name]:.1f}" for name in COLUMNS),
            ", ".join(f"{each:.1f}" for each in spread),
            f"{row['over_fixed']:.2f}", f"{row['ort_over_any']:.2f}",
        )  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = parser_of(__doc__, "out/paper-models", 15)
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--lengths", type=int, nargs="+", default=[1, 8, 24, 64])
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main(arguments()))
