"""Chrome trace events of one median run; Perfetto opens the file.

Tracks: the phases of the cold start; layers, by the names of nodes; one for each thread of the
engine, with the steps of which it took chunks, and how many; a counter of the threads that a step
ran on; a counter of the arena's live bytes. A helper's span is as long as its step: chunks are
counted, their begin and end are not written down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from nnjit_studio.analysis.profile.records import ModelProfile
from nnjit_studio.model.scopes import levels

START, RUN = 1, 2
"""Process ids: tracks of the cold start and of the steady run begin at 0 each."""
LAYERS = 1000
"""Thread ids of layers begin here, the outermost first."""


def trace_events(profile: ModelProfile) -> dict[str, Any]:
    """The trace document; times in microseconds, as the format wants."""
    layers = levels([step.node for step in profile.steps])
    tracks = {LAYERS + i: "layers" if not i else f"layers {i + 1}" for i in range(len(layers))}
    tracks |= {1: "engine worker", **{1 + i: f"helper {i}" for i in range(1, profile.threads)}}
    events: list[dict[str, Any]] = [
        *_names(START, f"{profile.model}: cold start", {1: "phases"}),
        *_names(RUN, f"{profile.model}: steady run on {profile.target}", tracks),
        *_layers(profile, layers),
    ]
    at_us = 0.0
    for phase, ms in profile.cold_ms.items():
        events.append(_span(START, 1, phase, "phase", at_us, ms * 1e3, {}))
        at_us += ms * 1e3
    at_us = 0.0
    live = profile.memory.live_bytes
    for i, step in enumerate(profile.steps):
        duration_us = step.ms * 1e3
        args = {
            "step": step.node,
            "workload": step.workload,
            "fused from": ", ".join(step.source),
            "GFLOP/s": round(step.gflops, 2),
            "GB/s": round(step.gbytes_per_s, 2),
            "share": round(step.share, 4),
            "threads": step.threads,
        }
        for thread, chunks in enumerate(step.chunks or (1,)):
            if thread and not chunks:
                continue
            here = {**args, "chunks": f"{chunks} of {sum(step.chunks)}"} if step.chunks else args
            events.append(_span(RUN, 1 + thread, step.op, "kernel", at_us, duration_us, here))
        events.append(_counter("busy threads", at_us, {"threads": step.threads}))
        if len(live) == len(profile.steps):
            events.append(_counter("live arena", at_us, {"bytes": live[i]}))
        at_us += duration_us
    events.append(_counter("busy threads", at_us, {"threads": 0}))
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _layers(
    profile: ModelProfile, layers: Sequence[Sequence[tuple[str, int, int]]]
) -> Iterator[dict[str, Any]]:
    """A span for each stretch of a layer, as long as its steps."""
    ends = list(accumulate((step.ms * 1e3 for step in profile.steps), initial=0.0))
    for level, stretches in enumerate(layers):
        for prefix, first, last in stretches:
            steps = profile.steps[first : last + 1]
            args = {
                "layer": prefix,
                "steps": len(steps),
                "share": round(sum(step.share for step in steps), 4),
            }
            name = prefix.rsplit("/", 1)[-1]
            duration = ends[last + 1] - ends[first]
            yield _span(RUN, LAYERS + level, name, "layer", ends[first], duration, args)


def _names(pid: int, process: str, threads: Mapping[int, str]) -> list[dict[str, Any]]:
    return [
        {"ph": "M", "pid": pid, "tid": 1, "name": "process_name", "args": {"name": process}},
        *(
            {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}
            for tid, name in threads.items()
        ),
    ]


def _span(
    pid: int, tid: int, name: str, category: str, ts: float, dur: float, args: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X", "pid": pid, "tid": tid, "name": name, "cat": category, "ts": ts, "dur": dur,
        "args": args,
    }  # fmt: skip


def _counter(name: str, ts: float, values: dict[str, float]) -> dict[str, Any]:
    return {"ph": "C", "pid": RUN, "tid": 1, "name": name, "ts": ts, "args": values}
