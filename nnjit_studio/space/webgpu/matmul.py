"""The lite space of a product on a GPU: Table 1 of the NNJIT paper for WebGPU, one function a rule.

Limits are the adapter's, constants those of its :class:`GpuProfile`. Two kinds of
kernels, chosen by the rows of the product: tiles in workgroup memory, and, up
to :data:`MATVEC_ROWS` rows, a matrix that is read once. Both read their
settings as :class:`GpuCandidate` says.

Every rule answers for every candidate, so ``explain`` can say why one is out.
What is enumerated is the product of powers of two (Heuristic 2); of the
candidates that pass, all tiles are kept with the first choice of r0, r1 and
split, and the tiles that are expected to be fastest with the others too, one
at a time, as in the paper's microbenchmarks (section 5.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import product

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.space.wasm.dot import DOT_KINDS
from nnjit_studio.space.webgpu.cost import BASE_R1, BUSY_THREADS, expected_cost
from nnjit_studio.space.webgpu.problem import FIXED_REGISTERS, GpuProblem, cheapest
from nnjit_studio.space.webgpu.usage import (
    ELEMENT_BYTES,
    MATVEC_ROWS,
    WIDTH,
    matvec_threads,
    stages,
    thread_registers,
    workgroup_bytes,
)

MATMUL_KINDS = ("matmul", "batch_matmul", *DOT_KINDS.values())

X0_CHOICES = (4, 8)
Y0_CHOICES = (2, 4, 8, 16)
X1_CHOICES = (16, 32, 64, 128)
Y1_CHOICES = (16, 32, 64, 128)
LOW_TILE = 8
"""Rows of a tile where few rows have no template of their own."""
R1_CHOICES = (8, 16, 32)
SPLIT_CHOICES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Parts of the reduction: an exception to Heuristic 2, for K is often 3 times a power of two.

Measured on an NVIDIA H200, Chromium 156, 2026-11-21: of 110 kernels of 384x768x768 nine of the
ten fastest have 3 or 6 parts.
"""
ROLLED_R0 = 4
"""The other unroll than all of r1. Unrolled whole, a tile is the fastest of its kind in every
shape measured on an NVIDIA H200, by 5 to 30 %; its pipeline takes two to four times as long."""

ROW_X0_CHOICES = (1, 2, 4)
ROW_THREADS_CHOICES = (1, 2, 4, 8, 16, 32)
"""Threads side by side along n of the matrix-vector kernel."""
ROW_R0_CHOICES = (2, 4, 8)
ROW_R1_CHOICES = (16, 32, 64, 128, 256, 512, 1024, 2048)

REGISTER_RELAXATION = 0.5
"""Relaxation ratio of Heuristic 7: other limits may leave this share of the blocks that
registers allow. Strict, it would exclude small tiles, which are the best of small products."""
BUSY_CORES = 0.75
"""Share of the cores that have work before a reduction is split further: adding parts costs more
than the rest of the cores would bring."""
MOST_PARTS_PER_CORE = 4
"""A split reduction makes at most so many workgroups a core; more only cost sums."""
SQUARE = 4
"""Largest ratio of the sides of a workgroup's tile: longer ones load more for each product."""
VARIED_TILES = 5
"""How many tiles, the fastest expected first, are tried with other r0, r1 and split."""
VARIATION_DELAY = 1.1
"""By how much worse a new tile may be expected and still come before a variation."""
MOST_TILES = 18
"""How many tiles are in the space, the fastest expected first."""


