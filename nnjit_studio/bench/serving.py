"""``nnjit bench serving``: the latency of a model that serves, with and without tuning.

One session tunes for real, in blocks; between them it rests, and the model serves
alone. A swap makes the model faster, so latencies are compared kernel generation by
generation, and pooled as multiples of their generation's median without tuning.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio import __version__
from nnjit_studio.bench.kernels import load_average, utc_now
from nnjit_studio.errors import NnjitError
from nnjit_studio.link.device import cpu_name
from nnjit_studio.space.serving import ServeOptions, ServingStats
from nnjit_studio.tuner.events import Event, Failed, RoundDone, Served, Swapped
from nnjit_studio.workbench import Workbench

BLOCK_S = 3.0
"""Of tuning, then half of it without, or as long as :data:`ENOUGH` inferences take."""
SETTLE_S = 0.5
"""After a block of tuning: what was compiled ahead gets done, and counts for neither side."""
ENOUGH = 30
"""Inferences of a generation, on either side, that make a percentile."""
FULL_SPEED_SHARE = 0.25
"""Of the seconds asked for; so long the same session then goes on at full speed."""


@dataclass
class Side:
    """Latencies in ms by generation of kernels, with or without tuning."""

    seconds: float = 0.0
    rounds: int = 0
    by_generation: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, seen: ServingStats | Served) -> None:
        for generation, ms in zip(seen.generations, seen.latencies_ms, strict=True):
            self.by_generation[generation].append(ms)

    def all_ms(self) -> list[float]:
        return [ms for some in self.by_generation.values() for ms in some]

    def to_json(self) -> dict[str, Any]:
        return {
            **latencies(self.all_ms()),
            "seconds": self.seconds,
            "rounds": self.rounds,
            "rounds_per_s": self.rounds / self.seconds if self.seconds else 0.0,
        }


def bench_serving(
    bench: Workbench,
    model: Path,
    feeds: Mapping[str, NDArray[Any]] | None,
    seconds: float,
    options: ServeOptions,
    note: Callable[[str], None],
) -> dict[str, Any]:
    """Serve ``model``, tune it for ``seconds`` in blocks, then for a while at full speed.

    Raises
    ------
    ModelError, UserError, PageError
    """
    before = load_average()
    bench.open_model(model, note, feeds)
    device = bench.connect()
    bench.serve(options)
    events = bench.tune(None, exhaustive=True)
    off = Side()
    rest(bench, off)
    off.by_generation.clear()  # warm by now
    rest(bench, off)
    on = Side()
    swaps = tune_in_blocks(bench, events, on, off, seconds, note)
    full = Side()
    bench.serve(ServeOptions(options.interval_ms, None))
    tune_block(bench, events, full, seconds * FULL_SPEED_SHARE)
    bench.cancel()
    for _ in events:  # to its summary
        pass
    bench.stop_serving()
    return {
        "ok": True,
        "date": utc_now(),
        "browser": device.user_agent,
        "flags": device.flags,
        "target": device.target,
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "load_average": {"before": before, "after": load_average()},
        "versions": {"nnjit-studio": __version__, "compiler": bench.compiler.version},
        "model": model.name,
        "threads": bench.threads,
        "interval_ms": options.interval_ms,
        "budget": options.budget,
        "off": off.to_json(),
        "on": on.to_json(),
        "full_speed": full.to_json(),
        "swaps": swaps,
        **compared(on.by_generation, off.by_generation),
    }


def tune_in_blocks(
    bench: Workbench,
    events: Iterator[Event],
    on: Side,
    off: Side,
    seconds: float,
    note: Callable[[str], None],
) -> int:
    """Alternate until ``seconds`` of tuning or the end of the session; the number of swaps."""
    swaps = 0
    while on.seconds < seconds:
        found, over = tune_block(bench, events, on, min(BLOCK_S, seconds - on.seconds))
        swaps += found
        rest(bench, off)
        note(f"{on.seconds:6.1f} s of tuning, {on.rounds} rounds, {swaps} swaps")
        if over:
            break
    return swaps


def tune_block(
    bench: Workbench, events: Iterator[Event], side: Side, seconds: float
) -> tuple[int, bool]:
    """Let the session work; the number of swaps, and whether it has come to its end.

    Raises
    ------
    NnjitError
        What the session failed of.
    """
    swaps, over = 0, True
    began = time.monotonic()
    for event in events:
        if isinstance(event, Failed):
            raise NnjitError(event.error["error"], event.error["hint"])
        if isinstance(event, Served):
            side.add(event)
        side.rounds += isinstance(event, RoundDone)
        swaps += isinstance(event, Swapped)
        if time.monotonic() - began >= seconds:
            over = False
            break
    side.add(bench.runner.served())
    side.seconds += time.monotonic() - began
    return swaps, over


def rest(bench: Workbench, side: Side) -> None:
    """The model alone for half a block."""
    time.sleep(SETTLE_S)
    bench.runner.served()
    began = time.monotonic()
    count = 0
    while count < ENOUGH or time.monotonic() - began < BLOCK_S / 2:
        time.sleep(BLOCK_S / 4)
        seen = bench.runner.served()
        count += len(seen.latencies_ms)
        side.add(seen)
    side.seconds += time.monotonic() - began


def latencies(ms: Sequence[float]) -> dict[str, float]:
    """Count, and percentiles in ms; these are 0 of nothing."""
    values = np.percentile(ms, (50, 95, 99, 100)) if ms else np.zeros(4)
    names = ("p50_ms", "p95_ms", "p99_ms", "max_ms")
    return {"inferences": len(ms), **dict(zip(names, map(float, values), strict=True))}


def compared(
    on: Mapping[int, Sequence[float]], off: Mapping[int, Sequence[float]]
) -> dict[str, Any]:
    """p95 with tuning over p95 without: of each generation with enough of both, and of all.

    For the latter a latency counts as a multiple of its generation's median
    without tuning; ``covered`` is the share of the inferences with tuning that
    belong to such generations.
    """
    rows: list[dict[str, Any]] = []
    with_tuning: list[float] = []
    without: list[float] = []
    for generation in sorted(on):
        tuned, alone = on[generation], off.get(generation, ())
        if min(len(tuned), len(alone)) < ENOUGH:
            continue
        p95_on, p95_off = float(np.percentile(tuned, 95)), float(np.percentile(alone, 95))
        median = float(np.median(alone))
        rows.append(
            {
                "generation": generation,
                "on": latencies(tuned),
                "off": latencies(alone),
                "p95_ratio": p95_on / p95_off,
            }
        )
        with_tuning += [ms / median for ms in tuned]
        without += [ms / median for ms in alone]
    total = sum(len(some) for some in on.values())
    ratio = np.percentile(with_tuning, 95) / np.percentile(without, 95) if rows else None
    return {
        "generations": rows,
        "p95_ratio": None if ratio is None else float(ratio),
        "covered": len(with_tuning) / total if total else 0.0,
    }
