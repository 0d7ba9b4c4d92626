"""Products of bytes, ours beside LiteRT.js and ONNX Runtime Web.

    python benchmarks/models/int8_products.py FOLDER [--threads 1] [--markdown FILE]

The shapes of `nnjit bench kernels` that have weights. Each is written twice, as an .onnx and as a
.tflite file: a float32 input is quantised to 8 bits, multiplied by 8-bit weights with a scale for
each column, rounded to 8 bits and given back in float32. `nnjit bench models --peers ort,litert`
runs them in turns in one page, tuned.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from nnjit_studio.bench.peers.tflite_models import Graph, Steps

SHAPES = {
    "K0": (384, 768, 768),
    "K1": (640, 768, 3072),
    "row": (1, 768, 3072),
    "odd1": (197, 197, 77),
    "odd3": (1, 1000, 1000),
    "ffn": (128, 384, 1536),
}
SEED = 3


@dataclass(frozen=True)
class Product:
    """``m`` x ``k`` times ``k`` x ``n``; zero points of activations are those of int8."""

    m: int
    k: int
    n: int
    weights: NDArray[np.int8]
    columns: NDArray[np.float32]
    """The scale of each column of the weights."""
    given: Steps
    made: Steps


def product(m: int, k: int, n: int) -> Product:
    """Seeded weights, and steps that inputs from -1 to 1 and their products about fill."""
    rng = np.random.default_rng(SEED)
    weights = rng.integers(-127, 128, (k, n)).astype(np.int8)
    columns = rng.uniform(0.5, 1.5, n).astype(np.float32) / 127
    made = np.array([4 * np.sqrt(k) / 3 / 127], np.float32)
    given = np.array([1 / 127], np.float32)
    return Product(m, k, n, weights, columns, Steps(given, 3), Steps(made, -5))


def write_onnx(p: Product, path: Path) -> None:
    """Pairs of QuantizeLinear and DequantizeLinear, as quantisers write them."""
    held = {
        "w": p.weights,
        "ws": p.columns,
        "wz": np.zeros(p.n, np.int8),
        "xs": p.given.scales[0],
        "xz": np.int8(p.given.zero),
        "ys": p.made.scales[0],
        "yz": np.int8(p.made.zero),
    }
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=1),
        node("MatMul", ["xd", "wd"], ["p"]),
        node("QuantizeLinear", ["p", "ys", "yz"], ["yq"]),
        node("DequantizeLinear", ["yq", "ys", "yz"], ["y"]),
    ]
    ports = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [p.m, p.k]), ("y", [p.m, p.n]))
    ]
    tensors = [numpy_helper.from_array(np.asarray(v), name) for name, v in held.items()]
    graph = helper.make_graph(nodes, "int8", ports[:1], ports[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, path)


def write_tflite(p: Product, path: Path) -> None:
    """The same in the operators of LiteRT."""
    graph = Graph()
    x = graph.tensor((p.m, p.k))
    graph.given.append(x)
    weights = graph.constant(np.ascontiguousarray(p.weights.T), Steps(p.columns))
    now = graph.operator("QUANTIZE", [x], (p.m, p.k), steps=p.given)
    now = graph.operator("FULLY_CONNECTED", [now, weights, -1], (p.m, p.n), steps=p.made)
    path.write_bytes(graph.file(graph.operator("DEQUANTIZE", [now], (p.m, p.n))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", default="1")
    parser.add_argument("--tune", default="5")
    parser.add_argument("--rounds", default="21")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name in options.shapes.split(","):
        made = product(*SHAPES[name])
        files.append(options.folder / f"int8-{name}.onnx")
        write_onnx(made, files[-1])
        write_tflite(made, files[-1].with_suffix(".tflite"))
    words = ["--peers=ort,litert", "--cold=0", f"--tune={options.tune}"]
    words += [f"--threads={options.threads}", f"--rounds={options.rounds}"]
    words += [f"--markdown={options.markdown}"] if options.markdown else []
    words += ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    nnjit = Path(sys.executable).with_name("nnjit")
    sys.exit(subprocess.run([nnjit, "bench", "models", *map(str, files), *words]).returncode)


if __name__ == "__main__":
    main()
