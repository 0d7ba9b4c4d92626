"""The lite space of attention in one kernel on a GPU (docs/webgpu.md, "Attention").

Two kernels, chosen by the queries: tiles of keys for many, parts of the keys for one. Rules as in
:mod:`.matmul`: each answers for every candidate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.space.wasm.attention import ATTENTION
from nnjit_studio.space.webgpu.cost import (
    BUSY_ELEMENTS,
    BUSY_SUMS,
    IDLE_POWER,
    READ_COST,
    SECOND_DISPATCH,
    SUM_COST,
    WORKGROUP_COST,
)
from nnjit_studio.space.webgpu.matmul import ANY_GPU, MOST_PARTS_PER_CORE
from nnjit_studio.space.webgpu.problem import (
    FIXED_REGISTERS,
    GpuProblem,
    cheapest,
    registers,
    shared_memory,
)

QUAD = 4
"""Elements of a vector along the head, and neighbouring keys of a thread."""
MOST_AHEAD = 8
"""Vectors of the next tile that a thread holds while it computes; of more it holds none."""
SHARES = 16
"""Threads that join what a whole workgroup found; the workgroup is a multiple of it."""

X0_CHOICES = (4, 8)
Y0_CHOICES = (1, 2, 4, 8)
ACROSS_CHOICES = (4, 8, 16, 32)
"""Threads of one row."""
DOWN_CHOICES = (2, 4, 8, 16, 32, 64)
"""Threads of one column."""
SPLIT_CHOICES = (1, 2, 4, 8)
FEW_QUERIES = 8
"""Up to so many queries a head may have a workgroup for each: all read its keys, mostly from the
cache, but nothing waits for a tile of keys to be turned in workgroup memory."""
ROW_X0_CHOICES = (2, 4, 8, 16)
ROW_THREADS_CHOICES = (64, 128, 256)
ROW_SPLIT_CHOICES = (1, 2, 4, 8, 16, 32)
MOST_CANDIDATES = 16
"""How many are in the space, the fastest expected first."""

CORE_RATE = 128.0
"""Multiply-adds of a core in a cycle, of the GPUs that these costs are counted for."""
BARRIER_CYCLES = 40.0
"""A barrier where few threads of a core hide it; an estimate."""
SCORE_CYCLES = 3.0
"""Of a warp for each score: its exponential (a quarter of the rate), its mask, its share of the
search for the largest. Counted, not measured."""
FETCH_CYCLES = 8.0
"""Of a warp for each vector of a thread that goes from global to workgroup memory."""
READ_CYCLES = 2.0
"""Of a warp for a vector of workgroup memory that many threads share; of 32 vectors it is 4."""


@dataclass(frozen=True)
class AttentionTile:
    """Sizes that follow from the settings, for many queries; vectors have four elements.

    ``x0`` and ``x1`` count keys of a thread and of a tile, ``y0`` and ``y1`` queries.
    """

    depth: int
    c: GpuCandidate

    @property
    def quads(self) -> int:
        """Vectors of a head."""
        return self.depth // QUAD

    @property
    def across(self) -> int:
        """Threads of one row."""
        return self.c.x1 // self.c.x0

    @property
    def key_quads(self) -> int:
        """Vectors of scores of a thread and row."""
        return self.c.x0 // QUAD

    @property
    def columns(self) -> int:
        """Vectors of results of a thread and row."""
        return self.quads // self.across

    @property
    def pitch(self) -> int:
        """From row to row of Q and K: one spare vector keeps threads off each other's banks."""
        return self.quads + 1

    @property
    def weight_pitch(self) -> int:
        return self.c.x1 // QUAD + 1

    @property
    def kv_vectors(self) -> int:
        return self.c.x1 * self.pitch

    @property
    def query_vectors(self) -> int:
        return self.c.y1 * self.pitch

    @property
    def weight_vectors(self) -> int:
        return self.c.y1 * self.weight_pitch

    @property
    def top_width(self) -> int:
        return min(QUAD, self.c.y0)

    @property
    def top_groups(self) -> int:
        return self.c.y0 // self.top_width

    @property
    def top_vectors(self) -> int:
        return self.c.threads * self.top_groups

    @property
    def shared_bytes(self) -> int:
        """Workgroup memory."""
        vectors = self.kv_vectors + self.query_vectors + self.weight_vectors
        return 16 * vectors + 4 * self.top_vectors * self.top_width

    @property
    def turns(self) -> int:
        """Vectors of a tile of K or V that a thread fetches."""
        return -(-self.c.x1 * self.quads // self.c.threads)

    @property
    def ahead(self) -> bool:
        """Whether a thread fetches the next tile before it needs it."""
        even = self.c.x1 * self.quads % self.c.threads == 0
        return even and self.turns <= MOST_AHEAD

    @property
    def registers(self) -> int:
        """Of a thread: results, scores, what a step reads, and what is on its way."""
        step = max(self.c.x0 + self.c.y0, self.c.y0 + QUAD * self.columns) * QUAD
        results = self.c.y0 * self.columns * QUAD
        scores = self.c.y0 * self.c.x0
        return results + scores + step // 2 + self.ahead * self.turns * QUAD + 2 * self.c.y0


@dataclass(frozen=True)
class AttentionRow:
    """Sizes that follow from the settings, where a workgroup has one query: ``x0`` keys of a thread
    are on their way at once, ``x1`` of the workgroup."""

    depth: int
    keys: int
    c: GpuCandidate
    beside: bool | None = None
    """Whether keys lie side by side; None where that is not known."""

    @property
    def side(self) -> int:
        """Threads that read a key together, a vector each."""
        return self.depth // QUAD

    @property
    def rows(self) -> int:
        """Keys that the threads of a workgroup read side by side."""
        return self.c.x1 // self.c.x0

    @property
    def threads(self) -> int:
        return self.rows * self.side

    @property
    def whole(self) -> bool:
        """Whether threads share the keys of a workgroup evenly, also where keys lie side by side:
        four of them and ``x0`` elements of the head to each."""
        return not (self.c.x1 % self.c.x0 or self.c.x1 % QUAD or self.depth % self.c.x0)

    @property
    def steps(self) -> int:
        """Of a workgroup, ``x1`` keys each."""
        return -(-self.keys // (self.c.x1 * self.c.split))

    @property
    def part(self) -> int:
        """Keys of a workgroup."""
        return self.steps * self.c.x1

    @property
    def dots(self) -> int:
        """Parts of sums in workgroup memory: of two steps, one spare a key, or of four keys
        that lie side by side a vector of each thread."""
        along, beside = 2 * self.c.x1 * (self.side + 1), 2 * QUAD * self.threads
        return {True: beside, False: along, None: max(along, beside)}[self.beside]

    @property
    def shared_bytes(self) -> int:
        """Workgroup memory."""
        return 4 * (self.part + self.dots + SHARES + 5 * self.threads)

    @property
    def registers(self) -> int:
        """Of a thread: what is on its way, the query, the sum."""
        return QUAD * (self.c.x0 + 2) + 8


class AttentionProblem(GpuProblem):
    """``m`` queries, ``n`` keys; ``k`` counts the multiply-adds of a score in both products."""

    @property
    def few_rows(self) -> bool:
        return self.m == 1

    def by_row(self, c: GpuCandidate) -> bool:
        """Whether a workgroup has one query, with settings of :class:`AttentionRow`."""
        return c.y1 == 1

    @property
    def family(self) -> str:
        return "gpu-row-attention" if self.few_rows else "gpu-attention"

    @property
    def depth(self) -> int:
        """Of a head."""
        return self.k // 2

    def tile(self, c: GpuCandidate) -> AttentionTile:
        return AttentionTile(self.depth, c)

    def row(self, c: GpuCandidate) -> AttentionRow:
        return AttentionRow(self.depth, self.n, c)

    def workgroups(self, c: GpuCandidate) -> int:
        return self.batch * -(-self.m // c.y1)

    def threads(self, c: GpuCandidate) -> int:
        return self.row(c).threads if self.by_row(c) else c.threads

    def registers(self, c: GpuCandidate) -> int:
        own = self.row(c).registers if self.by_row(c) else self.tile(c).registers
        return own + FIXED_REGISTERS

    def shared_bytes(self, c: GpuCandidate) -> int:
        return self.row(c).shared_bytes if self.by_row(c) else self.tile(c).shared_bytes

    def cost(self, c: GpuCandidate) -> float:
        # Counted from the WGSL, with what was fitted to products; of attention nothing was
        # measured yet.
        each = math.ceil(self.workgroups(c) * c.split / self.gpu.cores)
        resident = min(each, self.blocks_per_core(c)) * self.threads(c)
        second = 0.0
        if c.split > 1:
            sums = c.split * self.batch * self.m * self.depth
            second = SECOND_DISPATCH + 2 * sums * SUM_COST / self.gpu.cores
        if self.by_row(c):
            idle = math.sqrt(max(1.0, BUSY_ELEMENTS / (resident * c.x0 * QUAD)))
            work = self.row(c).part * self.depth * 2 * READ_COST * idle
            return each * (work + WORKGROUP_COST) + second
        idle = math.pow(max(1.0, BUSY_SUMS / (resident * c.x0 * c.y0)), IDLE_POWER)
        return each * (self._tile_cycles(c) * idle * CORE_RATE + WORKGROUP_COST) + second

    def _tile_cycles(self, c: GpuCandidate) -> float:
        """Of a core for one workgroup."""
        t = self.tile(c)
        keys = max(READ_CYCLES, t.across * QUAD / self.gpu.warp)
        scores = t.quads * max(c.x0 * c.y0, c.x0 * keys + c.y0 * READ_CYCLES)
        read = c.y0 * READ_CYCLES + QUAD * t.columns * keys
        sums = c.x1 / QUAD * max(QUAD * c.y0 * t.columns, read)
        softmax = SCORE_CYCLES * c.x0 * c.y0 + t.across * t.top_groups
        fetched = 2 * FETCH_CYCLES * t.turns * (1 if t.ahead else 2)
        steps = -(-self.n // (c.x1 * c.split))
        warps = max(1.0, c.threads / self.gpu.warp)
        return steps * (warps * (scores + sums + softmax + fetched) + 4 * BARRIER_CYCLES)


def attention_problem(workload: Workload, gpu: GpuProfile) -> AttentionProblem:
    """Sizes of a workload ``attention:BxMxNxD``: batch, queries, keys, width of a head.

    Raises
    ------
    UserError
        When the workload is another.
    """
    if workload.kind != ATTENTION or len(workload.dims) != 4 or workload.dtype != "f32":
        raise UserError(f"{workload.name} is no attention of float32.", "Give one.")
    return _problem(workload.dims, gpu)


def _problem(dims: tuple[int, ...], gpu: GpuProfile) -> AttentionProblem:
    batch, queries, keys, depth = dims
    return AttentionProblem(batch, queries, 2 * depth, keys, gpu, True)


@lru_cache(maxsize=1024)
def untuned_attention(dims: tuple[int, ...]) -> GpuCandidate:
    """Settings of tiles that run on every device: the best expected for a GPU of middle size."""
    problem = _problem(dims, ANY_GPU)
    tiles = (c for c in _grid(problem) if not problem.by_row(c))
    found = cheapest(tiles, problem, RULES, 1)
    return found[0] if found else GpuCandidate(4, 1, 1, 16, 8, 1)


def attention_candidates(p: AttentionProblem) -> list[GpuCandidate]:
    """What every rule accepts, the fastest expected first, the best of them; of few queries as many
    with a workgroup each as with a tile, which no cost tells apart yet."""
    if not 1 < p.m <= FEW_QUERIES:
        return cheapest(_grid(p), p, RULES, MOST_CANDIDATES)
    kinds = [[c for c in _grid(p) if p.by_row(c) == kind] for kind in (True, False)]
    halves = (cheapest(kind, p, RULES, MOST_CANDIDATES // 2) for kind in kinds)
    return sorted((c for half in halves for c in half), key=lambda c: (p.cost(c), c))


def _grid(p: AttentionProblem) -> Iterator[GpuCandidate]:
    if p.m <= FEW_QUERIES:
        for x0, threads, parts in product(ROW_X0_CHOICES, ROW_THREADS_CHOICES, ROW_SPLIT_CHOICES):
            rows = 1 << (threads * QUAD // p.depth).bit_length() - 1
            yield GpuCandidate(x0, 1, 1, x0 * rows, 1, 1, parts)
    if p.few_rows:
        return
    splits = ROW_SPLIT_CHOICES if p.m <= FEW_QUERIES else SPLIT_CHOICES
    for x0, y0, across, down, parts in product(
        X0_CHOICES, Y0_CHOICES, ACROSS_CHOICES, DOWN_CHOICES, splits
    ):
        yield GpuCandidate(x0, y0, 1, x0 * across, y0 * down, 1, parts)


Rule = Callable[[GpuCandidate, AttentionProblem], tuple[bool, str]]


def template(c: GpuCandidate, p: AttentionProblem) -> tuple[bool, str]:
    """What the templates can make; a row's threads share the columns of its result."""
    common = (c.r0, c.r1, c.vec) == (1, 1, QUAD)
    if p.by_row(c):
        ok = common and c.y0 == 1 and p.m <= FEW_QUERIES and p.threads(c) % SHARES == 0
        ok = ok and c.x0 <= p.row(c).side and p.row(c).whole
        return ok, f"{p.row(c).side} threads read a key together; at most {FEW_QUERIES} queries"
    across = p.tile(c).across
    ok = common and c.x0 in X0_CHOICES and c.y0 in Y0_CHOICES and across in ACROSS_CHOICES
    ok = ok and p.tile(c).quads % across == 0
    return ok, f"{across} threads share a row of {p.tile(c).quads} vectors; r0, r1 1, vec 4"


def problem_size(c: GpuCandidate, p: AttentionProblem) -> tuple[bool, str]:
    """Powers of two (Heuristic 2); a tile of twice the problem computes padding alone."""
    powers = all(not size & (size - 1) for size in (c.x0, c.y0, c.x1, c.y1, c.split))
    ok = c.y1 < 2 * max(p.m, DOWN_CHOICES[0]) and c.x1 < 2 * max(p.n, QUAD * ACROSS_CHOICES[0])
    return powers and ok, f"{c.y1} of {p.m} queries, {c.x1} of {p.n} keys at a time"


def threads(c: GpuCandidate, p: AttentionProblem) -> tuple[bool, str]:
    """Heuristic 5: at most 256; whole warps, and of a tile as much for each."""
    count, warp = p.threads(c), p.gpu.warp
    ok = count <= p.threads_limit and count % (SHARES if p.by_row(c) else warp) == 0
    text = f"Thread_block {count}, a multiple of warps of {warp}, at most {p.threads_limit}"
    if p.by_row(c):
        return ok, text
    pieces = c.x1 * p.tile(c).quads
    even = pieces % count == 0
    return ok and even, text + ("" if even else f"; {pieces} vectors of a tile are not even")


def split(c: GpuCandidate, p: AttentionProblem) -> tuple[bool, str]:
    """Keys are split only where cores would be idle, and not into very short parts."""
    groups, cores = p.workgroups(c), p.gpu.cores
    text = f"{groups} workgroups x split {c.split} on {cores} cores"
    if c.split == 1:
        return True, text
    ok = c.split * c.x1 <= p.n
    ok = ok and groups < 2 * cores and groups * c.split <= MOST_PARTS_PER_CORE * cores
    return ok, text + ("" if ok else "; not below 2 a core, or parts shorter than x1")


RULES: tuple[Rule, ...] = (template, problem_size, threads, shared_memory, registers, split)
TOLD_RULES: tuple[Rule, ...] = (registers, shared_memory, threads, split)
