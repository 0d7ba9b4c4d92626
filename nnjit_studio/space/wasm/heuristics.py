"""The heuristics of the lite space: Table 1 of the NNJIT paper, one function a rule.

Units. Table 1 counts elements; limits of a device are bytes (caches) or
128-bit vector registers. Everything here is float32: 4 bytes an element, 4
elements a register.

The register formula ``x0*r0 + r0*y0 + x0*y0`` is used with ``r0 = 1``: a Wasm
kernel consumes the steps of the reduction one after another, so unrolling it
makes the code longer and holds no register longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.lab import lab_of
from nnjit_studio.records.quantised import FLOAT32, Storage

LANES = 4
ELEMENT_BYTES = 4

X0_CHOICES = (4, 8, 12, 16, 24, 32)
"""Columns of a tile: whole vectors, with 12 and 24 an exception to Heuristic 2.

Three and six vectors fill 16 registers where powers of two do not: measured on this
project, one thread, 2026-11-21, 1x24 is the fastest row by 5 to 25 %, and 3x12 is within
5 to 8 % of the best tile where 3x8 loses 18 to 25 %.
"""
Y0_CHOICES = (1, 2, 3, 4, 5, 6, 8, 12, 16)
"""Rows of a tile: not only powers of two, an exception to Heuristic 2.

Rows are not vectorised, so nothing in a kernel wants a power of two there.
Measured on this project, one thread: a 6x8 tile beats 4x8 and 8x8 by up to
1.4x on a device with 16 registers, for it alone fills them.
"""
R0_CHOICES = (1, 2, 4, 8)
MIN_R1 = 64

REGISTER_RANGE = (0.6, 1.02)
"""Relaxation ratio of Heuristic 4, as shares of all registers' elements.

Below, registers lie idle. Above, an engine spills accumulators in every step:
measured on V8, x64, 3x16, 4x16 and 8x8 tiles reach 47 to 62 % of the peak
where 6x8 reaches 97 %. The small excess admits the row of 1x32 (65 of 64), for
the formula counts all vectors of B at once, and a row needs one at a time.
"""
REGISTER_LOW_STEPS = (REGISTER_RANGE[0], 0.4, 0.2, 0.0)
"""Lower ends tried in turn until a small problem has :data:`MIN_TILES` tiles."""
MIN_TILES = 6

L1_RELAXATION = 1.4
"""Relaxation ratio of Heuristic 3: the tile of A is read once, in order, and may stream."""
L2_STREAM_SHARE = 0.5
"""Share of L2 that a block over the whole reduction may take.

