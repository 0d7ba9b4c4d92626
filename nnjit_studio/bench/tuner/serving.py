"""``nnjit bench serving``: the latency of a model that serves, with and without tuning.

One session tunes for real, in blocks; between them it rests, and the model serves
alone. A swap makes the model faster, so latencies are compared kernel generation by
generation, and pooled as multiples of their generation's median without tuning.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.bench.conditions import load_average, measured_on
from nnjit_studio.errors import NnjitError
from nnjit_studio.records.serving import ServeOptions, ServingStats
from nnjit_studio.tuner.events import Event, Failed, RoundDone, Served, SpaceBuilt, Swapped
from nnjit_studio.workbench import Workbench

BLOCK_S = 3.0
"""Of tuning, then half of it without, or as long as :data:`ENOUGH` inferences take."""
SETTLE_S = 0.5
"""After a block of tuning: what was compiled ahead gets done, and counts for neither side."""
ENOUGH = 30
"""Inferences of a generation, on either side, that make a percentile."""
MOST_TIMES = 3
"""Times the seconds asked for, which count from the first lite space on: no longer in all."""
FULL_SPEED_SHARE = 0.25
"""Of the seconds asked for; so long the same session then goes on at full speed."""


@dataclass
class Side:
    """Latencies in ms by generation of kernels, with or without tuning."""

    seconds: float = 0.0
    rounds: int = 0
    rounds_s: float = 0.0
    """Seconds of the rounds, from the first lite space on: default kernels are checked before."""
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
            "rounds_per_s": self.rounds / self.rounds_s if self.rounds_s else 0.0,
        }


class Watched:
    """The events of a session that runs in a thread of its own, counted.

    Attributes
    ----------
    seen
        What the session itself took of the page's inferences.
    """

    def __init__(self, events: Iterator[Event]) -> None:
        self.rounds = self.swaps = self.spaces = 0
        self.seen: list[Served] = []
        self.error: Exception | None = None
        self._events = events
        self._thread = threading.Thread(target=self._watch, name="nnjit-bench-tune", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> None:
        """Wait for the end of the session.

        Raises
        ------
        NnjitError
            What it failed of.
        """
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _watch(self) -> None:
        try:
            for event in self._events:
                if isinstance(event, Failed):
                    raise NnjitError(event.error["error"], event.error["hint"])
                if isinstance(event, Served):
                    self.seen.append(event)
                self.spaces += isinstance(event, SpaceBuilt)
                self.rounds += isinstance(event, RoundDone)
                self.swaps += isinstance(event, Swapped)
        except Exception as error:
            self.error = error


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
    device = bench.page.connect()
    bench.model.serve(options)
    on, off, full = Side(), Side(), Side()
    rest(bench, off)
    off.by_generation.clear()  # warm by now
    session = Watched(bench.tuning.start(None, exhaustive=True))
    try:
        while on.rounds_s < seconds and on.seconds < MOST_TIMES * seconds and not session.over:
            rest(bench, off)
            tune_block(bench, session, on, BLOCK_S)
            note(f"{on.seconds:6.1f} s of tuning, {on.rounds} rounds, {session.swaps} swaps")
        rest(bench, off)
        swaps = session.swaps
        bench.model.serve(ServeOptions(options.interval_ms, None))
        session.seen.clear()
        tune_block(bench, session, full, seconds * FULL_SPEED_SHARE)
        bench.page.runner.served(hold=False)
        bench.page.cancel()
        session.join()
    finally:
        bench.page.cancel()
        bench.model.stop_serving()  # what waits at the gate goes on
    return {
        "ok": True,
        **measured_on(device, before, bench.compiler.version),
        "model": model.name,
        "threads": bench.page.threads,
        "interval_ms": options.interval_ms,
        "budget": options.budget,
        "off": off.to_json(),
        "on": on.to_json(),
        "full_speed": full.to_json(),
        "swaps": swaps,
        **compared(on.by_generation, off.by_generation),
    }


def tune_block(bench: Workbench, session: Watched, side: Side, seconds: float) -> None:
    """Let tuning go on for so long, or until the session is over."""
    bench.page.runner.served(hold=False)
    session.seen.clear()  # of the rest before
    rounds, began, counts = session.rounds, time.monotonic(), session.spaces > 0
    while time.monotonic() - began < seconds and not session.over:
        time.sleep(min(0.1, seconds))
    elapsed_s = time.monotonic() - began
    last = bench.page.runner.served(hold=True)
    for event in session.seen:
        side.add(event)
    side.add(last)
    side.seconds += elapsed_s
    side.rounds_s += elapsed_s if counts else 0.0
    side.rounds += session.rounds - rounds


def rest(bench: Workbench, side: Side) -> None:
    """The model alone for half a block, tuning held at the gate."""
    bench.page.runner.served(hold=True)
    time.sleep(SETTLE_S)
    bench.page.runner.served()
    began = time.monotonic()
    count = 0
    while count < ENOUGH or time.monotonic() - began < BLOCK_S / 2:
        time.sleep(BLOCK_S / 4)
        seen = bench.page.runner.served()
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
