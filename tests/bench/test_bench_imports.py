"""Inputs that a comparison of imports gives to models."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from nnjit_studio.model.feeds import session_feeds


def test_each_kind_of_input_has_values_that_models_accept() -> None:
    whole = "tensor(int64)"
    ports = [
        SimpleNamespace(name="input_ids", shape=["batch", 6], type=whole),
        SimpleNamespace(name="attention_mask", shape=["batch", 6], type=whole),
        SimpleNamespace(name="token_type_ids", shape=["batch", 6], type=whole),
        SimpleNamespace(name="pixels", shape=[1, 3, "side"], type="tensor(float)"),
    ]
    feeds = session_feeds(SimpleNamespace(get_inputs=lambda: ports), {"batch": 2})
    assert feeds["input_ids"].shape == (2, 6) and feeds["input_ids"].dtype == np.int64
    assert feeds["input_ids"].min() >= 2
    assert (feeds["attention_mask"] == 1).all()
    assert (feeds["token_type_ids"] == 0).all(), "a model may know two types alone"
    assert feeds["pixels"].shape == (1, 3, 1) and feeds["pixels"].dtype == np.float32