class MatmulProblem(GpuProblem):
    """A product by tiles, or of few rows."""

    @property
    def family(self) -> str:
        return "gpu-row" if self.few_rows else "gpu"

    @property
    def heights(self) -> tuple[int, ...]:
        """Rows of a workgroup's tile to choose from."""
        low = self.m <= MATVEC_ROWS and not self.few_rows
        return (LOW_TILE, *Y1_CHOICES) if low else Y1_CHOICES

    @property
    def fetch_cost(self) -> float:
        """Instructions beyond the load for each element of B that is fetched, those of a matrix
        left out."""
        return 0.0

    def cost(self, c: GpuCandidate) -> float:
        return expected_cost(c, self, self.fetch_cost)

    def workgroups(self, c: GpuCandidate) -> int:
        rows = 1 if self.few_rows else -(-self.m // c.y1)
        return self.batch * rows * -(-self.n // c.x1)

    def threads(self, c: GpuCandidate) -> int:
        return matvec_threads(c) if self.few_rows else c.threads

    def registers(self, c: GpuCandidate) -> int:
        if self.few_rows:
            return c.x0 * self.m + c.r0 * (c.x0 + self.m) + FIXED_REGISTERS
        return thread_registers(c) + FIXED_REGISTERS

    def shared_bytes(self, c: GpuCandidate) -> int:
        # Sums stay in registers, so x1 * y1 of the paper's formula is not in it.
        if self.few_rows:
            return matvec_threads(c) * c.x0 * ELEMENT_BYTES
        return workgroup_bytes(c, self.k)

    def first_split(self, c: GpuCandidate) -> int:
        """The least choice that gives :data:`BUSY_CORES` a workgroup."""
        needed = BUSY_CORES * self.gpu.cores / self.workgroups(c)
        deepest = max(1, self.k // (2 * c.r1))
        return next((s for s in SPLIT_CHOICES if s >= min(needed, deepest)), SPLIT_CHOICES[-1])

    def first(self, c: GpuCandidate) -> GpuCandidate:
        """The first choice of r0, r1 and split for the tile of a candidate."""
        if self.few_rows:
            based = replace(c, split=1)
            return replace(based, split=self.first_split(based))
        shallow, limit = R1_CHOICES[0], self.gpu.limit("maxComputeWorkgroupStorageSize")
        based = replace(c, r1=BASE_R1, r0=BASE_R1, split=1)
        if power_above(self.k) < BASE_R1 or self.shared_bytes(based) > limit:
            based = replace(based, r1=shallow, r0=shallow)
        return replace(based, split=self.first_split(based))

    @cached_property
    def tiles(self) -> tuple[GpuCandidate, ...]:
        """First choices of all tiles that the rules on tiles accept, best expected first."""
        found = {self.first(c) for c in _tiles(self)}
        return tuple(cheapest(found, self, TILE_RULES, MOST_TILES))


def gpu_problem(workload: Workload, gpu: GpuProfile) -> MatmulProblem:
    """Extents of a workload.

    Raises
    ------
    UserError
        When no lite space exists for this kind or dtype.
    """
    rank = 4 if workload.kind.startswith("batch_") else 3
    if workload.kind not in MATMUL_KINDS or len(workload.dims) != rank or workload.dtype != "f32":
        raise UserError(
            f"There is no lite space for the workload {workload.name} on a GPU.",
            "Lite spaces exist for matmul:MxKxN:f32 and batch_matmul:BxMxKxN:f32.",
        )
    batch, m, k, n = (1, *workload.dims)[-4:]
    return MatmulProblem(batch, m, k, n, gpu, workload.kind in DOT_KINDS.values())


def gpu_candidates(problem: MatmulProblem) -> list[GpuCandidate]:
    """The lite space: what every rule accepts, the fastest expected first."""
    found = {c for tile in problem.tiles for c in _around(tile, problem)}
    accepted = [c for c in found if all(rule(c, problem)[0] for rule in RULES)]
    return sorted(accepted, key=lambda c: (_expected(c, problem), c))


def _expected(c: GpuCandidate, p: MatmulProblem) -> float:
    """Among candidates of about the same expected time, another tile comes before another
    unroll."""
    return p.cost(c) * (VARIATION_DELAY if gpu_variations(c, p) else 1.0)


def _tiles(p: MatmulProblem) -> Iterator[GpuCandidate]:
    if p.few_rows:
        y = power_above(p.m)
        for x0, across, r0, r1 in product(
            ROW_X0_CHOICES, ROW_THREADS_CHOICES, ROW_R0_CHOICES, ROW_R1_CHOICES
        ):
            if r1 >= r0:
                yield GpuCandidate(x0, y, r0, x0 * across, y, r1)
        return
    for x0, y0, x1, y1 in product(X0_CHOICES, Y0_CHOICES, X1_CHOICES, p.heights):
        if x1 >= x0 and y1 >= y0:
            yield GpuCandidate(x0, y0, BASE_R1, x1, y1, BASE_R1)


def _around(tile: GpuCandidate, p: MatmulProblem) -> Iterator[GpuCandidate]:
    """A tile with its first choices, and with each other choice of one setting."""
    yield tile
    for split in SPLIT_CHOICES:
        yield replace(tile, split=split)
    if p.few_rows:
        return
    for r1 in R1_CHOICES:
        for r0 in (ROLLED_R0, r1):
            yield replace(tile, r0=r0, r1=r1)


def power_above(extent: int) -> int:
    """The least power of two from ``extent`` on."""
    return 1 << (extent - 1).bit_length()


GpuRule = Callable[[GpuCandidate, MatmulProblem], tuple[bool, str]]


def simd_width(c: GpuCandidate, p: MatmulProblem) -> tuple[bool, str]:
    """Heuristic 1: vectors are at most 128 bits; the widest is taken, and where rows do not
    align the kernel falls back by itself."""
    return c.vec == WIDTH, f"loads of {c.vec} float32 ({32 * c.vec} bits) where rows align"


def power_of_two(c: GpuCandidate, p: MatmulProblem) -> tuple[bool, str]:
    """Heuristic 2, with the exception of :data:`SPLIT_CHOICES`."""
    sizes = (c.x0, c.y0, c.r0, c.x1, c.y1, c.r1)
    odd = [str(s) for s in sizes if s & (s - 1)]
    text = f"not powers of two: {', '.join(odd)}" if odd else "all powers of two"
    return not odd and c.split in SPLIT_CHOICES, f"{text}; split {c.split} of {SPLIT_CHOICES}"


def tile_choices(c: GpuCandidate, p: MatmulProblem) -> tuple[bool, str]:
    """What a thread keeps: whole vectors of columns, and few enough rows to stay in registers."""
    if p.few_rows:
        rows = power_above(p.m)
        ok = c.x0 in ROW_X0_CHOICES and (c.y0, c.y1) == (rows, rows)
        return ok, f"a thread keeps all rows ({rows}) of {c.x0} columns"
    choices = c.x0 in X0_CHOICES and c.y0 in Y0_CHOICES and max(c.x1, c.y1) <= X1_CHOICES[-1]
    upright = c.y0 >= c.x0 or (c.y0 == Y0_CHOICES[0] and c.x0 == X0_CHOICES[0])
    lying = c.x1 >= c.y1 or c.x1 >= p.n
    text = f"x0 {c.x0} of {X0_CHOICES}, y0 {c.y0} of {Y0_CHOICES}, tile {c.y1}x{c.x1}"
    if choices and not (upright and lying):
        text += "; its mirror image is in: taller threads, wider tiles"
    return choices and upright and lying, text


def problem_size(c: GpuCandidate, p: MatmulProblem) -> tuple[bool, str]:
    """A tile of twice the problem computes padding alone."""
    m, k, n = (power_above(e) for e in (p.m, p.k, p.n))
    deepest = max(k, 8 * c.r0, ROW_R1_CHOICES[0]) if p.few_rows else max(2 * k, R1_CHOICES[0])
    ok = c.y1 <= max(m, Y1_CHOICES[0]) and c.x1 <= max(n, X1_CHOICES[0]) and c.r1 <= deepest
    return ok, f"tile {c.y1}x{c.x1}, depth {c.r1}, in {p.m}x{p.n}, K {p.k}"


def threads(c: GpuCandidate, p: MatmulProblem) -> tuple[bool, str]:
    """Heuristic 5: at most 256 threads; whole warps, unless the product is one tile."""
    count, warp = p.threads(c), p.gpu.warp
    whole = count % warp == 0 or p.workgroups(c) == p.batch
    return count <= p.threads_limit and whole, (
        f"Thread_block {count}, a multiple of warps of {warp}, at most {p.threads_limit}"
    )


def shared_memory(c: GpuCandidate, p: MatmulProblem) -> tuple[bool, str]:
    """Heuristic 6, with the adapter's limit in place of the 16 KiB that every device has."""
    limit, used = p.gpu.limit("maxComputeWorkgroupStorageSize"), p.shared_bytes(c)
    how = "slices" if p.few_rows else f"{stages(c, p.k)} x ({c.x1} + {c.y1} + padding) * {c.r1}"
    return used <= limit, f"L1_block {used:,} of {limit:,} bytes ({how})"


def registers(c: GpuCandidate, p: MatmulProblem) -> tuple[bool, str]:
    """Heuristic 7, relaxed: registers, not memory or threads, limit the blocks of a core."""
    by_registers, by_memory, by_threads = p.block_limits(c)
    used, most = p.registers(c), p.gpu.registers_per_thread
    text = (
        f"Reg_thread {used} of {most}; Block_core {p.blocks_per_core(c)}: RegLimit "
        f"{by_registers:.1f}, L1Limit {by_memory:.1f}, WarpLimit {by_threads:.1f}"
    )
    if used > most or by_registers < 1:
        return False, text + "; does not fit"
    least = min(by_memory, by_threads)
    # Few rows wait for memory, not for registers; and who fits in at once waits for nobody.
    enough = p.m <= MATVEC_ROWS or least * p.threads(c) >= BUSY_THREADS
    at_once = p.workgroups(c) * c.split <= least * p.gpu.cores
    ok = least >= REGISTER_RELAXATION * by_registers or enough or at_once
    return ok, text + ("" if ok else f"; RegLimit is not within {REGISTER_RELAXATION:g} of it")


def coalesced(c: GpuCandidate, p: MatmulProblem) -> tuple[bool, str]:
    """Few rows: threads side by side read whole cache lines of the matrix."""
    if not p.few_rows:
        ratio = max(c.x1, c.y1) / min(c.x1, c.y1)
        return ratio <= SQUARE, f"sides {c.y1} and {c.x1}: a ratio of {ratio:g}, at most {SQUARE}"
    if p.along_k:
        ok = c.r0 >= WIDTH and c.r1 >= 8 * c.r0
        return ok, f"{c.r1 // c.r0} threads read {c.r1} neighbours of a row of B"
    ok = c.x0 == WIDTH and (c.x1 >= 8 * c.x0 or c.x1 >= p.n)
    return ok, f"{c.x1 // c.x0} threads read {c.x1} neighbours of a row of B"


def split(c: GpuCandidate, p: MatmulProblem) -> tuple[bool, str]:
    """A reduction is split only where cores would be idle, and not into very short parts."""
    groups, cores = p.workgroups(c), p.gpu.cores
    text = f"{groups} workgroups x split {c.split} on {cores} cores"
    if c.split == 1:
        return True, text
    if c.split > max(1, p.k // c.r1):
        return False, text + f"; a part would be shorter than r1 {c.r1}"
    first = p.first(c).split
    ok = (
        groups < 2 * cores
        and groups * c.split <= MOST_PARTS_PER_CORE * cores
        and first <= 2 * c.split <= 4 * first
    )
    why = (
        f"; if under 2 a core: up to {MOST_PARTS_PER_CORE}, half to twice the first choice, {first}"
    )
    return ok, text + ("" if ok else why)


def depth(c: GpuCandidate, p: MatmulProblem) -> tuple[bool, str]:
    """Depth of a tile and unroll of its steps."""
    if p.few_rows:
        return c.r0 in ROW_R0_CHOICES and c.r1 in ROW_R1_CHOICES, f"r0 {c.r0}, r1 {c.r1}"
    ok = c.r1 in R1_CHOICES and c.r0 in (ROLLED_R0, c.r1)
    return ok, f"r1 {c.r1} of {R1_CHOICES}, r0 {c.r0} of {ROLLED_R0} and r1, the whole depth"


def kept_tile(c: GpuCandidate, p: MatmulProblem) -> tuple[bool, str]:
    """Only the tiles that are expected to be fastest."""
    first = p.first(c)
    if first not in p.tiles:
        return False, f"not among the {MOST_TILES} tiles with the least expected time"
    return True, f"tile {p.tiles.index(first) + 1} of {len(p.tiles)} by expected time"


def one_at_a_time(c: GpuCandidate, p: MatmulProblem) -> tuple[bool, str]:
    """Either the depth (r1, r0) or split leaves its first choice, and only for the best tiles."""
    changed = gpu_variations(c, p)
    if len(changed) > 1:
        return False, f"{' and '.join(changed)} leave their first choice at once"
    if changed and p.first(c) not in p.tiles[:VARIED_TILES]:
        return False, f"{changed[0]} is varied for the {VARIED_TILES} best tiles only"
    return True, f"varies {changed[0]}" if changed else "first choice of depth and split"


def gpu_variations(c: GpuCandidate, p: MatmulProblem) -> tuple[str, ...]:
    """Where a candidate leaves the first choice for its tile: ``depth`` is r1 and r0."""
    first = p.first(c)
    depth = () if (c.r0, c.r1) == (first.r0, first.r1) else ("depth",)
    return depth if c.split == first.split else (*depth, "split")


TILE_RULES: tuple[GpuRule, ...] = (
    simd_width,
    power_of_two,
    tile_choices,
    problem_size,
    threads,
    shared_memory,
    registers,
    coalesced,
)
"""Rules on a tile with its first choice of the other settings."""
RULES: tuple[GpuRule, ...] = (*TILE_RULES, depth, split, kept_tile, one_at_a_time)
TOLD_RULES: tuple[GpuRule, ...] = (registers, shared_memory, split, one_at_a_time)
"""Rules whose answers are a candidate's reason."""


ANY_GPU = replace(
    GpuProfile(),
    cores=32,
    registers_per_thread=160,
    threads_per_core=1536,
    shared_bytes_per_core=64 << 10,
)
"""A GPU of middle size with the limits that every device has, for kernels that nobody tuned."""


@lru_cache(maxsize=1024)
def untuned(batch: int, m: int, k: int, n: int, along_k: bool) -> GpuCandidate:
    """Settings that run on every device and suit many: the best expected for :data:`ANY_GPU`."""
    problem = MatmulProblem(batch, m, k, n, ANY_GPU, along_k)
    if problem.tiles:
        return problem.tiles[0]
    rows = power_above(m)
    if problem.few_rows:
        return (
            GpuCandidate(1, rows, 4, 8, rows, 128)
            if along_k
            else GpuCandidate(4, rows, 4, 32, rows, 128)
        )
    return GpuCandidate(4, 4, 4, 32, 32, 16)
