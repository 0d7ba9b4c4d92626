"""Heats between kernels whose times are drawn."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from nnjit_studio.foreign_wasm.live.heats import LEAST_ROUNDS, Heats
from nnjit_studio.records import Kernel

MS = 40.0


class Drawn:
    """Kernels with a time each, beside drift, noise and other programs; time passes with them."""

    def __init__(self, seed: int, left_ms: float, slower: Sequence[float]) -> None:
        self._random, self.left_ms, self._drift = random.Random(seed), left_ms, 0.0
        made = [Kernel("w", None, "simd128", b"", str(n)) for n in range(len(slower))]
        self._random.shuffle(made)
        self.ms = {k: MS * (1 + share) for k, share in zip(made, slower, strict=True)}
        self.kernels = sorted(made, key=lambda k: k.sha256)
        self.plain = Kernel("w", None, "simd128", b"", "plain")
        self.ms[self.plain] = 1.4 * MS
        self.rounds: list[tuple[int, int]] = []

    def _run(self, kernel: Kernel) -> float:
        self._drift = 0.9 * self._drift + self._random.gauss(0, 0.02)
        noise = abs(self._random.gauss(0, 0.06)) + 0.4 * (self._random.random() < 0.05)
        ms = self.ms[kernel] * math.exp(self._drift + noise)
        self.left_ms -= ms
        return ms

    def race(self, kernels: Sequence[Kernel], rounds: int) -> list[list[float]]:
        self.rounds.append((len(kernels) - 1, rounds))
        for kernel in kernels:
            self._run(kernel)
        turns = [[self._run(k) for k in kernels] for _ in range(rounds)]
        return [list(ms) for ms in zip(*turns, strict=True)]

    def heats(self) -> Heats:
        known = self.race, list(self.kernels), self.plain
        return Heats(*known, lambda: self.left_ms, 1.4 * MS, 1)


def test_the_fastest_of_eight_is_found_within_the_time() -> None:
    behind = []
    for seed in range(20):
        page = Drawn(seed, 9000.0, (0.0, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.2))
        heats = page.heats()
        met = [len(kernels) for kernels in heats.run()]
        assert met[0] == 8 and met == sorted(met, reverse=True)
        behind.append(page.ms[heats.running[0]] / MS - 1)
        assert page.left_ms > -1000
        assert heats.verdict(heats.running[0], page.plain, 1).state == "won"
    assert sum(behind) / len(behind) < 0.01


def test_what_cannot_be_first_is_not_looked_at_again() -> None:
    page = Drawn(1, 9000.0, (0.0, 0.3, 0.5, 0.5))
    heats = page.heats()
    assert list(heats.run()) == [tuple(heats.running)]
    assert page.ms[heats.running[0]] == MS


def test_only_the_originals_are_beaten() -> None:
    page = Drawn(3, 9000.0, (0.0, 0.3))
    heats = page.heats()
    list(heats.run())
    first, other = heats.running
    assert heats.verdict(first, page.plain, 1).state == "won"
    assert heats.verdict(first, other, 1).state == "faster"
    assert heats.verdict(other, first, 1).state == "slower"


@pytest.mark.parametrize("left_ms", [-5.0, 100.0])
def test_the_best_rated_meets_the_originals_however_little_time_is_left(left_ms: float) -> None:
    page = Drawn(2, left_ms, (0.0, 0.1, 0.2))
    heats = page.heats()
    assert list(heats.run()) == [(page.kernels[0],)]
    assert page.rounds == [(1, LEAST_ROUNDS)]
