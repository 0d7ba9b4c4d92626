"""The zoo's models are valid, seeded and finite; two graphs of one network share its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from nnjit_studio.errors import UserError
from nnjit_studio.samples import zoo


def session(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options)


def test_decode_continues_prefill(tmp_path: Path) -> None:
    length = 7
    ids = np.random.default_rng(0).integers(0, 61, (1, length))
    whole = session(zoo.write_model("gpt2", tmp_path / "p.onnx", length, small=True))
    expected = whole.run(["logits"], {"input_ids": ids})[0][:, -1:]
    start = session(zoo.write_model("gpt2-prefill", tmp_path / "s.onnx", length - 1, small=True))
    names = [o.name for o in start.get_outputs()]
    past = dict(zip(names, start.run(names, {"input_ids": ids[:, :-1]}), strict=True))
    step = session(zoo.write_model("gpt2-decode", tmp_path / "d.onnx", length, small=True))
    feeds = {
        i.name: past[i.name.replace("past_key_values", "present")]
        for i in step.get_inputs()
        if i.name.startswith("past")
    }
    feeds |= {
        "input_ids": ids[:, -1:],
        "attention_mask": np.ones((1, length), np.int64),
        "position_ids": np.array([[length - 1]]),
    }
    np.testing.assert_allclose(step.run(["logits"], feeds)[0], expected, rtol=1e-4, atol=1e-5)


def test_equal_calls_write_equal_files(tmp_path: Path) -> None:
    first, second = (zoo.write_model("gpt2", tmp_path / n, small=True) for n in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()


def test_a_length_that_the_model_lacks(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no variant of sequence 2000"):
        zoo.write_model("gpt2", tmp_path / "x.onnx", 2000)
