"""Times of a serving model's inferences, with and without tuning."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class ServeOptions:
    """How the model serves while it is tuned."""

    interval_ms: float = 0.0
    """From one request to the next; 0 asks again as soon as the answer is there."""
    budget: float | None = 0.05
    """Share that tuning may add to the 95th percentile of the latency; None is full speed,
    without any regard for it."""


@dataclass(frozen=True)
class ServingStats:
    """Inferences since the last time that was asked, in order."""

    latencies_ms: tuple[float, ...] = ()
    """From request to answer, waiting included."""
    generations: tuple[int, ...] = field(default=(), repr=False)
    """How many swaps came before each of them."""
    touched: tuple[bool, ...] = field(default=(), repr=False)
    """Whether tuning did anything while it was under way."""
    elapsed_ms: float = 0.0
    tuning_ms: float = 0.0
    """The part of ``elapsed_ms`` in which tuning could run in the page."""
    reference_p95_ms: float | None = None
    """Of the page's recent inferences that nothing touched; None before there are enough, and
    at full speed."""
    error: str = ""
    """Why serving ended; empty while it goes on."""

    def percentile(self, q: float) -> float:
        """The ``q``-th percentile of the latencies, ms; 0 when there are none."""
        return float(np.percentile(self.latencies_ms, q)) if self.latencies_ms else 0.0

    @property
    def duty(self) -> float:
        """Share of the time in which tuning could run in the page, 0..1."""
        return min(1.0, self.tuning_ms / self.elapsed_ms) if self.elapsed_ms else 0.0
