"""Both axes of a plot in powers of ten, with plain numbers."""

from __future__ import annotations

import math

import pyqtgraph as pg

POWERS = range(-6, 9)
TICKS = [
    [(power, f"{10.0**power:g}") for power in POWERS],
    [(power + math.log10(n), f"{n * 10.0**power:g}") for power in POWERS for n in (2, 5)],
]
"""pyqtgraph would name every digit between them, one over the other, as powers."""


def use(item: pg.PlotItem) -> None:
    item.setLogMode(x=True, y=True)
    for side in ("bottom", "left"):
        item.getAxis(side).setTicks(TICKS)
