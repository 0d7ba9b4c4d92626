"""The first guess of a product's settings."""

from __future__ import annotations

from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.schedule.matmul import GUESSED_UNROLL, WIDEST_PANEL
from nnjit_studio.records.candidate import Candidate

_GUESSED_COLUMNS, _GUESSED_ROWS = 8, 6
"""Twelve accumulators: they fit sixteen vector registers."""


def guess_matmul(c: Contraction) -> Candidate:
    """One good tile, whatever the device.

    Tuning finds settings that are tens of percent faster on a given device; the default schedule of
    a sum of products is five to ten times slower.
    """
    rows, columns = min(c.m, _GUESSED_ROWS), guessed_panel(c)
    unroll = min(c.k, GUESSED_UNROLL)
    return Candidate(columns, rows, unroll, columns, rows, c.k, "nm", c.packable)


def guessed_panel(c: Contraction) -> int:
    """Columns of a tile; a row vector reads B once: wide panels are long runs of it."""
    columns = min(WIDEST_PANEL if c.m == 1 else _GUESSED_COLUMNS, -(-c.n // LANES) * LANES)
    return LANES if WIDEST_PANEL % columns else columns
