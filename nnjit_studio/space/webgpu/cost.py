"""The expected time of a WGSL product, which orders a lite space before any measurement."""

from __future__ import annotations

import math

from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.space.webgpu.problem import GpuProblem

BASE_R1 = 16
BUSY_THREADS = 512
"""Threads of a core that hide what a load waits for."""
BUSY_SUMS = 16384
"""Sums of a core's threads that hide what a load waits for: each is a chain of its own."""
IDLE_POWER, LOAD_COST, CROWD_COST = 0.35, 10.0, 1.0
"""How the logarithm of the time grows with idle sums, loads by product, crowded registers."""
OWN_COST = 1.0
"""Of what a thread loads from workgroup memory for each product; tiles that differ in nothing
else were not measured, so this is an estimate."""
DEPTH_COST = 0.15
"""Of each doubling or halving of r1 from :data:`BASE_R1`.

All these are rounded from two ridge regressions of the logarithm of the time, on 134 and 518
kernels of five shapes, NVIDIA H200, Chromium 156, 2026-11-21, with templates since changed; they
disagree by a factor of two in some weights. They order the space and promise nothing.
"""
SUM_COST = 16.0
"""Writing or reading one partial sum, in multiply-adds of a core: its share of the cache."""
READ_COST = 32
"""Reading one element of a matrix once, in multiply-adds of a core."""
BUSY_ELEMENTS = 4096
"""Elements that a core must have asked for to keep its memory busy: 16 KiB, about what 4 TB/s over
132 cores takes at a latency of 500 ns."""
WORKGROUP_COST = 4000.0
"""Starting a workgroup and adding its slices, in multiply-adds of a core."""
SECOND_DISPATCH = 7e5
"""What a second dispatch costs, in multiply-adds of a core: about 3 us."""


def expected_cost(c: GpuCandidate, p: GpuProblem, fetch_cost: float = 0.0) -> float:
    """Expected time, in multiply-adds of the busiest core at its full rate.

    A model, not a claim; ``fetch_cost`` is in instructions beyond the load for each element of B
    that is fetched. A core is slower where few sums hide its waits, where
    tiles load much for each product, and where registers are crowded; parts of
    a reduction have to be written and read again.
    """
    each = math.ceil(p.workgroups(c) * c.split / p.gpu.cores)
    resident = min(each, p.blocks_per_core(c)) * p.threads(c)
    second = 0.0
    if c.split > 1:
        sums = c.split * p.batch * p.m * p.n
        second = SECOND_DISPATCH + 2 * sums * SUM_COST / p.gpu.cores
    if p.few_rows:
        run = c.r1 if p.along_k else c.x1
        scattered = 1 + max(0.0, 1 - run / p.gpu.warp)
        in_flight = resident * c.r0 * c.x0
        idle = math.sqrt(max(1.0, BUSY_ELEMENTS / in_flight))
        work = max(p.m, READ_COST) * c.x1 * p.k / c.split * scattered * idle
        return each * (work + WORKGROUP_COST) + second
    idle = math.pow(max(1.0, BUSY_SUMS / (resident * c.x0 * c.y0)), IDLE_POWER)
    crowded = max(0.0, p.registers(c) / (p.gpu.registers_per_thread / 2) - 1)
    slower = (
        LOAD_COST * (c.x1 + c.y1) / (c.x1 * c.y1)
        + OWN_COST * (c.x0 + c.y0) / (c.x0 * c.y0)
        + fetch_cost / c.y1
        + DEPTH_COST * abs(math.log2(c.r1 / BASE_R1))
        + CROWD_COST * crowded
    )
    return each * c.x1 * c.y1 * p.k / c.split * idle * math.exp(slower) + second
