"""The speed of a kernel: its samples and the incumbent's, and its place under the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PySide6.QtGui import QColor

from nnjit_studio.analysis.kernel.kernel import Limits
from nnjit_studio.ui.widgets.plots.panel import PlotPanel, Table, brush, pen, use_log_axes
from nnjit_studio.ui.widgets.theme import Theme

SPREAD = 0.28
"""Half the height of a strip of samples, in rows."""
DECADES = 2.0
"""The roofline is drawn so far to both sides of the kernel's intensity."""


@dataclass(frozen=True)
class Samples:
    """Times of one kernel, ms of one run; ``source`` says where they were taken."""

    name: str
    ms: tuple[float, ...]
    source: str = ""

    @property
    def quartiles(self) -> tuple[float, float, float]:
        low, middle, high = np.percentile(self.ms, (25, 50, 75))
        return float(low), float(middle), float(high)

    def sentence(self) -> str:
        low, middle, high = self.quartiles
        return (
            f"{self.name}: median {middle:.4f} ms, IQR {high - low:.4f} ms, {len(self.ms)} samples"
        )


class SamplePlot(PlotPanel):
    """A strip of points for each kernel, its quartiles as a box, its median as a line."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(
            "Samples", "one run", "", "",
            "This candidate was not measured yet: press Measure.", theme,
        )  # fmt: skip
        self.label_axes(bottom=("one run", "ms"))
        self.plot.setAccessibleDescription("The line above gives medians and quartile ranges.")
        self.item.getViewBox().setMouseEnabled(y=False)
        self.caption = self.add_caption()
        self.sets: tuple[Samples, ...] = ()
        self.redraw()

    def show_samples(self, sets: Sequence[Samples]) -> None:
        """The challenger first."""
        self.sets = tuple(s for s in sets if s.ms)
        self.reset()

    def redraw(self) -> None:
        self.item.clear()
        self.show_empty(not self.sets)
        self.caption.setText("   ".join(s.sentence() for s in self.sets))
        self.caption.tip = "\n".join(f"{s.name}: {s.source}" for s in self.sets if s.source)
        rows = range(len(self.sets) - 1, -1, -1)
        ticks = [(row, s.name) for row, s in zip(rows, self.sets, strict=True)]
        self.item.getAxis("left").setTicks([ticks])
        self.item.setYRange(-0.6, max(len(self.sets), 1) - 0.4, padding=0)
        for number, (row, one) in enumerate(zip(rows, self.sets, strict=True)):
            self._strip(row, one, self.theme.series[number])

    def _strip(self, row: int, one: Samples, colour: str) -> None:
        low, middle, high = one.quartiles
        box = self.pg.BarGraphItem(
            x0=[low], x1=[high], y0=[row - SPREAD], y1=[row + SPREAD],
            brush=_faint(colour), pen=pen(colour, 1.0),
        )  # fmt: skip
        line = self.pg.PlotDataItem(
            [middle] * 2, [row - SPREAD, row + SPREAD], pen=pen(colour, 2.5)
        )
        # In order of time from bottom to top, so that a drift shows as a slope.
        heights = row + np.linspace(-SPREAD, SPREAD, len(one.ms)) * 0.8
        points = self.pg.ScatterPlotItem(
            np.array(one.ms), heights, size=6, brush=brush(colour), pen=None
        )
        for item in (box, line, points):
            self.item.addItem(item)

    def table(self) -> Table:
        return ("kernel", "sample", "ms"), [
            (s.name, i, ms) for s in self.sets for i, ms in enumerate(s.ms)
        ]


class KernelRoofline(PlotPanel):
    """The device's limits at every intensity, and the kernels' rates at this one's."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(
            "Roofline", "FLOP for each byte moved", "rate", "GFLOP/s",
            "The roofline needs this machine's peak: open a model, and it is measured.", theme,
        )  # fmt: skip
        self.caption = self.add_caption()
        self.caption.tip = (
            "Peak and bandwidth are measured: the page probes the peak at its start, "
            "'Measure this device' the bandwidth. Inputs and outputs count once."
        )
        self.plot.setAccessibleDescription("The table of numbers has the same figures.")
        use_log_axes(self.item)
        self._limits: Limits | None = None
        self._rates: tuple[tuple[str, float], ...] = ()
        self.redraw()

    def show_limits(self, limits: Limits | None, rates: Sequence[tuple[str, float]]) -> None:
        """Rates in GFLOP/s by name, the challenger's first; those of 0 are left out."""
        self._limits = limits
        self._rates = tuple((name, rate) for name, rate in rates if rate > 0)
        self.reset()

    def redraw(self) -> None:
        self.item.clear()
        limits = self._limits
        usable = limits is not None and bool(limits.peak_gflops) and limits.intensity > 0
        self.show_empty(not usable)
        self.caption.setText("")
        if not usable:
            return
        assert limits is not None and limits.peak_gflops
        x = np.logspace(-DECADES, DECADES, 81) * limits.intensity
        roof = np.full_like(x, limits.peak_gflops)
        if limits.bandwidth_gbs:
            roof = np.minimum(roof, x * limits.bandwidth_gbs)
        self.item.addItem(self.pg.PlotDataItem(x, roof, pen=pen(self.theme.muted, 2.0)))
        for number, (_, rate) in enumerate(self._rates):
            point = self.pg.PlotDataItem(
                [limits.intensity], [rate], pen=None, symbol="os"[min(number, 1)], symbolSize=11,
                symbolBrush=brush(self.theme.series[number]), symbolPen=None,
            )  # fmt: skip
            self.item.addItem(point)
        self.caption.setText(self._sentence(limits))

    def _sentence(self, limits: Limits) -> str:
        roof = limits.roof_gflops or 0.0
        known = "" if limits.bandwidth_gbs else ", bandwidth not measured: the roof is the peak"
        rates = [
            f"{name} {rate:.1f} GFLOP/s, {100 * rate / roof:.0f} %" for name, rate in self._rates
        ]
        return f"roof {roof:.1f} GFLOP/s{known}; " + ("; ".join(rates) or "not measured yet")

    def table(self) -> Table:
        limits = self._limits
        at = limits.intensity if limits else None
        rows = [(name, at, rate) for name, rate in self._rates]
        roof = [("roof", at, limits.roof_gflops)] if limits else []
        return ("kernel", "FLOP/byte", "GFLOP/s"), [*rows, *roof]


def _faint(colour: str) -> QColor:
    made = QColor(colour)
    made.setAlphaF(0.18)
    return made
