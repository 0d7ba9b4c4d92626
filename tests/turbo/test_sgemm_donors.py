"""Donors for MLAS' kernels: bit for bit what products and sums rounded one by one give."""

from __future__ import annotations

import numpy as np
import pytest
from sgemm_images import Case, Donor

from nnjit_studio.foreign_wasm.turbo.kernels.module import donor_module
from nnjit_studio.foreign_wasm.turbo.kernels.sgemm import Mode, Tile

TILES = (
    Tile(6, 8), Tile(5, 8), Tile(4, 8), Tile(3, 8), Tile(2, 16), Tile(8, 4), Tile(12, 4),
    Tile(1, 32), Tile(6, 8, 1), Tile(4, 8, 2),
)  # fmt: skip
CASES = 25


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_the_exact_donor_is_bit_identical(tile: Tile) -> None:
    donor = Donor(donor_module(tile, fma=False, shared=False))
    most = 0
    for seed in range(CASES):
        case = Case.random(seed)
        for mode in Mode:
            after, rows = donor.run(mode.value, case)
            expected = case.expected(mode)
            most = max(most, rows)
            numbers = ~np.isnan(expected)
            assert np.array_equal(np.isnan(after), np.isnan(expected)), (seed, mode)
            same = after.view(np.uint32)[numbers] == expected.view(np.uint32)[numbers]
            assert same.all(), (seed, mode, np.flatnonzero(~same)[:5])
    assert most == tile.rows


@pytest.mark.parametrize("tile", TILES[:7], ids=str)
def test_the_fused_twin_differs_by_rounding_alone(tile: Tile) -> None:
    donor = Donor(donor_module(tile, fma=True, shared=False))
    for seed in range(CASES):
        case = Case.random(seed)
        for mode in Mode:
            after, _ = donor.run(mode.value, case)
            expected = case.expected(mode)
            finite = np.isfinite(expected)
            gap = np.abs(after[finite].astype(np.float64) - expected[finite])
            assert (gap <= case.bound(mode)[finite]).all(), (seed, mode)
            assert np.array_equal(np.isnan(after), np.isnan(expected))
