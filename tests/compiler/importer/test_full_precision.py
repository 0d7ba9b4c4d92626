"""The reference of a decoder in half precision computes in float32, on the same weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from grouped_models import grouped
from numpy.typing import NDArray

from nnjit_studio.compiler.importer.decoder.parts import find_decoder
from nnjit_studio.compiler.oracle.full_precision import in_full_precision

IDS = [3, 1, 4, 1, 5, 9]


def logits(model: onnx.ModelProto) -> NDArray[np.floating]:
    decoder = find_decoder(model)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    kind = {i.name: i.type for i in session.get_inputs()}[decoder.pasts[0].input]
    past = np.float16 if "float16" in kind else np.float32
    feeds = {"input_ids": np.array([IDS]), "attention_mask": np.ones((1, len(IDS)), np.int64)}
    for p in decoder.pasts:
        feeds[p.input] = np.zeros((1, p.heads, 0, p.width), past)
    return session.run([decoder.logits], feeds)[0]


def test_half_precision_is_widened(tmp_path: Path) -> None:
    path = grouped(tmp_path / "half.onnx", bits=4, half=True)
    model = onnx.load(str(path))
    half = logits(model)
    assert in_full_precision(model, tmp_path)
    full = logits(model)
    assert (half.dtype, full.dtype) == (np.float16, np.float32)
    assert 0 < np.abs(full - half).max() < 0.05 * np.abs(full).max()
    assert not in_full_precision(model, tmp_path), "nothing is left to change"


def test_weights_beside_the_file_are_widened(tmp_path: Path) -> None:
    inside = onnx.load(str(grouped(tmp_path / "half.onnx", bits=4, half=True)))
    onnx.save(inside, str(tmp_path / "beside.onnx"), save_as_external_data=True, size_threshold=0)
    inside = onnx.load(str(tmp_path / "half.onnx"))
    beside = onnx.load(str(tmp_path / "beside.onnx"), load_external_data=False)
    assert any(t.external_data for t in beside.graph.initializer)
    assert in_full_precision(inside, tmp_path)
    assert in_full_precision(beside, tmp_path)
    np.testing.assert_array_equal(logits(beside), logits(inside))


def test_what_is_float32_stays_as_it_is(tmp_path: Path) -> None:
    model = onnx.load(str(grouped(tmp_path / "float.onnx")))
    before = model.SerializeToString()
    assert not in_full_precision(model, tmp_path)
    assert model.SerializeToString() == before
