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


@dataclass(frozen=True)
class Raced(Event, name="raced"):
    """All kernels that were proven, and the originals, in turns between ordinary inferences.

    ``rows`` hold settings and the median, least and quartiles of the model's ms; ``behind`` is how
    much slower the winner is than the best, as a share, with the ends of its interval.
    """

    rows: tuple[dict[str, Any], ...]
    winner: str
    best: str
    behind: float
    low: float | None
    high: float | None

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
        return f"{table}\nThe winner takes {took}."


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


def race(page: LivePage, session: LiveSession, rounds: int, t_s: float) -> Raced:
    """Compare the winner with every other set of kernels."""
    kernels = [session.plain, *session.donors]
    samples = page.race(kernels, max(2, rounds), SAMPLE_MS)
    rows = tuple(_row(kernel, ms) for kernel, ms in zip(kernels, samples, strict=True))
    names = [kernel.settings for kernel in kernels]
    best, slower = behind(samples, names.index(session.winner.settings))
    low, high = (slower.low - 1, slower.high - 1) if slower.known else (None, None)
    winner = session.winner.settings
    return Raced(t_s, rows, winner, names[best], slower.value - 1, low, high)


def behind(samples: Sequence[Sequence[float]], mine: int) -> tuple[int, Ratio]:
    """Which kernel is the best, and how many times the time of it one of them takes.

    The fastest of many medians is one that was lucky, too. So the best of one half of the rounds is
    met in the other half.

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
    return int(np.argmin(np.median(shares, axis=1))), Ratio.of(*zip(*pairs, strict=True))


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
