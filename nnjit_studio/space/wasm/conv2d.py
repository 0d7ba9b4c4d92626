"""The lite space of a convolution: Table 1's heuristics on tiles of channels times pixels.

The symbols keep their places (:class:`Candidate`): x = pixels of an output
row, y = output channels (output rows for a depthwise convolution), r =
reduction. ``x0``, ``y0``: the register tile. ``r0``: kernel rows unrolled,
across input channels where it exceeds the kernel. ``x1``: output rows of a
block, whose input is staged at once; of an image of one row its pixels, 1 for
all. ``y1`` = ``y0``, ``r1`` = all products of an output: nothing is blocked
there. Depthwise: ``r0`` of all kernel rows holds the taps in registers, and a
block is a channel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.candidate import ORDERS, Candidate
from nnjit_studio.space.features import Features
from nnjit_studio.space.rules import Space, Usage
from nnjit_studio.space.wasm.heuristics import (
    ELEMENT_BYTES,
    L2_STREAM_SHARE,
    LANES,
    REGISTER_LOW_STEPS,
    REGISTER_RANGE,
    WIDE_X0_CHOICES,
    WIDE_Y0_CHOICES,
    intensity,
    register_use,
    splits,
)
from nnjit_studio.space.wasm.matmul import fills, tile_features

CONV2D = "conv2d"
CONV2D_DIMS = "NxCxHxWxOxKHxKWxSTRIDExPADxDILATIONxGROUPS"
"""Dims of a conv2d workload: batch, channels, height and width of the input without padding,
output channels, kernel height and width, then stride, padding and dilation (vertical), groups."""

X0_CHOICES = (4, 8, 12, 16, 24, 32)
Y0_CHOICES = (1, 2, 3, 4, 5, 6, 8, 12, 16)
DEPTHWISE_Y0_CHOICES = (1, 2, 3, 4, 5, 6, 7, 8)
MAX_OPERATIONS = 400
"""SIMD operations of one unrolled body (design section 5)."""
MIN_USE = 0.75
"""Least share of a tile grid's outputs that are wanted, relative to the best tile's share."""
MIN_CANDIDATES = 10
VARIED_TILES = 5
"""How many tiles, the best first, are tried with other settings than the first choice."""
BASE_ORDER = "mn"
COLUMNS = (128, 64, 256)
"""Pixels of a block where there is one row, the first choice in front."""


def columns_of_block(width: int) -> int:
    """The first choice for a row of so many pixels: short ones are one block."""
    return COLUMNS[0] if width >= 2 * COLUMNS[0] else 1


@dataclass(frozen=True)
class ConvProblem:
    """A convolution as its rules see it; ``channels`` and ``out_channels`` of one group."""

    batch: int
    channels: int
    width: int
    out_channels: int
    kernel: tuple[int, int]
    stride: int
    dilation: int
    groups: int
    out_height: int
    out_width: int
    device: DeviceProfile
    one_row: bool = False
    """Whether the image, and what is read of it at once, is a single row."""
    register_low: float = REGISTER_RANGE[0]
    tiles: tuple[tuple[int, int], ...] = ()

    @property
    def depthwise(self) -> bool:
        return self.channels == 1 and self.groups > 1

    @property
    def rows(self) -> int:
        """Extent of the tile's y."""
        return self.out_height if self.depthwise else self.out_channels

    @property
    def depth(self) -> int:
        return self.channels * math.prod(self.kernel)

    @property
    def widest(self) -> int:
        """Vectors that cover an output row, in pixels; the last may be filled in part."""
        return -(-self.out_width // LANES) * LANES

    @property
    def base_r0(self) -> int:
        return self.kernel[0]

    def staged_bytes(self, block: int) -> int:
        """Input that a block stages."""
        rows, width = (1, block) if self.one_row and block > 1 else (block, self.out_width)
        reach = (self.kernel[0] - 1) * self.dilation + 1
        columns = (width - 1) * self.stride + (self.kernel[1] - 1) * self.dilation + 1
        channels = self.channels * self.groups
        return ((rows - 1) * self.stride + reach) * columns * channels * ELEMENT_BYTES

    @property
    def weight_bytes(self) -> int:
        return self.groups * self.out_channels * self.depth * ELEMENT_BYTES

    def blocks(self) -> tuple[int, ...]:
        """``x1`` worth trying, the first choice in front."""
        if self.depthwise:
            return (self.out_height,)
        if self.one_row:
            first = columns_of_block(self.out_width)
            return COLUMNS if first > 1 else (first,)
        limit = self.device.l2_bytes * L2_STREAM_SHARE
        # Threads need a block each; four is the first choice, because its rows stay near.
        counts = [4, 2, 8] if self.device.threads > 1 else [4, 2, 8, 1]
        if self.weight_bytes > limit:
            counts.sort()  # each block streams all weights
        parts = [-(-self.out_height // count) for count in counts]
        fitting = [rows for rows in parts if self.staged_bytes(rows) <= limit]
        return tuple(dict.fromkeys(fitting or [1]))

    def use(self, x0: int, y0: int) -> float:
        """Share of computed outputs that are wanted: tiles at the edges overlap."""
        columns = -(-self.out_width // x0) * x0
        rows = -(-self.rows // y0) * y0
        return self.out_width * self.rows / (columns * rows)

    def operations(self, c: Candidate) -> int:
        """SIMD operations of one unrolled body."""
        vectors = c.x0 // LANES
        if not self.depthwise:
            return c.r0 * self.kernel[1] * (vectors + c.y0 * (1 + vectors))
        reached = {
            row * self.stride + tap * self.dilation
            for row in range(c.y0)
            for tap in range(self.kernel[0])
        }
        users = c.y0 * math.prod(self.kernel)
        splats = 0 if c.r0 == self.kernel[0] else users
        return len(reached) * self.kernel[1] * vectors + users * vectors + splats


def conv2d_space(
    workload: Workload, device: DeviceProfile, packable: bool
) -> Space[Candidate, ConvProblem]:
    """First choices of every tile, then the variations, one at a time.

    Raises
    ------
    UserError
        When the workload is no float32 conv2d.
    """
    told = (registers, l2_cache, one_at_a_time)
    problem = conv_problem(workload, device)
    return Space(problem, RULES, told, conv2d_candidates, _usage, variations, _wider)


def conv_problem(workload: Workload, device: DeviceProfile) -> ConvProblem:
    """Extents, and the tiles left by the rules on tiles, best first.

    The lower end of Heuristic 4 is relaxed step by step until there are
    :data:`MIN_CANDIDATES`; a small image can still have fewer.

    Raises
    ------
    UserError
        When the workload is no float32 conv2d.
    """
    if workload.kind != CONV2D or len(workload.dims) != 11 or workload.dtype != "f32":
        raise UserError(
            f"There is no lite space for the workload {workload.name}.",
            f"A convolution is written {CONV2D}:{CONV2D_DIMS}:f32.",
        )
    n, c, h, w, o, kh, kw, stride, pad, dilation, groups = workload.dims
    out = [(e + 2 * pad - (k - 1) * dilation - 1) // stride + 1 for e, k in ((h, kh), (w, kw))]
    problem = ConvProblem(
        n, c // groups, w, o // groups, (kh, kw), stride, dilation, groups, out[0], out[1], device
    )
    problem = replace(problem, one_row=h == kh == 1 and not problem.depthwise)
    for low in REGISTER_LOW_STEPS:
        problem = _with_tiles(replace(problem, register_low=low))
        if len(conv2d_candidates(problem)) >= MIN_CANDIDATES:
            break
    return problem


def _with_tiles(problem: ConvProblem) -> ConvProblem:
    tiles = [tile for tile in _tiles(problem) if _tile_fits(tile, problem)]
    best = max((problem.use(*tile) for tile in tiles), default=1.0)
    tiles = [tile for tile in tiles if problem.use(*tile) >= MIN_USE * best]
    tiles.sort(key=lambda tile: _tile_rank(tile, problem))
    return replace(problem, tiles=tuple(tiles))


def _tiles(problem: ConvProblem) -> Iterator[tuple[int, int]]:
    rows = DEPTHWISE_Y0_CHOICES if problem.depthwise else Y0_CHOICES
    yield from ((x0, y0) for x0 in X0_CHOICES for y0 in rows)


def _tile_fits(tile: tuple[int, int], problem: ConvProblem) -> bool:
    probe = _first(tile, problem)
    return all(rule(probe, problem)[0] for rule in TILE_RULES)


def _first(tile: tuple[int, int], problem: ConvProblem) -> Candidate:
    """The first choice of everything but the tile."""
    x0, y0 = tile
    # A large kernel is unrolled by its taps of one row alone where all would be too many.
    c = Candidate(
        x0, y0, problem.base_r0, problem.blocks()[0], y0, problem.depth, BASE_ORDER, False
    )
    return c if problem.operations(c) <= MAX_OPERATIONS else replace(c, r0=1)


def _tile_rank(tile: tuple[int, int], problem: ConvProblem) -> tuple[float, ...]:
    vectors = tile[0] // LANES
    # Accumulators, the pixels of one step and one splat; more than that spills.
    spills = vectors * (tile[1] + 1) + 1 > problem.device.vector_registers
    return (spills, -intensity(*tile) * problem.use(*tile), *tile)


Rule = Callable[[Candidate, ConvProblem], tuple[bool, str]]


def simd_width(c: Candidate, p: ConvProblem) -> tuple[bool, str]:
    """Heuristic 1: vectors are 128 bits, so pixels come in fours."""
    return c.x0 % LANES == 0, f"x0 {c.x0} in vectors of {LANES} float32 (128 bits)"


def problem_size(c: Candidate, p: ConvProblem) -> tuple[bool, str]:
    """A tile fits the output: at the edges it overlaps its neighbour instead of leaving it.

    One as wide as a row is one of its pixels, with a last vector that may be filled in part.
    """
    what = "rows" if p.depthwise else "channels"
    ok = c.x0 <= p.widest and c.y0 <= p.rows
    return ok, f"tile of {c.y0} {what} x {c.x0} pixels in {p.rows} {what} x {p.widest} pixels"


def registers(c: Candidate, p: ConvProblem) -> tuple[bool, str]:
    """Heuristic 4, relaxed: the tile about fills the registers."""
    total = p.device.vector_registers * LANES
    used = register_use(c.x0, c.y0)
    low, high = p.register_low * total, REGISTER_RANGE[1] * total
    relaxed = ", the lower end relaxed for want of tiles" if low < REGISTER_RANGE[0] * total else ""
    return low <= used <= high, (
        f"Reg_thread {used} of {total} elements ({c.x0}*1 + 1*{c.y0} + {c.x0}*{c.y0}), "
        f"accepted {low:.0f}..{high:.0f}{relaxed}"
    )


def function_size(c: Candidate, p: ConvProblem) -> tuple[bool, str]:
    """One kernel stays one small function."""
    operations = p.operations(c)
    ok = operations <= MAX_OPERATIONS
    return ok, f"{operations} of at most {MAX_OPERATIONS} SIMD operations in the unrolled body"


def edge_use(c: Candidate, p: ConvProblem) -> tuple[bool, str]:
    """Little work is done twice where tiles overlap at the edges."""
    mine = p.use(c.x0, c.y0)
    return (c.x0, c.y0) in p.tiles, f"{mine:.0%} of the computed outputs are wanted"


def unrolling(c: Candidate, p: ConvProblem) -> tuple[bool, str]:
    """Kernel rows unrolled: one, all, or all of two or four input channels."""
    rows = p.kernel[0]
    choices = {1, rows} if p.depthwise else {1, rows, 2 * rows, 4 * rows}
    ok = c.r0 in choices and (p.depthwise or c.r0 <= rows * p.channels)
    return ok, f"r0 {c.r0} kernel rows of {', '.join(map(str, sorted(choices)))}"


def l2_cache(c: Candidate, p: ConvProblem) -> tuple[bool, str]:
    """Few or many blocks, where the staged input of one stays in L2."""
    used = p.staged_bytes(c.x1) / 1024
    what = "pixels" if p.one_row and c.x1 > 1 else "output rows"
    return c.x1 in p.blocks(), (
        f"block of {c.x1} {what} stages {used:.0f} KiB, "
        f"{L2_STREAM_SHARE:g} of L2 is {p.device.l2_bytes * L2_STREAM_SHARE / 1024:.0f} KiB"
    )


def fixed(c: Candidate, p: ConvProblem) -> tuple[bool, str]:
    """Settings that the template does not use have one value."""
    ok = (c.y1, c.r1, c.pack) == (c.y0, p.depth, False) and c.order in ORDERS
    return ok, f"y1 {c.y1} is y0, r1 {c.r1} is all {p.depth} products, weights as they are"


def one_at_a_time(c: Candidate, p: ConvProblem) -> tuple[bool, str]:
    """At most one of r0, x1 and order leaves its first choice, for the best tiles only."""
    changed = variations(c, p)
    if len(changed) > 1:
        return False, f"{' and '.join(changed)} leave their first choice at once"
    if changed and (c.x0, c.y0) not in p.tiles[:VARIED_TILES]:
        return False, f"{changed[0]} is varied for the {VARIED_TILES} best tiles only"
    return True, f"varies {changed[0]}" if changed else "first choice of r0, x1 and order"


def variations(c: Candidate, p: ConvProblem) -> tuple[str, ...]:
    """Settings in which a candidate leaves the first choice for its tile."""
    first = _first((c.x0, c.y0), p)
    return tuple(n for n in ("r0", "x1", "order") if getattr(c, n) != getattr(first, n))


TILE_RULES: tuple[Rule, ...] = (simd_width, problem_size, registers, function_size)
RULES: tuple[Rule, ...] = (
    *TILE_RULES,
    edge_use,
    unrolling,
    l2_cache,
    fixed,
    one_at_a_time,
)


def conv2d_candidates(problem: ConvProblem) -> list[Candidate]:
    """All that every rule accepts: first choices of every tile, then the variations."""
    rows = problem.kernel[0]
    found = [
        Candidate(x0, y0, r0, x1, y0, problem.depth, order, False)
        for x0, y0 in problem.tiles
        for r0 in sorted({1, rows, 2 * rows, 4 * rows})
        for x1 in problem.blocks()
        for order in ORDERS
    ]
    accepted = [c for c in found if all(rule(c, problem)[0] for rule in RULES)]
    return sorted(accepted, key=lambda c: _rank(c, problem))


def _rank(c: Candidate, p: ConvProblem) -> tuple[object, ...]:
    changed = variations(c, p)
    return (changed != (), _tile_rank((c.x0, c.y0), p), changed, c)


def _usage(c: Candidate, p: ConvProblem) -> Usage:
    return Usage(register_use(c.x0, c.y0), p.staged_bytes(c.x1))


def _wider(p: ConvProblem) -> Iterator[Candidate]:
    """Any multiple of four pixels, any rows, any block of rows."""
    rows = p.kernel[0]
    blocks = {math.ceil(p.out_height / count) for count in (1, 2, 4, 8, 16)}
    if p.depthwise or p.one_row:
        blocks = set(p.blocks())
    for x0, y0 in product(WIDE_X0_CHOICES, WIDE_Y0_CHOICES):
        if not fills(x0, y0, p.device, p.register_low):
            continue
        for r0, x1, order in product(sorted({1, rows, 2 * rows, 4 * rows}), sorted(blocks), ORDERS):
            c = Candidate(x0, y0, r0, x1, y0, p.depth, order, False)
            if all(rule(c, p)[0] for rule in (problem_size, function_size, unrolling)):
                yield c


def conv2d_naive_size(workload: Workload) -> int:
    """Size of the space before any reduction, counted as for matmuls.

    Output channels, rows and columns are split into three, input channels into
    two, the kernel's two loops are unrolled or not; times three annotations.
    """
    _, c, h, w, o, *_ = workload.dims
    loops = math.prod(splits(extent, 3) for extent in (o, h, w)) * splits(c, 2)
    return (loops * 4) << 3


def conv2d_family(workload: Workload) -> str:
    """``depthwise`` where groups are channels of their own."""
    return "depthwise" if workload.dims[-1] > 1 else CONV2D


def conv2d_features(c: Candidate, workload: Workload, device: DeviceProfile) -> Features:
    """Of a tile of channels, or rows, times pixels; nothing is blocked or streamed."""
    p = conv_problem(workload, device)
    of_tile = tile_features(c, (p.rows, p.out_width), device)
    extent = p.out_width if p.one_row and c.x1 > 1 else p.out_height
    return of_tile._replace(block_rows=math.log2(extent / c.x1))
