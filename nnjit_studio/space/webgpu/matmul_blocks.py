"""The lite space of a product with weights in blocks on a GPU (docs/webgpu.md, "4-bit products").

Few rows wait for memory, so what differs is how many bytes a core has in flight and whether
every core has work; their rules answer for every candidate, as in :mod:`.matmul`. More rows are
tiles: candidates are those of :mod:`.matmul`, plus the cost of decoding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.records.quantised import BLOCK_KINDS
from nnjit_studio.space.webgpu.matmul import ANY_GPU, MatmulProblem
from nnjit_studio.space.webgpu.problem import (
    FIXED_REGISTERS,
    GpuProblem,
    cheapest,
    registers,
    shared_memory,
)
from nnjit_studio.space.webgpu.usage import ELEMENT_BYTES, MATVEC_ROWS

WORD = 8
"""Steps of k that are decoded together: a word of 4 bits, two of 8."""
COLUMNS = 4
"""Columns of a 16-byte load of words."""
X1_CHOICES = (16, 32, 64, 128)
THREADS_CHOICES = (64, 128, 256, 512)
R0_CHOICES = (1, 2, 4, 8)
GROUP = 32
"""Activations that become integers of a common unit; 32 x 15 x 2^22 is within an i32."""
IN_GROUPS = (4, 8)
"""Words of a group, and of two; sixteen were never the fastest on a large GPU."""
EIGHTS = (1, 2, 4)
"""Of activations that a thread makes integers between two barriers."""
MOST_OF_INTEGERS, LEAST_OF_INTEGERS = 256, 128
"""Words of a workgroup's columns in flight, and threads: more words or fewer threads were never the
fastest of nine products on a large GPU."""
MOST_CANDIDATES = 72
"""Of few rows, the fastest expected first."""
DECODING_INSTRUCTIONS = 4.0
"""For each element that is decoded: a shift, a mask, the zero point, the scale."""
UNTUNED = GpuCandidate(8, 8, 16, 128, 64, 16)
"""Of many rows; with reductions split, the fastest of 22 tiles in each of six products measured on
an NVIDIA H200, 2026-11-28: 39 to 43 TFLOP/s where the tiles before gave 20."""
ENOUGH_WORKGROUPS = 256
"""Of a product that nobody tuned: about two on each core of a large GPU."""
SHORTEST_PART = 1024
UNTUNED_SPLITS = (1, 2, 4)
MANY_ROWS = 4
"""From so many rows on a thread holds one word at a time."""
IN_FLIGHT_BYTES = 32 << 10
"""Bytes that a core should wait for at once: about 4 TB/s times 0.8 us over 132 cores, doubled."""
INTEGER_REGISTERS = 32
"""Of a row that becomes integers: its digits, and a word's values apart."""
EIGHT_BYTES, ADDED_BYTES = 26, 1
"""Of workgroup memory for each thread there: of an eight its digits, whose memory sums take later,
unit and total; and what it adds to a total over the row."""
INTEGER_STEP = 0.4
"""Of a step of integers, where one of floats is 1: instructions counted."""
CORE_BYTES = 16.0
"""Bytes that a core takes in the time of a step of a row's multiply-adds; a guess that orders."""


class BlockTiles(MatmulProblem):
    """Many rows: a product by tiles whose B is decoded as it is fetched."""

    @property
    def family(self) -> str:
        return "gpu-4bit"

    @property
    def fetch_cost(self) -> float:
        return DECODING_INSTRUCTIONS


