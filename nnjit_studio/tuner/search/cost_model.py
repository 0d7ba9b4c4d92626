"""Which candidate next: what a small regression over measured candidates predicts.

A Gaussian process on the logarithm of the rate. Its mean is a formula, weights of
:data:`FEATURES` that were fitted once (:data:`PRIOR_WEIGHTS`). Its covariance says what
measurements have in common: the level of their workload, the features, the tile on this
device, the tile and each setting in this workload. So a tile that was fast for one
workload is expected to be fast for the next, and a fresh device or database starts from
the formula. Equal measurements in equal order give equal predictions.

Written by hand, because scikit-learn has no such covariance over categories: its regressor would
save ten lines and cost 0.7 s of import and 51 MB.

C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine Learning", MIT Press
2006, algorithm 2.1; expected improvement: D. R. Jones, M. Schonlau, W. J. Welch,
"Efficient Global Optimization of Expensive Black-Box Functions", Journal of Global
Optimization 13, 1998, equation 15.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.model import Workload
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import AnyCandidate, GpuCandidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.records.records import DeviceProfile
from nnjit_studio.space.wasm import dot as dot_space
from nnjit_studio.space.wasm.conv2d import CONV2D, conv_problem
from nnjit_studio.space.wasm.dot import DOT_KINDS
from nnjit_studio.space.wasm.heuristics import LANES, block_bytes, intensity
from nnjit_studio.tuner.search import gpu_cost_model

Array = NDArray[np.float64]

FEATURES = (
    "intensity",
    "few_sums",
    "spilled",
    "tail_rows",
    "tail_columns",
    "unroll",
    "no_unroll",
    "blocks_of_k",
    "over_l1",
    "streamed",
    "order_mn",
    "narrow_rows",
    "block_rows",
)
"""What the formula looks at; see :func:`features`."""
BLOCKS_OF_K, BLOCK_ROWS = FEATURES.index("blocks_of_k"), FEATURES.index("block_rows")

PRIOR_WEIGHTS: dict[str, tuple[float, ...]] = {
    "matmul": (0.19, -0.21, -0.51, -0.06, 0.09, 0.03, -0.04, -0.03, -0.09, -0.05, -0.01, -0.06, 0),
    "row": (0.40, -0.22, -0.13, 0, 0.29, 0, -0.09, 0.04, -0.16, -0.05, 0.08, -0.70, 0),
    "conv2d": (0.20, -0.43, -0.62, -0.18, 0.21, -0.03, -0.11, 0, 0, 0, 0.01, 0, -0.02),
    "depthwise": (0.08, 0.06, -0.19, 0.08, -0.03, 0.01, -0.01, 0, 0, 0, 0.08, 0, 0),
    "dot": (0.19, -0.21, -2, -0.06, 0, 0.03, -0.04, 0, -0.09, -0.05, -0.01, -0.30, 0),
}
"""What a unit of each feature adds to the logarithm of the rate, by :func:`family_of`.

Robust ridge regression within workloads on 2103 kernels of 28 shapes, one thread,
QtWebEngine 6.140 on an AMD EPYC (x64, 16 vector registers), 2026-11-21; none of the
shapes is one of ``nnjit bench regret``. The median residual was 0.11 (0.14 for
convolutions) on a machine that did other work too. ``dot`` was not fitted: it is ``matmul``
without its weights for B's columns, and with steeper ones for spills (a tile of 16 vectors was
a fifth slower than one of 15) and for results in parts.
"""


@dataclass(frozen=True)
class Spread:
    """Standard deviations of the logarithm of the rate, by what they belong to."""

    level: float = 0.35
    weights: float = 0.05
    tile: float = 0.06
    tile_here: float = 0.08
    setting_here: float = 0.04
    own: float = 0.04
    noise: float = 0.03


SPREAD = Spread()
SPREAD_WEIGHT = 12
"""The spread found here is blended with :data:`SPREAD`, which counts as so many measurements."""
DISTANT_NOISE = 0.1
"""Added to the noise of what another device measured."""
LEVEL = -0.25
"""Logarithm of the share of the peak that a workload's kernels are expected at."""


