"""How far the winner of a live session is behind the best kernel at hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest

from nnjit_studio.foreign_wasm.live.page import LivePage
from nnjit_studio.foreign_wasm.live.session import LiveSession
from nnjit_studio.foreign_wasm.live.trial import BEHIND, ROUNDS_OF_ALL, Raced, behind, race
from nnjit_studio.records import Kernel


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


class Noisy:
    """A page and its session at once: sets of kernels with a time each, on a noisy machine."""

    def __init__(self, slower: Sequence[float], noise: float) -> None:
        self._random, self._noise = random.Random(5), noise
        made = [Kernel("w", None, "simd128", b"", str(n)) for n in range(len(slower))]
        self.plain, self.winner, *_ = made
        self.donors = made[1:]
        self._ms = {k: 50 * (1 + share) for k, share in zip(made, slower, strict=True)}
        self.met: list[int] = []

    def t_s(self) -> float:
        return 0.0

    def race(self, kernels: Sequence[Kernel], rounds: int, _: float) -> list[list[float]]:
        self.met += [len(kernels)] * rounds
        draw = self._random.lognormvariate
        return [[self._ms[k] * draw(0, self._noise) for _ in range(rounds)] for k in kernels]

    def raced(self, rounds: int) -> Raced:
        return race(cast(LivePage, self), cast(LiveSession, self), rounds)


def test_a_race_goes_on_until_its_interval_lies_on_one_side_of_three_percent() -> None:
    page = Noisy((0.5, 0.0, 0.03, 0.04, 0.1), noise=0.1)
    told = page.raced(2000)
    assert told.high is not None and told.high <= BEHIND
    assert ROUNDS_OF_ALL < told.rounds == len(page.met) < 2000


def test_a_winner_that_is_behind_is_told_so() -> None:
    told = Noisy((0.5, 0.08, 0.0), noise=0.1).raced(2000)
    assert told.low is not None and told.low > BEHIND


def test_sets_that_are_proven_slower_are_not_met_again() -> None:
    page = Noisy((0.5, 0.0, 0.03, 0.5), noise=0.1)
    page.raced(2000)
    assert page.met[0] == 4 and page.met[-1] == 2
    assert page.met == sorted(page.met, reverse=True)


@pytest.mark.parametrize("rounds", [3, 30])
def test_a_race_ends_with_its_rounds(rounds: int) -> None:
    page = Noisy((0.5, 0.0, 0.03), noise=0.3)
    assert page.raced(rounds).rounds == rounds == len(page.met)
