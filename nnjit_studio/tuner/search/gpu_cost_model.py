"""Features and prior mean of a GPU candidate, for the regression of :mod:`cost_model`."""

from __future__ import annotations

import math

from nnjit_studio.model import Workload
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.space.registry import gpu_space_of
from nnjit_studio.space.webgpu.problem import GpuProblem

BUSY_THREADS = 512
"""Of a core: fewer cannot hide what a load waits for."""
USUAL_DEPTH = 16
"""Elements of the reduction in a tile of workgroup memory that are usually best."""
CERTAINTY = 3.0
"""How far the regression may move what these features add, compared with those of Wasm: the formula
behind a GPU's mean was fitted on one GPU and meets others, software among them."""


def features(c: GpuCandidate, p: GpuProblem) -> tuple[float, ...]:
    """What candidates may have in common on a device, around 0 to 3 each, times
    :data:`CERTAINTY`.

    In order: log2 of cores by workgroups where there are fewer of these; of
    :data:`BUSY_THREADS` by the threads that a core holds at once, where fewer; of
    multiply-adds by loaded element of a thread, and of a workgroup; of r1 by
    :data:`USUAL_DEPTH`, above and below; of the parts of the reduction; of the threads of a
    workgroup; and the share of work outside the result.
    """
    groups = p.workgroups(c) * c.split
    resident = min(max(1.0, groups / p.gpu.cores), p.blocks_per_core(c)) * p.threads(c)
    rows, columns = math.ceil(p.m / c.y1), math.ceil(p.n / c.x1)
    numbers = (
        max(0.0, math.log2(p.gpu.cores / groups)),
        max(0.0, math.log2(BUSY_THREADS / resident)),
        math.log2(c.x0 * c.y0 / (c.x0 + c.y0)),
        math.log2(c.x1 * c.y1 / (c.x1 + c.y1)),
        max(0.0, math.log2(c.r1 / USUAL_DEPTH)),
        max(0.0, math.log2(USUAL_DEPTH / c.r1)),
        math.log2(c.split),
        math.log2(p.threads(c)) / 4,
        1 - p.m * p.n / (rows * c.y1 * columns * c.x1),
    )
    return tuple(CERTAINTY * number for number in numbers)


def log_share(c: GpuCandidate, p: GpuProblem) -> float:
    """Logarithm of the share of the peak that a candidate is expected at, up to a constant."""
    ideal = p.batch * p.m * p.n * p.k / p.gpu.cores
    return math.log(ideal / p.cost(c))


def prior_of(
    c: GpuCandidate, workload: Workload, gpu: GpuProfile
) -> tuple[float, tuple[float, ...], str]:
    """:func:`log_share`, :func:`features`, and the family of its space.

    Raises
    ------
    UserError
        When the workload has no lite space on a GPU.
    """
    problem = gpu_space_of(workload, gpu).problem
    return log_share(c, problem), features(c, problem), problem.family