def features(c: Candidate, workload: Workload, device: DeviceProfile) -> tuple[float, ...]:
    """The numbers of a candidate, in the order of :data:`FEATURES`; around 0 to 2 each.

    intensity
        log2 of multiply-adds by loaded element (:func:`heuristics.intensity`).
    few_sums
        Share of eight sums that the tile lacks: two multiply-add units with a
        latency of four cycles want eight that do not wait for each other.
    spilled
        Vectors that find no register (sums, one row of B, one splat of A; of dot products
        the operands and the engine's own), by all registers.
    tail_rows, tail_columns
        Share of M (of N) in remainders, which are smaller tiles.
    unroll, no_unroll
        log2 of r0; 1 where r0 is 1.
    blocks_of_k
        log2 of K by r1.
    over_l1
        log2 of the block's bytes by L1, where it is larger.
    streamed
        log2 of the operand that is read again for each block by half of L2, where larger.
    order_mn
        1 for the order ``mn``.
    narrow_rows
        1 where four columns are read out of the rows of a B that is not packed; of dot
        products with an epilogue: share of columns that fill no whole vector of results.
    block_rows
        Of a convolution: log2 of output rows by rows of a block; of dot products: 1 where
        a block holds several tiles; else 0.
    """
    if workload.kind in DOT_KINDS.values():
        return _dot_features(c, workload, device)
    m, k, n, rows = _extents(workload, device)
    vectors = math.ceil(c.x0 / LANES)
    sums, registers = c.y0 * vectors, device.vector_registers
    streamed = (m * k if c.order == "nm" else k * n) * 4
    is_conv = workload.kind == CONV2D
    over_l1 = block_bytes(c.x0, c.y0, min(c.r1, k)) / device.l1_bytes
    return (
        math.log2(intensity(c.x0, c.y0)),
        max(0.0, 1 - sums / 8),
        max(0.0, (sums + vectors + 1) / registers - 1),
        (m % c.y0) / m,
        (n % c.x0) / n,
        math.log2(c.r0),
        float(c.r0 == 1),
        0.0 if is_conv else math.log2(k / min(c.r1, k)),
        0.0 if is_conv else max(0.0, math.log2(over_l1)),
        0.0 if is_conv else max(0.0, math.log2(2 * streamed / device.l2_bytes)),
        float(c.order == "mn"),
        float(not is_conv and not c.pack and c.x0 == LANES and n > LANES),
        math.log2(rows / c.x1) if is_conv else 0.0,
    )


def _dot_features(c: Candidate, workload: Workload, device: DeviceProfile) -> tuple[float, ...]:
    """:func:`features` of dot products: each sum is a vector, r0 counts vectors."""
    m, k, n = workload.dims[-3:]
    blocked = c.y1 > c.y0
    streamed = 0 if blocked else (m if c.order == "nm" else n) * k * 4
    over_l1 = dot_space.block_bytes(c, k) / device.l1_bytes
    return (
        math.log2(intensity(c.x0, c.y0)),
        max(0.0, 1 - c.x0 * c.y0 / 8),
        max(0.0, (dot_space.vectors(c.x0, c.y0) + 1) / device.vector_registers - 1),
        (m % c.y0) / m,
        (n % c.x0) / n,
        math.log2(c.r0),
        float(c.r0 == 1),
        0.0,
        max(0.0, math.log2(over_l1)),
        max(0.0, math.log2(max(1, 2 * streamed) / device.l2_bytes)),
        float(c.order == "mn"),
        dot_space.partial(c.x0) if workload.epilogue else 0.0,
        float(blocked),
    )


def _extents(workload: Workload, device: DeviceProfile) -> tuple[int, int, int, int]:
    """M, K, N as the tile sees them, and the output rows of a convolution."""
    if workload.kind == CONV2D:
        p = conv_problem(workload, device)
        return p.rows, p.depth, p.out_width, p.out_height
    m, k, n = workload.dims[-3:]
    return m, k, n, 1


@dataclass(frozen=True)
class Point:
    """A candidate as the regression sees it.

    Attributes
    ----------
    mean
        Logarithm of GFLOP/s by the formula.
    numbers
        Its :func:`features`.
    codes
        What it may have in common with others, each as a checksum: group (what is
        compared directly), family, tile, r0, order, blocks, all settings; of a GPU
        candidate r1, the workgroup's tile and split in place of r0, order and blocks.
    """

    mean: float
    numbers: tuple[float, ...]
    codes: tuple[int, ...]


def family_of(workload: Workload) -> str:
    """Which weights a workload has: ``matmul``, ``row`` (its M is 1), ``dot``, ``conv2d`` or
    ``depthwise``.
    """
    if workload.kind == CONV2D:
        return "depthwise" if workload.dims[-1] > 1 else CONV2D
    if workload.kind in DOT_KINDS.values():
        return "dot"
    return "row" if workload.dims[-3] == 1 else "matmul"


