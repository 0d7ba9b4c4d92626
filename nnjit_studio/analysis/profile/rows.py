"""From medians of steps to rates, shares and places on the roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnjit_studio.analysis.profile.records import StepProfile
from nnjit_studio.model import Graph, Node, Plan, Workload
from nnjit_studio.model.placement import CPU, GPU, Device
from nnjit_studio.records import DeviceProfile, Inference
from nnjit_studio.tuner.swap_policy import gflops_of

GATHERS = ("take", "gather", "gather_nd", "gather_elements")
"""Kinds that read a part of their first input: as much as they write."""


def step_rows(
    graph: Graph,
    plan: Plan,
    workloads: Sequence[Workload],
    times: Inference,
    device: DeviceProfile,
    bandwidth_gbs: Mapping[int, float],
    placed: Sequence[Device] = (),
) -> list[StepProfile]:
    """One row for each step, in order of execution.

    Parameters
    ----------
    times
        Of runs step by step; one thread, no spread and no chunks where it does not tell.
    bandwidth_gbs
        Measured, 10^9 bytes a second by number of threads.
    placed
        What ran each step, where the steps of a model on a GPU are divided; all ran on the same
        when empty. Peak and bandwidth of the GPU say nothing of a step in Wasm.
    """
    by_key = {w.key: w for w in workloads}
    total = sum(times.steps_ms) or 1.0
    calls = [step for step in plan.steps if step.op == "call"]
    rows = []
    whole: Device = GPU if device.gpu else CPU
    for node, step, place, ms, threads, iqr_ms, chunks in zip(
        graph.nodes,
        calls,
        placed or (whole,) * len(calls),
        times.steps_ms,
        times.steps_threads or (1,) * len(calls),
        times.steps_iqr_ms or (0.0,) * len(calls),
        times.steps_chunks or ((),) * len(calls),
        strict=True,
    ):
        workload = by_key[step.workload]
        nbytes = bytes_moved(graph, node, workload)
        gflops = gflops_of(workload.flops, ms)
        gbs = nbytes / ms / 1e6 if ms > 0 else 0.0
        peak = _peak(device, workload.kind, threads) if place == whole else None
        of_peak = 100.0 * gflops / peak if peak else None
        bandwidth = at_most(bandwidth_gbs, threads) if place == whole else None
        of_bandwidth = 100.0 * gbs / bandwidth if bandwidth else None
        bound, of_roof = _roof(of_peak if workload.flops else 0.0, of_bandwidth)
        rows.append(
            StepProfile(
                node=node.name,
                op=node.op,
                workload=workload.name,
                source=node.source,
                ms=ms,
                iqr_ms=iqr_ms,
                share=ms / total,
                flops=workload.flops,
                nbytes=nbytes,
                gflops=gflops,
                gbytes_per_s=gbs,
                threads=threads,
                intensity=workload.flops / nbytes if nbytes else 0.0,
                bound=bound,
                percent_of_peak=of_peak,
                percent_of_roof=of_roof,
                device=place,
                chunks=chunks,
            )
        )
    return rows


def bytes_moved(graph: Graph, node: Node, workload: Workload) -> int:
    """Bytes of all tensors that a step reads and writes."""
    written = sum(graph.tensors[name].nbytes for name in node.outputs)
    read = [graph.tensors[name].nbytes for name in node.inputs]
    if read and workload.kind in GATHERS:
        table = max(range(len(read)), key=read.__getitem__)
        read[table] = min(read[table], written)
    return sum(read) + written


def _peak(device: DeviceProfile, kind: str, threads: int) -> float | None:
    whole = device.peak(device.best_tier, kind)
    return None if whole is None else whole / device.threads * threads


def at_most(by_threads: Mapping[int, float], threads: int) -> float | None:
    """The entry of this many threads, else of the next fewer."""
    fewer = [n for n in by_threads if n <= threads]
    return by_threads[max(fewer)] if fewer else None


def _roof(of_peak: float | None, of_bandwidth: float | None) -> tuple[str, float | None]:
    """Which limit a step is closer to, and the percentage of that one.

    A step at ``gflops`` with ``intensity`` has the roof ``min(peak, intensity * bandwidth)``;
    its percentage of that is the larger of those of the two limits.
    """
    if of_peak is None or of_bandwidth is None:
        # A rate near the peak of multiply-adds cannot be bound by memory.
        near = of_peak is not None and of_peak >= NEAR_PEAK
        return ("compute", of_peak) if near else ("", None)
    return ("compute", of_peak) if of_peak >= of_bandwidth else ("memory", of_bandwidth)


NEAR_PEAK = 60.0
"""Percent."""
