"""The lite space of a product: the rules of :mod:`.heuristics` on tiles of rows times columns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.candidate import ORDERS, Candidate
from nnjit_studio.records.quantised import FLOAT32, STORAGES
from nnjit_studio.space.features import Features
from nnjit_studio.space.rules import Space, Usage
from nnjit_studio.space.wasm.heuristics import (
    ELEMENT_BYTES,
    LANES,
    MIN_R1,
    MIN_TILES,
    R0_CHOICES,
    REGISTER_LOW_STEPS,
    RULES,
    TILE_RULES,
    WIDE_REGISTER_RANGE,
    WIDE_X0_CHOICES,
    WIDE_Y0_CHOICES,
    X0_CHOICES,
    Y0_CHOICES,
    Problem,
    block_bytes,
    function_size,
    intensity,
    l1_cache,
    one_at_a_time,
    packing,
    powers_of_two,
    problem_size,
    register_use,
    registers,
    splits,
    variations,
)

ON_OFF_PRIMITIVES = ("cache_write", "unroll", "vectorize")


def matmul_space(
    workload: Workload, device: DeviceProfile, packable: bool
) -> Space[Candidate, Problem]:
    """All candidates that every rule accepts, best guess first.

    The order is that of the paper (section 5.2), blocks per core, which ties
    on Wasm; then every tile with its first choice of r0, r1 and order before
    the variations; then the intensity of the tile and how well it fills the
    registers.

    Raises
    ------
    UserError
        When no lite space exists for this kind or dtype.
    """
    problem = matmul_problem(workload, device, packable)
    told = (registers, l1_cache, one_at_a_time)
    return Space(problem, RULES, told, _candidates, _usage, variations, _wider)


def matmul_problem(workload: Workload, device: DeviceProfile, packable: bool) -> Problem:
    """Extents, and the tiles left by the rules on tiles, most intense first.

    A problem too small for :data:`MIN_TILES` tiles that fill the registers
    gets the lower end of Heuristic 4 relaxed step by step; a row vector
    (M = 1) is such a problem.
    """
    ranks = {"matmul": (3,), "batch_matmul": (4,), **dict.fromkeys(STORAGES, (3, 4))}
    storage = STORAGES.get(workload.kind, FLOAT32)
    readable = workload.dtype == "f32" or storage != FLOAT32
    if len(workload.dims) not in ranks.get(workload.kind, ()) or not readable:
        raise UserError(
            f"There is no lite space for the workload {workload.name}.",
            "Lite spaces exist for matmul:MxKxN:f32 and batch_matmul:BxMxKxN:f32.",
        )
    batch, m, k, n = (1, *workload.dims)[-4:]
    problem = Problem(batch, m, k, n, device, packable, storage=storage)
    for low in REGISTER_LOW_STEPS:
        problem = replace(problem, register_low=low)
        tiles = [tile for tile in product(X0_CHOICES, Y0_CHOICES) if _tile_fits(tile, problem)]
        if len(tiles) >= MIN_TILES:
            break
    tiles.sort(key=lambda tile: _tile_rank(tile, problem))
    return replace(problem, tiles=tuple(tiles))


def _tile_fits(tile: tuple[int, int], problem: Problem) -> bool:
    x0, y0 = tile
    probe = Candidate(x0, y0, problem.base_r0, x0, y0, problem.k, pack=problem.packable)
    return all(rule(probe, problem)[0] for rule in TILE_RULES)


def _tile_rank(tile: tuple[int, int], problem: Problem) -> tuple[float, ...]:
    idle = abs(register_use(tile[0], tile[1]) - problem.register_elements)
    return (-intensity(*tile), idle, *tile)


def _candidates(problem: Problem) -> list[Candidate]:
    depths = {d for tile in problem.tiles for d in problem.depths(*tile)}
    found = (
        Candidate(x0, y0, r0, x0, y0, r1, order, problem.packable)
        for (x0, y0), r0, r1, order in product(problem.tiles, R0_CHOICES, sorted(depths), ORDERS)
    )
    accepted = (c for c in found if all(rule(c, problem)[0] for rule in RULES))
    return sorted(accepted, key=lambda c: _rank(c, problem))


def _rank(c: Candidate, problem: Problem) -> tuple[object, ...]:
    varies = "".join(variations(c, problem))
    return (varies != "", *_tile_rank((c.x0, c.y0), problem), varies, c)


def _usage(c: Candidate, problem: Problem) -> Usage:
    storage = problem.storage
    l1_bytes = block_bytes(c.x1, c.y1, c.r1) // ELEMENT_BYTES * storage.element_bytes
    return Usage(register_use(c.x0, c.y0), l1_bytes)


def _wider(problem: Problem) -> Iterator[Candidate]:
    """Any multiple of four columns, any rows, any block of the reduction."""
    if problem.storage.whole_depth:
        depths = [problem.k]
    else:
        depths = [*powers_of_two(MIN_R1, problem.k), problem.k]
    for x0, y0 in product(WIDE_X0_CHOICES, WIDE_Y0_CHOICES):
        if not fills(x0, y0, problem.device, problem.register_low):
            continue
        for r0, r1, order in product(R0_CHOICES, depths, ORDERS):
            c = Candidate(x0, y0, r0, x0, y0, r1, order, problem.packable)
            if all(rule(c, problem)[0] for rule in (problem_size, function_size, packing)):
                yield c


def fills(x0: int, y0: int, device: DeviceProfile, register_low: float) -> bool:
    """Whether a tile is in the range of Heuristic 4 that wider spaces have."""
    low, high = (share * device.vector_registers * LANES for share in WIDE_REGISTER_RANGE)
    # A problem too small to fill the registers has the lower end relaxed here too.
    return min(low, register_low * low) <= register_use(x0, y0) <= high


def matmul_naive_size(workload: Workload) -> int:
    """As :func:`nnjit_studio.space.lite_space.naive_size`, of a product."""
    batch, m, k, n = (1, *workload.dims)[-4:]
    loops = splits(m, 3) * splits(n, 3) * splits(k, 2) * splits(batch, 2)
    return loops << len(ON_OFF_PRIMITIVES)


def matmul_family(workload: Workload) -> str:
    """``row`` where its M is 1."""
    return "row" if workload.dims[-3] == 1 else "matmul"


def matmul_features(c: Candidate, workload: Workload, device: DeviceProfile) -> Features:
    m, k, n = workload.dims[-3:]
    streamed = (m * k if c.order == "nm" else k * n) * ELEMENT_BYTES
    over_l1 = block_bytes(c.x0, c.y0, min(c.r1, k)) / device.l1_bytes
    return tile_features(c, (m, n), device)._replace(
        blocks_of_k=math.log2(k / min(c.r1, k)),
        over_l1=max(0.0, math.log2(over_l1)),
        streamed=max(0.0, math.log2(2 * streamed / device.l2_bytes)),
        narrow_rows=float(not c.pack and c.x0 == LANES and n > LANES),
    )


def tile_features(c: Candidate, extents: tuple[int, int], device: DeviceProfile) -> Features:
    """The features of a tile of rows times vectors of columns, for extents of rows and columns."""
    vectors = math.ceil(c.x0 / LANES)
    sums = c.y0 * vectors
    return Features(
        math.log2(intensity(c.x0, c.y0)),
        max(0.0, 1 - sums / 8),
        max(0.0, (sums + vectors + 1) / device.vector_registers - 1),
        (extents[0] % c.y0) / extents[0],
        (extents[1] % c.x0) / extents[1],
        math.log2(c.r0),
        float(c.r0 == 1),
        order_mn=float(c.order == "mn"),
    )
