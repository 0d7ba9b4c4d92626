"""A toy of every family of the zoo runs by its kernels as ONNX Runtime runs it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from imported_once import imported_toy
from replay_groups import OF_MODELS
from replay_records import check
from run_plan import run_kernels

from nnjit_studio.compiler.onnx_file.native import native_session
from nnjit_studio.model.feeds import session_feeds
from nnjit_studio.samples.zoo import MODELS, write_model

FAMILIES = [name for name in MODELS if name not in ("gpt2", "distilbert")]
"""Others of the same functions are there."""


@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_of_the_zoo_equals_onnxruntime(name: str, tmp_path: Path) -> None:
    path = write_model(name, tmp_path / "m.onnx", small=True)
    session = native_session(path, intra_op_num_threads=1)
    feeds = session_feeds(session, {})
    feeds = {n: a % 31 if a.dtype == np.int64 else a for n, a in feeds.items()}
    if "attention_mask" in feeds:
        feeds["attention_mask"][:, -2:] = 0 if name != "gpt2-decode" else 1
    names = [o.name for o in session.get_outputs()]
    found, weights = imported_toy(name), tmp_path / "w.bin"
    assert found.built is not None, found.refusal
    weights.write_bytes(found.weights)
    got = run_kernels(found.built, weights, feeds, found.kernels("relaxed-simd"))
    for output, expected in zip(names, session.run(names, feeds), strict=True):
        np.testing.assert_allclose(
            got[output], expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max()
        )


@pytest.mark.parametrize("group", OF_MODELS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:Renaming name")
def test_same_bytes_as_recorded(group: str, request: pytest.FixtureRequest) -> None:
    check(group, request.config.getoption("bless"))
