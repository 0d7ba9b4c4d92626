"""Inferences of a loaded model: outputs, times, and copies of its buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True)
class Inference:
    """Outputs of the last run; total ms of every run; of every step, if asked for, the median
    ms, the threads, the IQR, and the chunks that each thread took, the caller first.
    """

    outputs: dict[str, NDArray[Any]]
    runs_ms: tuple[float, ...]
    steps_ms: tuple[float, ...] = ()
    steps_threads: tuple[int, ...] = ()
    steps_iqr_ms: tuple[float, ...] = ()
    steps_chunks: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Tap:
    """``nbytes`` of a plan's buffer at ``offset``, as they are right after a step ran."""

    step: int
    """Index among the plan's steps."""
    buffer: int
    """Index among the plan's buffers."""
    offset: int
    nbytes: int