Such a block outgrows L1 and streams from L2, but never stores partial sums.
"""
MAX_SIMD_OPS = 320
"""Multiply-adds of one unrolled body; beyond, engines compile it badly (design section 5)."""
PANEL_CAPACITY = 16
"""Packed weights have room for panels of this many columns (docs/protocol.md)."""
VARIED_TILES = 4
"""How many tiles, the most intense first, are tried with every unroll ``r0``."""
BASE_ORDER = "nm"

WIDE_X0_CHOICES = (4, 8, 12, 16, 20, 24, 32)
WIDE_Y0_CHOICES = tuple(range(1, 17))
WIDE_REGISTER_RANGE = (0.3, 2.0)
"""Of Heuristic 4 in wider spaces: from tiles that leave most registers idle to those that spill
half of their sums."""


@dataclass(frozen=True)
class Problem:
    """The workload and device that the rules look at."""

    batch: int
    m: int
    k: int
    n: int
    """``m``, ``k``, ``n``: Extents of one matmul, in elements; ``batch`` of them."""
    device: DeviceProfile
    packable: bool
    """Whether B is a weight that may lie in panels."""
    register_low: float = REGISTER_RANGE[0]
    """Lower end of Heuristic 4 in force, a share of all registers."""
    tiles: tuple[tuple[int, int], ...] = ()
    """``(x0, y0)`` of the space, most intense first."""
    storage: Storage = FLOAT32
    """How the operands lie; anything but float32 reads all of K at once."""

    @property
    def lanes(self) -> int:
        """Elements of the engine's registers: twice as many where it packs pairs of vectors."""
        wide = lab_of(self.device.flags) == "revectorize" and self.n > LANES
        wide = wide and self.storage == FLOAT32
        return 2 * LANES if wide else LANES

    @property
    def register_elements(self) -> int:
        return self.device.vector_registers * self.lanes

    @property
    def base_r0(self) -> int:
        """The unroll that every tile is tried with first."""
        return max(r for r in R0_CHOICES if r <= min(self.storage.largest_r0, self.steps))

    @property
    def steps(self) -> int:
        """The most steps along k that ``r0`` may unroll."""
        limit = self.k if self.storage == FLOAT32 else self.storage.limit_r0
        return min(limit, max(1, self.k // self.storage.per_word))

    def depths(self, x0: int, y0: int) -> tuple[int, ...]:
        """Depths ``r1`` worth trying for a tile, the one tried first in front.

        The whole reduction K if its block may stream from L2, and the
        largest power of two that keeps the block in L1 if K does not.
        """
        if self.storage.whole_depth:
            return (self.k,)
        found = []
        if block_bytes(x0, y0, self.k) <= max(self.l1_limit_bytes, self.l2_limit_bytes):
            found.append(self.k)
        if block_bytes(x0, y0, self.k) > self.l1_limit_bytes:
            fitting = [r for r in powers_of_two(MIN_R1, self.k) if self.fits_l1(x0, y0, r)]
            found.extend(fitting[-1:])
        return tuple(found) or (min(self.k, MIN_R1),)

    @property
    def l1_limit_bytes(self) -> float:
        return self.device.l1_bytes * L1_RELAXATION

    @property
    def l2_limit_bytes(self) -> float:
        return self.device.l2_bytes * L2_STREAM_SHARE

    def fits_l1(self, x1: int, y1: int, r1: int) -> bool:
        return block_bytes(x1, y1, r1) <= self.l1_limit_bytes


def register_use(x0: int, y0: int) -> int:
    """``Reg_thread`` of Table 1 with ``r0 = 1``, in elements."""
    return x0 + y0 + x0 * y0


def block_bytes(x1: int, y1: int, r1: int) -> int:
    """``L1_block`` of Table 1 in bytes."""
    return (x1 * r1 + r1 * y1 + x1 * y1) * ELEMENT_BYTES


def intensity(x0: int, y0: int) -> float:
    """Multiply-adds for each element loaded by one step of the reduction."""
    return x0 * y0 / (x0 + y0)


def powers_of_two(low: int, below: int) -> list[int]:
    """Powers of two from ``low`` (itself one) up to, not including, ``below``."""
    return [low << i for i in range(max(0, below.bit_length())) if low << i < below]


def splits(extent: int, parts: int) -> int:
    """Ways to write a loop as ``parts`` nested ones: ordered factorisations of its extent.

    An extent of few factors is split with remainders instead: as many ways as
    the next power of two has.
    """
    ways, rest, factor = 1, extent, 2
    while rest > 1:
        power = 0
        while rest % factor == 0:
            rest, power = rest // factor, power + 1
        ways *= math.comb(power + parts - 1, parts - 1)
        factor = factor + 1 if factor * factor <= rest else max(rest, factor + 1)
    return max(ways, math.comb((extent - 1).bit_length() + parts - 1, parts - 1))


Rule = Callable[[Candidate, Problem], tuple[bool, str]]


def simd_width(c: Candidate, p: Problem) -> tuple[bool, str]:
    """Heuristic 1: vectors are 128 bits, so columns come in fours; packed pairs in eights."""
    return c.x0 % p.lanes == 0, f"x0 {c.x0} in vectors of {p.lanes} float32 ({32 * p.lanes} bits)"


def power_of_two(c: Candidate, p: Problem) -> tuple[bool, str]:
    """Heuristic 2, with the exception of :data:`Y0_CHOICES`; r1 may be all of K."""
    depths = (*powers_of_two(MIN_R1, p.k), p.k)
    ok = (
        c.x0 in X0_CHOICES
        and c.y0 in Y0_CHOICES
        and c.r0 in R0_CHOICES
        and (c.r1 in depths or c.r1 == min(p.k, MIN_R1))
    )
    text = (
        f"x0 {c.x0} of {_listed(X0_CHOICES)}; y0 {c.y0} of {_listed(Y0_CHOICES)} (rows are not "
        f"vectorised); r0 {c.r0} of {_listed(R0_CHOICES)}; r1 {c.r1}: a power of two from "
        f"{MIN_R1} or K {p.k}"
    )
    return ok, text


def problem_size(c: Candidate, p: Problem) -> tuple[bool, str]:
    """A tile larger than the problem computes padding alone."""
    columns = math.ceil(p.n / LANES) * LANES
    ok = c.y0 <= p.m and c.x0 <= columns and c.r0 <= p.steps and c.r1 <= p.k
    return ok, (
        f"tile {c.y0}x{c.x0} in {p.m}x{columns} (rows x columns, rounded up to {LANES}), "
        f"r0 {c.r0} and r1 {c.r1} in K {p.k}"
    )


def registers(c: Candidate, p: Problem) -> tuple[bool, str]:
    """Heuristic 4, relaxed: the tile about fills the registers."""
    used, total = register_use(c.x0, c.y0), p.register_elements
    low, high = p.register_low * total, REGISTER_RANGE[1] * total
    relaxed = (
        f"; lower end relaxed from {REGISTER_RANGE[0]:g} to {p.register_low:g} of them, "
        f"as the problem has few tiles"
        if p.register_low < REGISTER_RANGE[0]
        else ""
    )
    return low <= used <= high, (
        f"Reg_thread {used} of {total} elements ({c.x0}*1 + 1*{c.y0} + {c.x0}*{c.y0}, "
        f"{p.device.vector_registers} vector registers x {p.lanes}), "
        f"accepted {low:.0f}..{high:.0f}{relaxed}"
    )


def block_shape(c: Candidate, p: Problem) -> tuple[bool, str]:
    """``Thread_block = 1`` on Wasm (Table 1): the second tile is the inner tile, deepened."""
    ok = (c.x1, c.y1) == (c.x0, c.y0)
    return ok, f"block {c.y1}x{c.x1} of one tile {c.y0}x{c.x0} (Thread_block 1 on Wasm)"


def l1_cache(c: Candidate, p: Problem) -> tuple[bool, str]:
    """Heuristic 3, relaxed; a block over all of K may stream from L2 instead."""
    size = p.storage.element_bytes
    used = block_bytes(c.x1, c.y1, c.r1) // ELEMENT_BYTES * size
    text = (
        f"L1_block {used / 1024:.1f} of {p.device.l1_bytes / 1024:g} KiB "
        f"(({c.x1}*{c.r1} + {c.r1}*{c.y1} + {c.x1}*{c.y1}) * {size} bytes, "
        f"relaxed to {p.l1_limit_bytes / 1024:.1f} KiB)"
    )
    if used <= p.l1_limit_bytes:
        return True, text
    if p.storage.whole_depth:
        return True, text + "; quantised weights are never read in parts"
    streams = c.r1 == p.k and used <= p.l2_limit_bytes
    return streams, text + (
        f"; r1 is all of K: {'streams' if streams else 'too large to stream'} from "
        f"{L2_STREAM_SHARE:g} of L2, {p.l2_limit_bytes / 1024:.0f} KiB"
        if c.r1 == p.k
        else ""
    )


def function_size(c: Candidate, p: Problem) -> tuple[bool, str]:
    """One kernel stays one small function."""
    if p.storage != FLOAT32:
        ops = p.storage.operations(c.x0, c.y0, c.r0)
        return ops <= MAX_SIMD_OPS, f"{ops} of at most {MAX_SIMD_OPS} SIMD operations"
    ops = c.y0 * math.ceil(c.x0 / LANES) * c.r0
    return ops <= MAX_SIMD_OPS, (
        f"{ops} of at most {MAX_SIMD_OPS} SIMD multiply-adds "
        f"({c.y0}*{math.ceil(c.x0 / LANES)}*{c.r0})"
    )


def packing(c: Candidate, p: Problem) -> tuple[bool, str]:
    """Weights are read from panels, everything else row-major; panels must find room."""
    if c.pack != p.packable:
        kind = "a weight: read from panels" if p.packable else "no weight: read row-major"
        return False, f"B is {kind}, but pack is {int(c.pack)}"
    if not c.pack:
        return True, "B is no weight and is read row-major"
    padded, room = (math.ceil(p.n / w) * w for w in (c.x0, PANEL_CAPACITY))
    return padded <= room, f"panels of {c.x0} pad N {p.n} to {padded} columns of room for {room}"


def loop_order(c: Candidate, p: Problem) -> tuple[bool, str]:
    """Both orders are one when a single row or column of tiles covers the problem."""
    rows, columns = math.ceil(p.m / c.y0), math.ceil(p.n / c.x0)
    ok = c.order == BASE_ORDER or (rows > 1 and columns > 1)
    return ok, f"order {c.order} over {rows}x{columns} tiles"


def depth(c: Candidate, p: Problem) -> tuple[bool, str]:
    """Only the deepest reduction blocks: all of K, and the largest that stays in L1."""
    depths = p.depths(c.x0, c.y0)
    return c.r1 in depths, f"r1 {c.r1} of {_listed(depths)}, the deepest blocks for this tile"


def one_at_a_time(c: Candidate, p: Problem) -> tuple[bool, str]:
    """At most one of r0, r1 and order leaves its first choice, r0 only for the best tiles.

    One variable at a time, as in the paper's microbenchmarks (section 5.1):
    it keeps dozens of candidates where the product has hundreds.
    """
    changed = variations(c, p)
    if len(changed) > 1:
        return False, f"{' and '.join(changed)} leave their first choice at once"
    if changed == ("r0",) and (c.x0, c.y0) not in p.tiles[:VARIED_TILES]:
        best = _listed(f"{y}x{x}" for x, y in p.tiles[:VARIED_TILES])
        return False, f"r0 is varied for the {VARIED_TILES} most intense tiles only: {best}"
    return True, f"varies {changed[0]}" if changed else "first choice of r0, r1 and order"


def variations(c: Candidate, p: Problem) -> tuple[str, ...]:
    """Settings in which a candidate leaves the first choice for its tile."""
    first = {"r0": p.base_r0, "r1": p.depths(c.x0, c.y0)[0], "order": BASE_ORDER}
    return tuple(name for name, value in first.items() if getattr(c, name) != value)


TILE_RULES: tuple[Rule, ...] = (simd_width, power_of_two, problem_size, registers, packing)
"""Rules that a tile passes or fails whatever its r0, r1 and order."""
RULES: tuple[Rule, ...] = (
    *TILE_RULES,
    block_shape,
    l1_cache,
    function_size,
    loop_order,
    depth,
    one_at_a_time,
)


def _listed(values: Iterable[object]) -> str:
    return ", ".join(str(v) for v in values)
