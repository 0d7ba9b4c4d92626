"""Bundles for any size on Chromium's software WebGPU, compared with native ONNX Runtime."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from bundle_page import RunBundle, bundle_page
from nnjit_command import SANDBOX, json_lines, nnjit_here
from onnx import NodeProto, TensorProto, helper, numpy_helper

node, port = helper.make_node, helper.make_tensor_value_info
FLOAT = TensorProto.FLOAT

pytestmark = [
    pytest.mark.chromium,
    pytest.mark.skipif(os.environ.get("NNJIT_SKIP_CHROMIUM") == "1", reason="no Chromium"),
]


def save(
    file: Path, nodes: Sequence[NodeProto], x: Sequence[str | int], y: int = 0,
    **shapes: tuple[int, ...],
) -> Path:  # fmt: skip
    """A model of random weights that takes ``x`` and gives ``y``, of as many axes or ``y``."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array((rng.standard_normal(s) * 0.2).astype(np.float32), name)
        for name, s in shapes.items()
    ]
    ports = [port("x", FLOAT, list(x))], [port("y", FLOAT, [f"y{i}" for i in range(y or len(x))])]
    graph = helper.make_graph(list(nodes), file.stem, *ports, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, file)
    return file


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunBundle]:
    """In one page: each would start a browser and a software GPU."""
    site = tmp_path_factory.mktemp("site")
    page = bundle_page(site, isolated=False, no_sandbox=bool(SANDBOX), gpu="software")
    with page as run:
        yield run


def check(run: RunBundle, model: Path, shapes: Sequence[tuple[int, ...]]) -> None:
    """One bundle, one session, one run for each shape; none of them was an import's."""
    bundle, database = model.with_suffix(".zip"), model.with_suffix(".db")
    words = ("-o", bundle, "--webgpu", "--json", "--database", database)
    json_lines(nnjit_here("export", model, *words))
    rng = np.random.default_rng(1)
    feeds = [{"x": rng.standard_normal(shape).astype(np.float32)} for shape in shapes]
    report = run(bundle, feeds)
    assert "error" not in report, report["error"]
    session = onnxruntime.InferenceSession(str(model))
    for feed, got in zip(feeds, report["results"], strict=True):
        (wanted,) = session.run(None, feed)
        assert got["y"]["dims"] == list(wanted.shape)
        data = np.frombuffer(base64.b64decode(got["y"]["data"]), np.float32)
        worst = np.abs(data.reshape(wanted.shape) - wanted).max()
        assert worst <= 1e-3 * np.abs(wanted).max(), feed["x"].shape


def test_rows_of_any_number(run: RunBundle, tmp_path: Path) -> None:
    nodes = [
        node("Gemm", ["x", "w0", "b0"], ["h"]),
        node("Relu", ["h"], ["r"]),
        node("Gemm", ["r", "w1", "b1"], ["l"]),
        node("Softmax", ["l"], ["y"], axis=-1),
    ]
    model = save(
        tmp_path / "rows.onnx", nodes, ["n", 64], w0=(64, 128), b0=(128,), w1=(128, 10), b1=(10,)
    )
    check(run, model, [(n, 64) for n in (1, 7, 300, 64, 7)])


@pytest.mark.parametrize("stride", [1, 2])
def test_images_of_any_height_and_width(run: RunBundle, tmp_path: Path, stride: int) -> None:
    """Convolutions by patches, of one channel each, of one pixel; after a stride only the last."""
    depthwise = node("Conv", ["r", "w1"], ["d"], pads=[1] * 4, group=16)
    nodes = [
        node("Conv", ["x", "w0", "b0"], ["a"], pads=[1] * 4, strides=[stride] * 2),
        node("Relu", ["a"], ["r"]),
        *([depthwise] if stride == 1 else []),
        node("Conv", ["d" if stride == 1 else "r", "w2"], ["e"]),
        node("Add", ["e", "r"], ["y"]),
    ]
    shapes = {"w0": (16, 3, 3, 3), "b0": (16,), "w2": (16, 16, 1, 1)}
    shapes |= {"w1": (16, 1, 3, 3)} if stride == 1 else {}
    model = save(tmp_path / "images.onnx", nodes, [1, 3, "h", "w"], **shapes)
    sizes = (64, 96), (33, 70), (1, 2), (160, 31), (33, 70)
    check(run, model, [(1, 3, h, w) for h, w in sizes])


def test_sequences_of_any_number_and_length(run: RunBundle, tmp_path: Path) -> None:
    """Attention over two open dimensions, in its parts."""
    nodes = [
        *(node("MatMul", ["x", f"w{i}"], [f"p{i}"]) for i in "qkv"),
        node("Transpose", ["pk"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["pq", "t"], ["s"]),
        node("Softmax", ["s"], ["a"], axis=-1),
        node("MatMul", ["a", "pv"], ["o"]),
        node("Add", ["o", "x"], ["z"]),
        node("LayerNormalization", ["z", "g", "b"], ["y"]),
    ]
    shapes = {f"w{i}": (32, 32) for i in "qkv"} | {"g": (32,), "b": (32,)}
    model = save(tmp_path / "text.onnx", nodes, ["batch", "sequence", 32], **shapes)
    check(run, model, [(1, 5, 32), (3, 17, 32), (2, 128, 32), (1, 300, 32), (3, 17, 32)])


def test_texts_of_any_length_by_a_recurrent_layer(run: RunBundle, tmp_path: Path) -> None:
    nodes = [node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=128)]
    shapes = {"w": (1, 512, 16), "r": (1, 512, 128), "b": (1, 1024)}
    model = save(tmp_path / "tagger.onnx", nodes, ["n", 1, 16], 4, **shapes)
    check(run, model, [(n, 1, 16) for n in (1, 64, 2, 7, 64)])


def test_a_map_is_resized_to_another_as_a_rounded_scale_tells(
    run: RunBundle, tmp_path: Path
) -> None:
    """A whole place comes out below it in 2 of 48 rows that are made of 21, 1 of 78, 2 of 84."""
    to_another = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    nodes = [
        node("MaxPool", ["x"], ["p"], kernel_shape=[8, 8], strides=[2, 2]),
        node("Shape", ["x"], ["to"]),
        node("Resize", ["p", "", "", "to"], ["r"], mode="nearest", **to_another),
        node("Add", ["r", "x"], ["y"]),
    ]
    model = save(tmp_path / "resized.onnx", nodes, [1, 2, "h", "w"])
    sizes = (48, 78), (84, 48), (33, 50), (96, 91)
    check(run, model, [(1, 2, h, w) for h, w in sizes])
