"""Attention of any size as one kernel on Chromium's software WebGPU, against ONNX Runtime."""

from __future__ import annotations

import base64
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from bundle_page import RunBundle, bundle_page
from nnjit_command import SANDBOX, json_lines, nnjit_here
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx_models import save

node, port = helper.make_node, helper.make_tensor_value_info

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.skipif(os.environ.get("NNJIT_SKIP_CHROMIUM") == "1", reason="no Chromium"),
]
HEADS = 2
LOWEST = np.float32(-3.4e38)
MASKS: Mapping[str, list[NodeProto]] = {
    "": [],
    # as BERT's exporter writes it, and as others do
    "added": [
        node("Sub", ["one", "wide"], ["inverse"]),
        node("Mul", ["inverse", "low"], ["bias"]),
        node("Add", ["scaled", "bias"], ["raised"]),
    ],
    "chosen": [
        node("Cast", ["wide"], ["bool"], to=TensorProto.BOOL),
        node("Where", ["bool", "scaled", "low"], ["raised"]),
    ],
}


def attention(file: Path, depth: int, mask: str, keys: str, batch: str | int) -> Path:
    """``y`` of queries ``x`` over the keys of ``c``, or of ``x`` where ``keys`` is its length."""
    rng, width, source = np.random.default_rng(0), HEADS * depth, "x" if keys == "m" else "c"
    given = {
        **{f"w{i}": rng.standard_normal((width, width)) / np.sqrt(width) for i in "qkv"},
        **{"scale": np.array(depth**-0.5), "one": np.ones(()), "low": np.array(LOWEST)},
    }
    weights = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in given.items()]
    whole = {"heads": [0, -1, HEADS, depth], "joined": [0, -1, width], "axes": [1, 2]}
    weights += [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in whole.items()]
    nodes = []
    for i in "qkv":
        perm = [0, 2, 3, 1] if i == "k" else [0, 2, 1, 3]
        nodes += [
            node("MatMul", ["x" if i == "q" else source, f"w{i}"], [f"p{i}"]),
            node("Reshape", [f"p{i}", "heads"], [f"r{i}"]),
            node("Transpose", [f"r{i}"], [i], perm=perm),
        ]
    nodes += [
        node("MatMul", ["q", "k"], ["s"]),
        node("Mul", ["s", "scale"], ["scaled"]),
        *([node("Unsqueeze", ["mask", "axes"], ["wide"])] if mask else []),
        *MASKS[mask],
        node("Softmax", ["raised" if mask else "scaled"], ["a"], axis=-1),
        node("MatMul", ["a", "v"], ["o"]),
        node("Transpose", ["o"], ["t"], perm=[0, 2, 1, 3]),
        node("Reshape", ["t", "joined"], ["y"]),
    ]
    ports = {"x": [batch, "m", width]}
    ports |= {"c": [batch, keys, width]} if source == "c" else {}
    ports |= {"mask": [batch, keys]} if mask else {}
    return save(file, nodes, ports, {"y": [batch, "m", width]}, weights)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunBundle]:
    site = tmp_path_factory.mktemp("site")
    page = bundle_page(site, isolated=False, no_sandbox=bool(SANDBOX), gpu="software")
    with page as run:
        yield run


@pytest.mark.parametrize(
    ("depth", "mask", "keys", "batch"),
    [(32, "added", "m", "b"), (64, "", "m", 1), (16, "chosen", "n", "b")],
)
def test_attention_of_any_number_of_queries_and_keys(
    run: RunBundle, tmp_path: Path, depth: int, mask: str, keys: str, batch: str | int
) -> None:
    model = attention(tmp_path / "attention.onnx", depth, mask, keys, batch)
    words = ("-o", tmp_path / "b.zip", "--webgpu", "--json", "--database", tmp_path / "k.db")
    json_lines(nnjit_here("export", model, *words))
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        plan = json.loads(archive.read("plan.json"))
    for steps in (plan["steps"], plan["gpu_steps"]):
        assert [step["workload"] for step in steps].count("attention:0") == 1

    rng, session = np.random.default_rng(1), onnxruntime.InferenceSession(str(model))
    lengths = [1, 2, 7, 31, 32, 33, 64, 100, 128, 3, *rng.integers(1, 200, 6)]
    feeds = []
    for number, m in enumerate(lengths):
        n = m if keys == "m" else lengths[-number]
        sizes = {"b": 1 + number % 3, "m": int(m), "n": int(n)}
        feed = {}
        for given in session.get_inputs():
            shape = [sizes.get(d, d) for d in given.shape]
            feed[given.name] = rng.standard_normal(shape).astype(np.float32)
        if mask:
            feed["mask"] = (feed["mask"] > -0.5).astype(np.float32)
            feed["mask"][:, 0] = 1
        feeds.append(feed)
    report = run(tmp_path / "b.zip", feeds)
    assert "error" not in report, report["error"]
    for feed, got in zip(feeds, report["results"], strict=True):
        (wanted,) = session.run(None, feed)
        assert got["y"]["dims"] == list(wanted.shape)
        data = np.frombuffer(base64.b64decode(got["y"]["data"]), np.float32)
        worst = np.abs(data.reshape(wanted.shape) - wanted).max()
        assert worst <= 1e-3 * np.abs(wanted).max(), {k: v.shape for k, v in feed.items()}
