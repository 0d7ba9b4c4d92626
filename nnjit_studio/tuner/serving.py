"""A session beside a model that serves: what its inferences take is asked, not made.

The page keeps the budget (``resources/studio/governor.js``): it lets measurements
pass between inferences, and so holds up all work of the session that waits for
them. Here is what remains: to time the model without getting in its way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.records.serving import ServingStats
from nnjit_studio.tuner.events import Served
from nnjit_studio.tuner.protocols import Runner

Ask = Callable[[], ServingStats]
"""What was served since the last time."""


def served_event(t_s: float, stats: ServingStats) -> Served:
    return Served(
        t_s,
        len(stats.latencies_ms),
        stats.percentile(50),
        stats.percentile(95),
        stats.reference_p95_ms,
        stats.duty,
        stats.latencies_ms,
        stats.generations,
    )


def time_serving(
    runner: Runner, feeds: Mapping[str, NDArray[Any]], served: Ask
) -> tuple[ServingStats, tuple[float, ...], tuple[float, ...]]:
    """As ``time_model``, with a single inference of its own, which waits for its turn.

    Returns
    -------
    tuple
        What was served meanwhile, ms of these inferences, and ms of each step.
    """
    own = runner.infer(feeds, profile=True)
    stats = served()
    return stats, stats.latencies_ms or own.runs_ms, own.steps_ms