def point_of(
    group: str, candidate: AnyCandidate, workload: Workload, device: DeviceProfile, peak: float
) -> Point:
    """``peak`` in GFLOP/s, of what the group was measured on."""
    if isinstance(candidate, GpuCandidate):
        return _gpu_point(group, candidate, workload, device.gpu or GpuProfile(), peak)
    c, family, numbers = candidate, family_of(workload), features(candidate, workload, device)
    blocks = numbers[BLOCKS_OF_K], numbers[BLOCK_ROWS]
    shared = (group, family, (c.x0, c.y0), c.r0, c.order, blocks, c)
    codes = tuple(zlib.crc32(str(what).encode()) for what in shared)
    mean = math.log(peak) + LEVEL + float(np.dot(PRIOR_WEIGHTS[family], numbers))
    return Point(mean, numbers, codes)


def _gpu_point(
    group: str, c: GpuCandidate, workload: Workload, gpu: GpuProfile, peak: float
) -> Point:
    share, numbers, family = gpu_cost_model.prior_of(c, workload, gpu)
    shared = (group, family, (c.x0, c.y0), c.r1, (c.x1, c.y1), c.split, c)
    codes = tuple(zlib.crc32(str(what).encode()) for what in shared)
    return Point(math.log(peak) + LEVEL + share, numbers, codes)


class CostModel:
    """Learns rates, predicts others; a function of what it learned, in that order."""

    def __init__(self) -> None:
        self._points: list[Point] = []
        self._rates: list[float] = []
        self._noise: list[float] = []
        self._solved: tuple[tuple[Array, bool], Array, float] | None = None

    def learn(self, point: Point, log_rate: float, distant: bool = False) -> None:
        """``log_rate``: natural logarithm of GFLOP/s; ``distant``: from another device."""
        self._points.append(point)
        self._rates.append(log_rate)
        self._noise.append(SPREAD.noise**2 + (DISTANT_NOISE**2 if distant else 0.0))
        self._solved = None

    def predict(self, points: Sequence[Point]) -> tuple[Array, Array]:
        """Mean and standard deviation of the logarithm of each point's rate, without noise."""
        mean, own = _means(points), covariance(points, points)
        if not self._points or not points:
            return mean, np.sqrt(np.diag(own))
        from scipy.linalg import cho_solve

        factor, weights, scale = self._solve()
        across = covariance(points, self._points)
        variance = np.diag(own) - np.sum(across.T * cho_solve(factor, across.T), axis=0)
        return mean + across @ weights, np.sqrt(scale * np.maximum(variance, 1e-12))

    def _solve(self) -> tuple[tuple[Array, bool], Array, float]:
        """Factor of the covariance, weights of the residuals, and how wide they are."""
        from scipy.linalg import cho_factor, cho_solve

        if self._solved is None:
            matrix = covariance(self._points, self._points) + np.diag(self._noise)
            factor = cho_factor(matrix)
            residual = np.array(self._rates) - _means(self._points)
            weights = cho_solve(factor, residual)
            # Of the variance: 1 where the residuals are as wide as expected.
            wide = (SPREAD_WEIGHT + float(residual @ weights)) / (SPREAD_WEIGHT + len(residual))
            self._solved = factor, weights, wide
        return self._solved


def _means(points: Sequence[Point]) -> Array:
    return np.array([p.mean for p in points], dtype=np.float64)


def covariance(left: Sequence[Point], right: Sequence[Point]) -> Array:
    """What two candidates have in common; see :class:`Spread`."""
    s = SPREAD
    a, b = (np.array([p.codes for p in side], dtype=np.int64).T for side in (left, right))
    group, family, tile, *settings, own = (
        x[:, None] == y[None, :] for x, y in zip(a, b, strict=True)
    )
    here = s.level**2 + s.tile_here**2 * tile + s.setting_here**2 * sum(settings) + s.own**2 * own
    numbers = np.array([p.numbers for p in left]) @ np.array([p.numbers for p in right]).T
    kin = s.weights**2 * numbers + s.tile**2 * tile
    return np.asarray(group * here + family * kin, dtype=np.float64)


def expected_improvement(mean: Array, deviation: Array, incumbent: float, least: float) -> Array:
    """Share of a kernel's time that each candidate is expected to save.

    Only gains of at least ``least`` lead to a swap: the mean over the part of the
    distribution above it, times its probability.
    """
    from scipy.special import ndtr

    bar = incumbent + math.log1p(least)
    z = (mean - bar) / deviation
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    above = ndtr(z)
    gain = deviation * (z * above + density) + (bar - incumbent) * above
    return np.asarray(-np.expm1(-np.maximum(gain, 0.0)))
