"""How pages sample contenders in turns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RoundsPolicy:
    """What ``resources/bench/rounds.js`` is told; times in ms."""

    rounds: int
    min_sample_ms: float
    warmup_ms: float
    max_warmup_ms: float
