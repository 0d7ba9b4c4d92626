"""The lite space of a product with 4-bit weights on a GPU (docs/webgpu.md, "4-bit products").

Rules as in :mod:`.matmul`: each answers for every candidate. Few rows wait
for memory, so what differs is how many bytes a core has in flight and whether
every core has work; more rows are tiles whose block is decoded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.records.quantised import MATMUL_4BIT
from nnjit_studio.space.webgpu.problem import (
    FIXED_REGISTERS,
    GpuProblem,
    cheapest,
    registers,
    shared_memory,
)
from nnjit_studio.space.webgpu.usage import ELEMENT_BYTES

WORD = 8
"""Steps of k in a word."""
COLUMNS = 4
"""Columns of a 16-byte load of words."""
X1_CHOICES = (16, 32, 64, 128)
THREADS_CHOICES = (64, 128, 256, 512)
R0_CHOICES = (1, 2, 4, 8)
TILE_CHOICES = (4, 8)
Y1_CHOICES = (16, 32, 64)
TILE_R1_CHOICES = (16, 32)
"""Parts of the block of 32 that nearly all models have; another block may refuse one."""
MANY_ROWS = 4
"""From so many rows on a thread holds one word at a time."""
IN_FLIGHT_BYTES = 32 << 10
"""Bytes that a core should wait for at once: about 4 TB/s times 0.8 us over 132 cores, doubled."""
CORE_BYTES = 16.0
"""Bytes that a core takes in the time of a step of a row's multiply-adds; a guess that orders."""


class FourBitProblem(GpuProblem):
    """Sizes of one product; what a candidate takes differs from products of float32."""

    @property
    def family(self) -> str:
        return "gpu-row-4bit" if self.few_rows else "gpu-4bit"

    def workgroups(self, c: GpuCandidate) -> int:
        return -(-self.m // c.y1) * -(-self.n // c.x1)

    def threads(self, c: GpuCandidate) -> int:
        return c.x1 // COLUMNS * (c.r1 // WORD) if self.few_rows else c.threads

    def registers(self, c: GpuCandidate) -> int:
        if self.few_rows:
            return COLUMNS * c.y0 + c.r0 * (2 * COLUMNS + WORD * c.y0) + FIXED_REGISTERS
        return c.x0 * c.y0 + c.x0 + c.y0 + FIXED_REGISTERS

    def shared_bytes(self, c: GpuCandidate) -> int:
        if self.few_rows:
            # Sums of some rows at a time (compiler/wgsl/templates/gemv_4bit.py), and the results.
            rows = max(1, min(c.y0, 8192 // (16 * self.threads(c))))
            return 16 * self.threads(c) * rows + ELEMENT_BYTES * c.x1 * c.y0
        return (c.y1 + COLUMNS + c.x1) * c.r1 * ELEMENT_BYTES

    def cost(self, c: GpuCandidate) -> float:
        each = math.ceil(self.workgroups(c) / self.gpu.cores)
        resident = min(each, self.blocks_per_core(c)) * self.threads(c)
        if self.few_rows:
            words = min(c.r0, max(1, self.k // c.r1))
            busy = min(1.0, resident * words * 4 * COLUMNS / IN_FLIGHT_BYTES)
            scattered = 1 + max(0.0, 1 - c.x1 / self.gpu.warp)
            rounds = math.ceil(self.k / c.r1) * c.r1
            return each * c.x1 * rounds * (self.m + CORE_BYTES) * scattered / busy
        loads = 1 + 4 * (c.x1 + c.y1) / (c.x1 * c.y1) + (c.x0 + c.y0) / (c.x0 * c.y0)
        decoded = 1 + 4 / c.y1
        busy = min(1.0, math.sqrt(resident / 512))
        return each * c.x1 * c.y1 * self.k * loads * decoded / busy


def four_bit_problem(workload: Workload, gpu: GpuProfile) -> FourBitProblem:
    """Sizes of a workload ``matmul_4bit:MxKxN``.

    Raises
    ------
    UserError
        When the workload is another.
    """
    if workload.kind != MATMUL_4BIT or len(workload.dims) != 3:
        raise UserError(f"{workload.name} is no product with 4-bit weights.", "Give one.")
    m, k, n = workload.dims
    return FourBitProblem(1, m, k, n, gpu, False)


def four_bit_candidates(problem: FourBitProblem) -> list[GpuCandidate]:
    """What every rule accepts, the fastest expected first."""
    return cheapest(_grid(problem), problem, RULES)


def _grid(p: FourBitProblem) -> Iterator[GpuCandidate]:
    if p.few_rows:
        for x1, threads, r0 in product(X1_CHOICES, THREADS_CHOICES, R0_CHOICES):
            yield GpuCandidate(COLUMNS, p.m, r0, x1, p.m, WORD * threads * COLUMNS // x1)
        return
    for x0, y0, x1, y1, r1 in product(
        TILE_CHOICES, TILE_CHOICES, X1_CHOICES[1:], Y1_CHOICES, TILE_R1_CHOICES
    ):
        yield GpuCandidate(x0, y0, 1, x1, y1, r1)


Rule = Callable[[GpuCandidate, FourBitProblem], tuple[bool, str]]


def template(c: GpuCandidate, p: FourBitProblem) -> tuple[bool, str]:
    """What the templates can make: 16-byte loads, all few rows in one thread, no split."""
    common = c.vec == COLUMNS and c.split == 1
    if p.few_rows:
        ok = common and c.x0 == COLUMNS and c.y0 == c.y1 == p.m
        return ok, f"a thread keeps all rows ({p.m}) of {c.x0} columns"
    ok = common and c.x0 in TILE_CHOICES and c.y0 in TILE_CHOICES and c.r0 == 1
    return ok, f"a thread keeps {c.y0} rows of {c.x0} columns"


def sizes(c: GpuCandidate, p: FourBitProblem) -> tuple[bool, str]:
    """Powers of two (Heuristic 2), at most the problem rounded up."""
    numbers = (c.x1, c.r0, c.r1) if p.few_rows else (c.x1, c.y1, c.r1)
    ok = all(not x & (x - 1) for x in numbers) and c.x1 <= max(p.n, X1_CHOICES[0])
    if p.few_rows:
        ok = ok and c.r1 * c.r0 <= max(p.k, c.r1)
    else:
        ok = ok and c.y1 < 2 * max(p.m, Y1_CHOICES[0]) and p.k % c.r1 == 0
    return ok, f"columns {c.x1} of {p.n}, rows {c.y1} of {p.m}, depth {c.r1} x {c.r0} of {p.k}"


def threads(c: GpuCandidate, p: FourBitProblem) -> tuple[bool, str]:
    """Heuristic 5 with the adapter's limit; few rows may have up to 512, to fill a core at once."""
    count = p.threads(c)
    most = min(THREADS_CHOICES[-1], p.gpu.limit("maxComputeInvocationsPerWorkgroup"))
    ok = p.gpu.warp <= count <= most and count % p.gpu.warp == 0
    return ok, f"Thread_block {count}, whole warps of {p.gpu.warp}, at most {most}"


def in_flight(c: GpuCandidate, p: FourBitProblem) -> tuple[bool, str]:
    """Few rows: with several rows, registers hold one word in flight."""
    ok = not p.few_rows or p.m < MANY_ROWS or c.r0 == 1
    return ok, f"{c.r0} words of a thread in flight"


RULES: tuple[Rule, ...] = (template, sizes, threads, shared_memory, registers, in_flight)
TOLD_RULES: tuple[Rule, ...] = (registers, shared_memory, threads)
