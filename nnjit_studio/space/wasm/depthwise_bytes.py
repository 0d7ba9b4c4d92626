"""The lite space of a depthwise convolution of bytes, channels last.

The symbols keep their places (:class:`Candidate`): ``x0`` = channels, always eight; ``y0`` =
pixels of a tile; ``x1`` = output rows of a block, for which taps are widened once. ``r0`` = 1,
``y1`` = ``y0``, ``r1`` = all taps and order and packing have one value: nothing is blocked there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.quantised import DEPTHWISE_INT8
from nnjit_studio.space.features import Features
from nnjit_studio.space.rules import Space, Usage
from nnjit_studio.space.wasm.heuristics import LANES, splits
from nnjit_studio.space.wasm.matmul import tile_features

CHANNELS = 8
_DIMS = "NxHxWxCxKHxKWxSTRIDExDILATION"
_PIXELS = (1, 2, 3, 4, 6, 8)
_BLOCKS = (4, 2, 8, 1, 16)
"""Rows of a block, the first choice in front."""
_MAX_OPERATIONS = 400


@dataclass(frozen=True)
class DepthwiseProblem:
    """Sizes of the result and of the kernel."""

    rows: int
    columns: int
    channels: int
    kernel: tuple[int, int]
    device: DeviceProfile

    @property
    def taps(self) -> int:
        return math.prod(self.kernel)

    def operations(self, c: Candidate) -> int:
        """Dot products and additions of a tile."""
        return 4 * c.y0 * self.kernel[1] * -(-self.kernel[0] // 2)


def depthwise_bytes_space(
    workload: Workload, device: DeviceProfile, packable: bool
) -> Space[Candidate, DepthwiseProblem]:
    """All pairs of a tile and a block.

    Raises
    ------
    UserError
        When the workload is no such convolution.
    """
    if workload.kind != DEPTHWISE_INT8 or len(workload.dims) != len(_DIMS.split("x")):
        raise UserError(
            f"There is no lite space for the workload {workload.name}.",
            f"A depthwise convolution of bytes has the dims {_DIMS}.",
        )
    _, rows, columns, channels, down, across, *_ = workload.dims
    problem = DepthwiseProblem(rows, columns, channels, (down, across), device)
    return Space(problem, RULES, (tile, block), _candidates, _usage, _varies)


def tile(c: Candidate, p: DepthwiseProblem) -> tuple[bool, str]:
    """Pixels of a row, and a body that engines compile well."""
    operations = p.operations(c)
    ok = c.x0 == CHANNELS and 1 <= c.y0 <= p.columns and operations <= _MAX_OPERATIONS
    return ok, f"{c.y0} of {p.columns} pixels, {operations} of at most {_MAX_OPERATIONS} operations"


def block(c: Candidate, p: DepthwiseProblem) -> tuple[bool, str]:
    """Rows for which the taps of eight channels stay in locals."""
    return 1 <= c.x1 <= p.rows, f"blocks of {c.x1} of {p.rows} rows"


def fixed(c: Candidate, p: DepthwiseProblem) -> tuple[bool, str]:
    """Settings that the template does not use have one value."""
    ok = (c.r0, c.y1, c.r1, c.order, c.pack) == (1, c.y0, p.taps, "mn", False)
    return ok, f"r0 1, y1 {c.y0}, r1 all {p.taps} taps, order mn, weights as they are"


Rule = Callable[[Candidate, DepthwiseProblem], tuple[bool, str]]
RULES: tuple[Rule, ...] = (tile, block, fixed)


def _candidates(p: DepthwiseProblem) -> list[Candidate]:
    pixels = {min(n, p.columns) for n in _PIXELS}
    blocks = {min(n, p.rows) for n in _BLOCKS}
    found = [Candidate(CHANNELS, y, 1, x, y, p.taps, "mn", False) for y in pixels for x in blocks]
    accepted = [c for c in found if all(rule(c, p)[0] for rule in RULES)]
    return sorted(accepted, key=lambda c: _rank(c, p))


def _rank(c: Candidate, p: DepthwiseProblem) -> tuple[float, ...]:
    sums = 2 * c.y0
    # Two vectors of the image and a zero stand beside the sums; taps come from memory.
    return (bool(_varies(c, p)), sums + 3 > p.device.vector_registers, -sums, c.x1)


def _varies(c: Candidate, p: DepthwiseProblem) -> tuple[str, ...]:
    return () if c.x1 == min(_BLOCKS[0], p.rows) else ("x1",)


def _usage(c: Candidate, p: DepthwiseProblem) -> Usage:
    return Usage(2 * c.y0 * LANES, c.x1 * p.columns * p.channels)


def depthwise_bytes_features(c: Candidate, workload: Workload, device: DeviceProfile) -> Features:
    """Of a tile of pixels times channels."""
    _, rows, columns, channels, *_ = workload.dims
    of_tile = tile_features(c, (columns, channels), device)
    return of_tile._replace(block_rows=math.log2(rows / c.x1))


def depthwise_bytes_naive_size(workload: Workload) -> int:
    """Size of the space before any reduction: as for convolutions."""
    _, rows, columns, channels, *_ = workload.dims
    return (math.prod(splits(extent, 3) for extent in (rows, columns, channels)) * 4) << 3
