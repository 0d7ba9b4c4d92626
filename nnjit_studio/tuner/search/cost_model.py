"""The cost model: a small regression over measured candidates that predicts the others.

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
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import AnyCandidate, GpuCandidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.space.features import Features
from nnjit_studio.space.registry import row_of
from nnjit_studio.tuner.search import gpu_cost_model

Array = NDArray[np.float64]

FEATURES = Features._fields

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


def features(c: Candidate, workload: Workload, device: DeviceProfile) -> Features:
    """The numbers of a candidate that :data:`PRIOR_WEIGHTS` weigh."""
    return row_of(workload.kind).features(c, workload, device)


@dataclass(frozen=True)
class Point:
    """A candidate as the regression sees it."""

    mean: float
    """Logarithm of GFLOP/s by the formula."""
    numbers: tuple[float, ...]
    """Its :func:`features`."""
    codes: tuple[int, ...]
    """What it may have in common with others, each as a checksum: group (what is compared
    directly), family, tile, r0, order, blocks, all settings; of a GPU candidate r1, the
    workgroup's tile and split in place of r0, order and blocks."""


def family_of(workload: Workload) -> str:
    """Which of :data:`PRIOR_WEIGHTS` a workload has."""
    return row_of(workload.kind).family(workload)


def point_of(
    group: str, candidate: AnyCandidate, workload: Workload, device: DeviceProfile, peak: float
) -> Point:
    """``peak`` in GFLOP/s, of what the group was measured on."""
    if isinstance(candidate, GpuCandidate):
        return _gpu_point(group, candidate, workload, device.gpu or GpuProfile(), peak)
    c, family, numbers = candidate, family_of(workload), features(candidate, workload, device)
    blocks = numbers.blocks_of_k, numbers.block_rows
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
