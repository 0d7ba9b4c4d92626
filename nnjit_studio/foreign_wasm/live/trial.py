"""What is looked at after a session: all kernels in turns, and many swaps in a row."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from nnjit_studio.foreign_wasm.live.page import LivePage
from nnjit_studio.foreign_wasm.live.session import LiveSession
from nnjit_studio.records import Kernel
from nnjit_studio.support.tables import text_table
from nnjit_studio.tuner.events import Event

SAMPLE_MS = 20.0


@dataclass(frozen=True)
class Raced(Event, name="raced"):
    """All kernels that were proven, and the originals, in turns between ordinary inferences.

    ``rows`` hold settings and the median, least and quartiles of the model's ms; ``behind`` is how
    much slower the winner's median is than the best one's, as a share.
    """

    rows: tuple[dict[str, Any], ...]
    winner: str
    best: str
    behind: float

    def text(self) -> str:
        """For a person."""
        rows = [
            (r["settings"], *(f"{ms:.2f}" for ms in (r["median"], r["least"], *r["quartiles"])))
            for r in self.rows
        ]
        table = text_table(("settings", "ms", "least", "quartiles", ""), rows, left=(0,))
        return f"{table}\nThe winner's median is {self.behind:.1%} behind the best."


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
    samples = page.race(kernels, rounds, SAMPLE_MS)
    rows = tuple(_row(kernel, ms) for kernel, ms in zip(kernels, samples, strict=True))
    best = min(rows, key=lambda row: float(row["median"]))
    mine = next(row for row in rows if row["settings"] == session.winner.settings)
    behind = mine["median"] / best["median"] - 1
    return Raced(t_s, rows, mine["settings"], best["settings"], behind)


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
