"""What a live session tells besides the tuner's events."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.tuner.events import Event


@dataclass(frozen=True)
class Answers(Event, name="answers"):
    """The model's answers until now: ``worst`` as a share of their largest number.

    ``gflops`` is the runtime's rate in its last inference with what serves; 0 where that was one
    of a heat.
    """

    runs: int
    wrong: int
    worst: float
    gflops: float = 0.0


@dataclass(frozen=True)
class Rated(Event, name="rated"):
    """10^9 operations a second of each kernel on the recorded blocks alone, by its settings."""

    gflops: dict[str, float]
