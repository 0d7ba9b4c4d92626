"""How far the winner of a live session is behind the best kernel at hand."""

from __future__ import annotations

import numpy as np
import pytest

from nnjit_studio.foreign_wasm.live.trial import behind


def test_equal_kernels_are_not_behind_the_luckiest_of_them() -> None:
    noise = np.random.default_rng(7).lognormal(0.0, 0.1, (10, 400))
    medians = np.median(noise, axis=1)
    assert medians[3] / min(medians) > 1.01, "the luckiest seems faster"
    _, slower = behind(noise.tolist(), 3)
    assert slower.low < 1 < slower.high
    assert abs(slower.value - 1) < medians[3] / min(medians) - 1


def test_a_slower_winner_is_told_with_its_best_and_share() -> None:
    machine = np.random.default_rng(7).lognormal(0.0, 0.3, 40)
    best, slower = behind([(machine * k).tolist() for k in (1.2, 1.0, 1.1)], 0)
    assert best == 1
    assert slower.value == pytest.approx(1.2)


def test_the_best_is_not_behind_itself() -> None:
    assert behind([[2.0, 2.0], [1.0, 1.0]], 1)[1].value == 1.0