@dataclass(frozen=True)
class BlockProblem(GpuProblem):
    """Few rows; what a candidate takes differs from products of float32."""

    bits: int = 4

    @property
    def family(self) -> str:
        return "gpu-row-4bit"

    @property
    def parts(self) -> int:
        """Words of eight values."""
        return self.bits * WORD // 32

    def workgroups(self, c: GpuCandidate) -> int:
        return self.batch * -(-self.n // c.x1)

    def threads(self, c: GpuCandidate) -> int:
        return c.x1 // COLUMNS * (c.r1 // WORD)

    def registers(self, c: GpuCandidate) -> int:
        if c.vec == 1:  # words and scales of the next step, those of a group at hand, activations
            words = (c.r0 + IN_GROUPS[0]) * (COLUMNS + 1)
            return words + WORD * c.y1 + INTEGER_REGISTERS + FIXED_REGISTERS
        words = COLUMNS * (self.parts + 1)
        return COLUMNS * c.y0 + c.r0 * (words + WORD * c.y0) + FIXED_REGISTERS

    def shared_bytes(self, c: GpuCandidate) -> int:
        if c.vec == 1:
            return (EIGHT_BYTES * c.y1 + ADDED_BYTES) * self.threads(c) + ELEMENT_BYTES * c.x1
        # Sums of some rows at a time (compiler/wgsl/templates/gemv_blocks.py), and the results.
        rows = max(1, min(c.y0, 8192 // (16 * self.threads(c))))
        return 16 * self.threads(c) * rows + ELEMENT_BYTES * c.x1 * c.y0

    def cost(self, c: GpuCandidate) -> float:
        each = math.ceil(self.workgroups(c) / self.gpu.cores)
        resident = min(each, self.blocks_per_core(c)) * self.threads(c)
        words = min(c.r0, max(1, self.k // c.r1))
        busy = min(1.0, resident * words * 4 * COLUMNS * self.parts / IN_FLIGHT_BYTES)
        scattered = 1 + max(0.0, 1 - c.x1 / self.gpu.warp)
        rounds = math.ceil(self.k / c.r1) * c.r1
        step = INTEGER_STEP if c.vec == 1 else self.m
        return each * c.x1 * rounds * (step + CORE_BYTES * self.parts) * scattered / busy


def block_problem(workload: Workload, gpu: GpuProfile) -> BlockProblem | BlockTiles:
    """Sizes of a workload ``matmul_4bit:MxKxN``, in 8 bits alike, or of a batch ``BxMxKxN``.

    Raises
    ------
    UserError
        When the workload is another.
    """
    bits = next((b for b, kind in BLOCK_KINDS.items() if kind == workload.kind), 0)
    if not bits or len(workload.dims) not in (3, 4):
        raise UserError(f"{workload.name} is no product with weights in blocks.", "Give one.")
    batch, m, k, n = (1, *workload.dims)[-4:]
    if m <= MATVEC_ROWS:
        return BlockProblem(batch, m, k, n, gpu, False, bits)
    return BlockTiles(batch, m, k, n, gpu, False)


@lru_cache(maxsize=64)
def untuned_blocks(m: int, k: int, n: int, batch: int = 1) -> GpuCandidate:
    """Settings of many rows that run on every device.

    A reduction is split until a large GPU has workgroups enough. Of fewer rows it is the best
    expected of a GPU of middle size.
    """
    if m <= UNTUNED.y1 // 2:
        tiles = BlockTiles(batch, m, k, n, ANY_GPU, False).tiles
        return tiles[0] if tiles else GpuCandidate(4, 4, 4, 32, 32, 16)
    narrow = batch > 1 and n <= UNTUNED.y1  # as heads are
    tile = replace(UNTUNED, x1=UNTUNED.y1, y1=UNTUNED.x1) if narrow else UNTUNED
    workgroups = batch * -(-m // tile.y1) * -(-n // tile.x1)
    wanted = min(ENOUGH_WORKGROUPS / workgroups, k / SHORTEST_PART)
    split = next((s for s in UNTUNED_SPLITS if s >= wanted), UNTUNED_SPLITS[-1])
    return replace(tile, split=split)


def few_row_candidates(problem: BlockProblem) -> list[GpuCandidate]:
    """What every rule accepts, the fastest expected first."""
    return cheapest(_grid(problem), problem, RULES, MOST_CANDIDATES)


def _grid(p: BlockProblem) -> Iterator[GpuCandidate]:
    for x1, threads, r0 in product(X1_CHOICES, THREADS_CHOICES, R0_CHOICES):
        depth = WORD * threads * COLUMNS // x1
        yield GpuCandidate(COLUMNS, p.m, r0, x1, p.m, depth)
    yield from rows_of_integers(p.k) if p.m == 1 and p.bits == 4 else ()


def rows_of_integers(k: int) -> Iterator[GpuCandidate]:
    """All that is worth a look for a row of ``k`` values, on any device.

    Neither half the eights of a thread nor, from 256 on, half the threads would do for the row.
    """
    for x1, threads, r0, y1 in product(X1_CHOICES, THREADS_CHOICES, IN_GROUPS, EIGHTS):
        enough = threads >= LEAST_OF_INTEGERS and COLUMNS * r0 <= x1 * y1
        half = WORD // 2 * threads
        needed = (y1 == 1 or half * y1 < k) and (threads == LEAST_OF_INTEGERS or half < k)
        if enough and needed and x1 * r0 <= MOST_OF_INTEGERS:
            yield GpuCandidate(COLUMNS, 1, r0, x1, y1, WORD * threads * COLUMNS // x1, vec=1)


Rule = Callable[[GpuCandidate, BlockProblem], tuple[bool, str]]


def template(c: GpuCandidate, p: BlockProblem) -> tuple[bool, str]:
    """What the templates can make: 16-byte loads, all rows in one thread, no split."""
    ok = c.vec in (1, COLUMNS) and c.split == 1 and c.x0 == COLUMNS and c.y0 == p.m
    if c.vec == 1:
        ok = (
            ok
            and p.m == 1
            and p.bits == 4
            and p.k % GROUP == 0
            and c.r0 in IN_GROUPS
            and c.y1 in EIGHTS
        )
        ok = ok and COLUMNS * c.r0 <= c.x1 * c.y1 and c.x1 * c.r0 <= MOST_OF_INTEGERS
        ok = ok and p.threads(c) >= LEAST_OF_INTEGERS
        return ok, f"one row of integers, whole groups of {GROUP}, {c.r0} words of a thread"
    ok = ok and c.y1 == p.m
    return ok, f"a thread keeps all rows ({p.m}) of {c.x0} columns"


def sizes(c: GpuCandidate, p: BlockProblem) -> tuple[bool, str]:
    """Powers of two (Heuristic 2), at most the problem rounded up."""
    ok = all(not x & (x - 1) for x in (c.x1, c.r0, c.r1)) and c.x1 <= max(p.n, X1_CHOICES[0])
    ok = ok and c.r1 * c.r0 <= max(p.k, c.r1)
    return ok, f"columns {c.x1} of {p.n}, depth {c.r1} x {c.r0} of {p.k}"


def threads(c: GpuCandidate, p: BlockProblem) -> tuple[bool, str]:
    """Heuristic 5 with the adapter's limit; up to 512, to fill a core at once."""
    count = p.threads(c)
    most = min(THREADS_CHOICES[-1], p.gpu.limit("maxComputeInvocationsPerWorkgroup"))
    ok = p.gpu.warp <= count <= most and count % p.gpu.warp == 0
    return ok, f"Thread_block {count}, whole warps of {p.gpu.warp}, at most {most}"


def in_flight(c: GpuCandidate, p: BlockProblem) -> tuple[bool, str]:
    """With several rows, registers hold one word in flight."""
    ok = p.m < MANY_ROWS or c.r0 == 1
    return ok, f"{c.r0} words of a thread in flight"


RULES: tuple[Rule, ...] = (template, sizes, threads, shared_memory, registers, in_flight)
TOLD_RULES: tuple[Rule, ...] = (registers, shared_memory, threads)
