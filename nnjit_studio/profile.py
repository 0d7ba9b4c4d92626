"""Where a model's time goes: per step, cold and warm apart, and its memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from nnjit_studio.graph import DTYPE_BYTES, Graph, Plan, Workload
from nnjit_studio.space.records import DeviceProfile, Inference
from nnjit_studio.tuner.swap_policy import gflops_of


class Profilable(Protocol):
    """What a profile needs of the workbench."""

    device: DeviceProfile | None

    def open_model(
        self,
        path: Path,
        on_phase: Callable[[str], None],
        feeds: Mapping[str, NDArray[Any]] | None,
    ) -> Any: ...

    def register_best(self) -> None: ...

    def infer(self, runs: int = 1, profile: bool = False) -> Inference: ...


def profile_model(
    bench: Profilable,
    path: Path,
    feeds: Mapping[str, NDArray[Any]] | None,
    runs: int,
    on_phase: Callable[[str], None] = lambda phase: None,
) -> dict[str, Any]:
    """Run a model cold once, then ``runs`` times warm; a JSON document.

    Returns
    -------
    dict
        ``cold_ms`` by phase, ``warm`` (median, min, IQR in ms), ``memory``
        in bytes, and one row for each step: workload, ms, share, GFLOP/s,
        GB/s, the threads that ran it and percent of their measured peak.
    """
    opened = bench.open_model(path, on_phase, feeds)
    on_phase("compiling kernels")
    started = time.perf_counter()
    bench.register_best()
    compile_ms = (time.perf_counter() - started) * 1e3
    on_phase("running")
    first = bench.infer(1)
    warm = bench.infer(runs)
    steps = bench.infer(runs, profile=True)
    assert bench.device is not None
    rows = step_rows(
        opened.graph,
        opened.plan,
        opened.workloads,
        steps.steps_ms,
        bench.device,
        steps.steps_threads,
    )
    quartiles = (
        statistics.quantiles(warm.runs_ms, n=4) if len(warm.runs_ms) > 1 else [warm.runs_ms[0]] * 3
    )
    return {
        "model": opened.graph.name,
        "target": {"name": bench.device.target, "user_agent": bench.device.user_agent},
        "threads": bench.device.threads,
        "tier": bench.device.best_tier,
        "peak_gflops": bench.device.peak_gflops.get(bench.device.best_tier, 0.0),
        "cold_ms": {
            **opened.import_ms,
            "compile and register kernels": compile_ms,
            "first run": first.runs_ms[0],
        },
        "warm": {
            "median_ms": statistics.median(warm.runs_ms),
            "min_ms": min(warm.runs_ms),
            "iqr_ms": quartiles[2] - quartiles[0],
            "runs": len(warm.runs_ms),
        },
        "memory": {
            "weights_bytes": opened.plan.weights_bytes,
            "arena_bytes": opened.plan.arena_bytes,
        },
        "steps": rows,
    }


def step_rows(
    graph: Graph,
    plan: Plan,
    workloads: tuple[Workload, ...],
    steps_ms: tuple[float, ...],
    device: DeviceProfile,
    steps_threads: tuple[int, ...] = (),
) -> list[dict[str, Any]]:
    """One row for each step, in order of execution; one thread each where none are given."""
    by_key = {w.key: w for w in workloads}
    total = sum(steps_ms) or 1.0
    peak = device.peak_gflops.get(device.best_tier, 0.0)
    calls = [step for step in plan.steps if step.op == "call"]
    rows = []
    threads_of = steps_threads or (1,) * len(calls)
    for node, step, ms, threads in zip(graph.nodes, calls, steps_ms, threads_of, strict=True):
        workload = by_key[step.workload]
        specs = [graph.tensors[name] for name in (*node.inputs, *node.outputs)]
        moved = sum(spec.size * DTYPE_BYTES[spec.dtype] for spec in specs)
        gflops = gflops_of(workload.flops, ms)
        rows.append(
            {
                "node": node.name,
                "op": node.op,
                "workload": workload.name,
                "source": list(node.source),
                "ms": ms,
                "share": ms / total,
                "gflops": gflops,
                "gbytes_per_s": moved / ms / 1e6 if ms > 0 else 0.0,
                "threads": threads,
                "percent_of_peak": 100.0 * gflops / (peak * threads) if peak else None,
            }
        )
    return rows


def trace_events(profile: Mapping[str, Any]) -> dict[str, Any]:
    """Chrome trace events of one median run, a track for each thread; Perfetto opens the file."""
    names = ["engine worker", *(f"helper {i}" for i in range(1, profile["threads"]))]
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": profile["model"]}},
        *(
            {"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": name}}
            for tid, name in enumerate(names, 1)
        ),
    ]
    at_us = 0.0
    for row in profile["steps"]:
        duration_us = row["ms"] * 1e3
        events += [
            {
                "ph": "X",
                "pid": 1,
                "tid": tid,
                "name": row["op"],
                "cat": "kernel",
                "ts": at_us,
                "dur": duration_us,
                "args": {k: row[k] for k in ("node", "workload", "gflops", "share")},
            }
            for tid in range(1, row["threads"] + 1)
        ]
        at_us += duration_us
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def as_text(profile: Mapping[str, Any]) -> str:
    """The profile as a table for people, the slowest steps first."""
    warm = profile["warm"]
    memory = profile["memory"]
    lines = [
        f"{profile['model']}: {warm['median_ms']:.2f} ms "
        f"(min {warm['min_ms']:.2f}, IQR {warm['iqr_ms']:.2f}, {warm['runs']} runs), "
        f"weights {memory['weights_bytes'] / 2**20:.1f} MiB, "
        f"arena {memory['arena_bytes'] / 2**20:.1f} MiB, threads {profile['threads']}",
        "cold: " + ", ".join(f"{k} {v:.0f} ms" for k, v in profile["cold_ms"].items()),
        "",
        f"{'step':<34} {'workload':<46} {'ms':>8} {'share':>6} "
        f"{'GFLOP/s':>8} {'GB/s':>6} {'peak':>5}",
    ]
    for row in sorted(profile["steps"], key=lambda r: -r["ms"]):
        percent = row["percent_of_peak"]
        lines.append(
            f"{row['node'][:34]:<34} {row['workload'][:46]:<46} {row['ms']:8.3f} "
            f"{row['share']:6.1%} {row['gflops']:8.1f} {row['gbytes_per_s']:6.1f} "
            + (f"{percent:4.0f}%" if percent is not None else "    -")
        )
    return "\n".join(lines)
