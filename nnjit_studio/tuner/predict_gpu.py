"""What the regression of :mod:`predict` sees of a GPU candidate."""

from __future__ import annotations

import math

from nnjit_studio.graph import Workload
from nnjit_studio.space.gpu_candidate import GpuCandidate
from nnjit_studio.space.gpu_profile import GpuProfile

FEATURES = (
    "idle_cores",
    "few_threads",
    "last_wave",
    "thread_intensity",
    "group_intensity",
    "deep",
    "shallow",
    "crowded",
    "split",
    "narrow_loads",
    "tails",
)
"""What the formula looks at; see :func:`features`."""

PRIOR_WEIGHTS = (-0.52, -0.11, -0.10, 0.0, 0.27, -0.13, -0.08, -0.11, -0.10, -0.15, -0.5)
"""What a unit of each feature adds to the logarithm of the rate.

The first eight: ridge regression within workloads on 58 float32 matmuls of three shapes,
Chromium 156 on an NVIDIA H200, 2026-11-20, residual 0.12 of a spread of 0.31. The other
three were no setting there: they are what a round of sums, a load of one element and a row
of idle results cost by count, and are learned on the device.
"""

BUSY_THREADS = 512
"""Of a core: fewer cannot hide what a load waits for."""
RESIDENT_THREADS = 2048
"""Of a core, on the GPUs of the table of :mod:`nnjit_studio.space.gpu_profile`."""
FIXED_REGISTERS = 24
"""Of a thread, beside sums and operands: addresses and counters."""
MOST_REGISTERS = 255
USUAL_DEPTH = 16
"""Elements of the reduction in a tile of workgroup memory that are usually best."""
WORKGROUP_BYTES = 16384
"""``maxComputeWorkgroupStorageSize`` where an adapter tells none: the least that WebGPU allows."""


def features(c: GpuCandidate, workload: Workload, gpu: GpuProfile) -> tuple[float, ...]:
    """The numbers of a candidate, in the order of :data:`FEATURES`; around 0 to 3 each.

    idle_cores
        log2 of cores by workgroups, where there are fewer of these.
    few_threads
        log2 of :data:`BUSY_THREADS` by the threads that a core holds at once, where fewer.
    last_wave
        log2 of workgroups of the busiest core by the average.
    thread_intensity, group_intensity
        log2 of multiply-adds by loaded element, of a thread and of a workgroup.
    deep, shallow
        log2 of r1 by :data:`USUAL_DEPTH`, above and below.
    crowded
        log2 of a workgroup's registers by a quarter of a core's, where more.
    split
        log2 of the parts of the reduction.
    narrow_loads
        log2 of 4 by the width of a load.
    tails
        Share of the work in workgroups that lies outside the result.
    """
    batch, m, n = _extents(workload)
    rows, columns = math.ceil(m / c.y1), math.ceil(n / c.x1)
    per_core = batch * rows * columns * c.split / gpu.cores
    registers = min(c.x0 * c.y0 + 2 * (c.x0 + c.y0) + FIXED_REGISTERS, MOST_REGISTERS)
    shared = gpu.limits.get("maxComputeWorkgroupStorageSize", WORKGROUP_BYTES)
    resident = max(
        1,
        min(
            gpu.registers_per_core // (c.threads * registers),
            4 * shared // ((c.x1 + c.y1) * c.r1 * 4),
            RESIDENT_THREADS // c.threads,
        ),
    )
    at_once = c.threads * max(1.0, min(resident, per_core))
    return (
        max(0.0, -math.log2(per_core)),
        max(0.0, math.log2(BUSY_THREADS / at_once)),
        math.log2(math.ceil(per_core) / per_core) if per_core >= 1 else 0.0,
        math.log2(c.x0 * c.y0 / (c.x0 + c.y0)),
        math.log2(c.x1 * c.y1 / (c.x1 + c.y1)),
        max(0.0, math.log2(c.r1 / USUAL_DEPTH)),
        max(0.0, math.log2(USUAL_DEPTH / c.r1)),
        max(0.0, math.log2(4 * c.threads * registers / gpu.registers_per_core)),
        math.log2(c.split),
        math.log2(4 / c.vec),
        1 - m * n / (rows * c.y1 * columns * c.x1),
    )


def family_of(workload: Workload) -> str:
    """``gpu-row`` where M is 1, else ``gpu``: what is learned of one says little of the other."""
    return "gpu-row" if _extents(workload)[1] == 1 else "gpu"


def _extents(workload: Workload) -> tuple[int, int, int]:
    """Batch, M and N of a workload written as a product; else its first dims, as one row each."""
    dims = workload.dims
    if len(dims) in (3, 4):
        return (dims[0] if len(dims) == 4 else 1), dims[-3], dims[-1]
    return 1, dims[0], dims[-1]
