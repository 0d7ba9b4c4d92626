"""The compile cost as Chrome trace events, for Perfetto."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nnjit_studio.foreign_wasm.inspection.cost.records import Compilation, CompileCost


def trace_events(cost: CompileCost, name: Callable[[int], str]) -> dict[str, Any]:
    """A track for each tier, its functions one after another, the slowest first.

    Lengths are measured; places are not: an engine compiles several at a time.
    ``name`` gives the name of a function, or an empty string.
    """
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": cost.version}}
    ]
    for thread, tier in enumerate(cost.tiers, 1):
        label = f"{tier.tier} ({tier.method})"
        events.append(
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": thread, "args": {"name": label}}
        )
        events += _of_tier(tier, thread, name)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _of_tier(tier: Compilation, thread: int, name: Callable[[int], str]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    at = 0.0
    for index, cost in sorted(tier.functions.items(), key=lambda pair: -pair[1].ms):
        us = max(cost.ms * 1000, 0.0)
        events.append(
            {
                "ph": "X",
                "name": f"{index} {name(index)}".strip(),
                "cat": tier.tier,
                "pid": 1,
                "tid": thread,
                "ts": at,
                "dur": us,
                "args": {"code_bytes": cost.code_bytes, "memory_bytes": cost.memory_bytes},
            }
        )
        at += us
    return events
