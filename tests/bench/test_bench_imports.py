"""Inputs that a comparison of imports gives to models."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from nnjit_studio.bench.peers.imports import ImportRow, as_markdown
from nnjit_studio.model.feeds import session_feeds


def test_each_kind_of_input_has_values_that_models_accept() -> None:
    whole = "tensor(int64)"
    ports = [
        SimpleNamespace(name="input_ids", shape=["batch", 6], type=whole),
        SimpleNamespace(name="attention_mask", shape=["batch", 6], type=whole),
        SimpleNamespace(name="token_type_ids", shape=["batch", 6], type=whole),
        SimpleNamespace(name="pixels", shape=[1, 3, "side", None], type="tensor(float)"),
    ]
    given = {"batch": 2, "pixels.3": 5}
    feeds = session_feeds(SimpleNamespace(get_inputs=lambda: ports), given)
    assert feeds["input_ids"].shape == (2, 6) and feeds["input_ids"].dtype == np.int64
    assert feeds["input_ids"].min() >= 2
    assert (feeds["attention_mask"] == 1).all()
    assert (feeds["token_type_ids"] == 0).all(), "a model may know two types alone"
    assert feeds["pixels"].shape == (1, 3, 1, 5) and feeds["pixels"].dtype == np.float32


def test_what_is_refused_is_said_in_the_last_column() -> None:
    rows = [ImportRow("b", "made", 17, error="It has texts."), ImportRow("a", "made", 17, 0.5)]
    a, b = as_markdown("Models", rows).splitlines()[-2:]
    assert a.startswith("| a | 17 | made | 0.5 |") and b.endswith("|  | It has texts. |")
