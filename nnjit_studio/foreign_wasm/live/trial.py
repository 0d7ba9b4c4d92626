"""What is looked at after a session: all kernels in turns, and many swaps in a row."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnjit_studio.foreign_wasm.live.page import LivePage
from nnjit_studio.foreign_wasm.live.session import LiveSession
from nnjit_studio.records import Kernel
from nnjit_studio.records.estimate import Ratio
from nnjit_studio.support.tables import text_table
from nnjit_studio.tuner.events import Event

SAMPLE_MS = 20.0
ROUNDS_OF_ALL, MORE_ROUNDS = 24, 12
BEHIND = 0.03
"""Whether the winner is further behind than this is what a race is to tell."""


@dataclass(frozen=True)
class Raced(Event, name="raced"):
    """All kernels that were proven, and the originals, in turns between ordinary inferences.

    ``rows`` hold settings and the median, least and quartiles of the model's ms, in the rounds of
    all; ``behind`` is how much slower the winner is than the best, as a share, with the ends of its
    interval, in as many ``rounds`` as it took to tell.
    """

    rows: tuple[dict[str, Any], ...]
    winner: str
    best: str
    behind: float
    low: float | None
    high: float | None
    rounds: int

    def text(self) -> str:
        """For a person."""
        rows = [
            (r["settings"], *(f"{ms:.2f}" for ms in (r["median"], r["least"], *r["quartiles"])))
            for r in self.rows
        ]
        table = text_table(("settings", "ms", "least", "quartiles", ""), rows, left=(0,))
        between = ""
        if self.low is not None and self.high is not None:
            between = f" ({1 + self.low:.3f} to {1 + self.high:.3f})"
        took = f"{1 + self.behind:.3f}{between} times as long as the best"
        return f"{table}\nThe winner takes {took}, in {self.rounds} rounds."


@dataclass(frozen=True)
class Swaps(Event, name="swaps"):
    """Inferences with a swap before each; every answer was looked at."""

    swaps: int
    kernels: int
    seconds: float
    answers: int
    wrong: int
    worst: float

    def text(self) -> str:
        """For a person."""
        return (
            f"{self.swaps} swaps of {self.kernels} sets of kernels in {self.seconds:.1f} s; "
            f"{self.wrong} of {self.answers} answers were wrong"
        )


def race(page: LivePage, session: LiveSession, rounds: int) -> Raced:
    """Compare the winner with every other set of kernels, until it is told how far it is behind.

    A set that is proven slower than the winner is not met again. ``rounds`` are the most.
    """
    winner, left = session.winner, [session.plain, *session.donors]
    of_all = max(2, min(rounds, ROUNDS_OF_ALL))
    samples = dict(zip(left, page.race(left, of_all, SAMPLE_MS), strict=True))
    rows = tuple(_row(kernel, samples[kernel]) for kernel in left)
    while True:
        left = [k for k in left if k is winner or Ratio.of(samples[winner], samples[k]).high > 1]
        best, slower = behind([samples[k] for k in left], left.index(winner))
        told = slower.high <= 1 + BEHIND or slower.low > 1 + BEHIND
        if told or slower.pairs >= rounds:
            break
        more = min(MORE_ROUNDS, rounds - slower.pairs)
        for kernel, ms in zip(left, page.race(left, more, SAMPLE_MS), strict=True):
            samples[kernel] += ms
    low, high = (slower.low - 1, slower.high - 1) if slower.known else (None, None)
    told_of = winner.settings, left[best].settings, slower.value - 1, low, high
    return Raced(session.t_s(), rows, *told_of, slower.pairs)


def behind(samples: Sequence[Sequence[float]], mine: int) -> tuple[int, Ratio]:
    """Which kernel is the best, and how many times the time of it one of them takes.

    The fastest of many medians is one that was lucky, too. So the best of one half of the rounds is
    met in the other half. The interval holds for the largest of the ratios to all of them.

    Parameters
    ----------
    samples
        Ms of each kernel's samples, at least two; entry i of all is of the same round.
    """
    ms = np.array(samples)
    shares = ms / np.median(ms, axis=0)
    even, odd = slice(0, None, 2), slice(1, None, 2)
    pairs: list[tuple[float, float]] = []
    for chosen, met in ((even, odd), (odd, even)):
        best = int(np.argmin(np.median(shares[:, chosen], axis=1)))
        pairs += zip(ms[mine, met].tolist(), ms[best, met].tolist(), strict=True)
    every = [Ratio.of(samples[mine], others) for others in samples]
    low, high = max(r.low for r in every), max(r.high for r in every)
    value = Ratio.of(*zip(*pairs, strict=True)).value
    return int(np.argmin(np.median(shares, axis=1))), Ratio(value, low, high, len(pairs))


def swaps(page: LivePage, session: LiveSession, count: int, t_s: float) -> Swaps:
    """Swap the originals and the best donors in turns, ``count`` times."""
    kernels = [session.plain, *session.donors[:2]]
    seconds = page.soak(kernels, count)
    checked = page.checked
    return Swaps(t_s, count, len(kernels), seconds, checked.runs, checked.wrong, checked.worst)


def _row(kernel: Kernel, samples: list[float]) -> dict[str, Any]:
    low, median, high = statistics.quantiles(samples, n=4)
    return {
        "settings": kernel.settings,
        "median": median,
        "least": min(samples),
        "quartiles": [low, high],
    }
