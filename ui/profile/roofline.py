"""Every step below the machine's roof (Williams, Waterman and Patterson, "Roofline", 2009)."""

from __future__ import annotations

import numpy as np
from PySide6.QtGui import QResizeEvent

from nnjit_studio.analysis.profile.records import ModelProfile, StepProfile
from nnjit_studio.ui.widgets.plots.panel import Array, PlotPanel, Table, brush, pen, use_log_axes
from nnjit_studio.ui.widgets.theme import Theme

SMALLEST, LARGEST = 5.0, 26.0
"""Diameters of points, by the root of their share of the time."""
WORDS_PX, AXIS_PX = 26, 40
"""Of the roof's name above it, however low the plot; of the axis below."""


class StepRoofline(PlotPanel):
    """Rate over intensity, both in powers of ten; a point's area is its share of the time."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(
            "Roofline", "FLOPs per byte", "rate", "GFLOP/s",
            "Press F6: steps that compute appear here, below the roof.", theme,
        )  # fmt: skip
        self.plot.setAccessibleDescription("The table of steps shows the same figures.")
        self.profile: ModelProfile | None = None
        use_log_axes(self.item)
        self.points = self.pg.PlotDataItem(pen=None, symbol="o", symbolPen=None)
        self.roof = self.pg.PlotDataItem(skipFiniteCheck=True)
        self.item.addItem(self.roof)
        self.item.addItem(self.points)
        self.limits = [self.pg.TextItem(anchor=anchor) for anchor in ((1, 1), (0, 0))]
        for label in self.limits:
            self.item.addItem(label, ignoreBounds=True)
        self.set_theme(theme)

    def show_profile(self, profile: ModelProfile | None) -> None:
        self.profile = profile
        self.redraw()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        height = self.plot.height() - AXIS_PX
        share = WORDS_PX / max(2 * WORDS_PX, height - 2 * WORDS_PX)  # of the range, on both sides
        self.item.getViewBox().setDefaultPadding(max(0.04, share))
        if not self._zoomed:
            self.item.enableAutoRange()

    def redraw(self) -> None:
        found, profile = self._steps(), self.profile
        self.show_empty(not found)
        if profile is None or not found:
            for line in (self.points, self.roof):
                line.setData([], [])
            for label in self.limits:
                label.hide()
            return
        x = np.array([s.intensity for s in found])
        share = np.array([s.share for s in found])
        sizes = SMALLEST + (LARGEST - SMALLEST) * np.sqrt(share / share.max())
        self.points.setData(x, np.array([s.gflops for s in found]), symbolSize=sizes)
        ends = np.geomspace(x.min() / 2, x.max() * 2, 200)
        peak = np.full_like(ends, profile.peak_gflops * profile.threads)
        if profile.bandwidth_gbs:
            peak = np.minimum(peak, ends * profile.bandwidth_gbs)
        shown = (ends, peak) if profile.peak_gflops else ([], [])
        self.roof.setData(*shown)
        self._name_limits(ends, peak, profile)

    def _name_limits(self, ends: Array, roof: Array, profile: ModelProfile) -> None:
        """The peak at the right end of the roof, the bandwidth at its left one."""
        threads = "one thread" if profile.threads == 1 else f"{profile.threads} threads"
        words = (
            f"multiply-add peak {profile.peak_gflops * profile.threads:.0f} GFLOP/s, {threads}",
            f"memory {profile.bandwidth_gbs:.0f} GB/s" if profile.bandwidth_gbs else "",
        )
        for label, text, place in zip(self.limits, words, (-1, 0), strict=True):
            label.setText(text if profile.peak_gflops else "", self.theme.muted)
            label.setPos(np.log10(ends[place]), np.log10(roof[place]))
            label.show()

    def _steps(self) -> list[StepProfile]:
        steps = self.profile.steps if self.profile else ()
        return [s for s in steps if s.flops and s.intensity > 0 and s.gflops > 0]

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        for label in self.limits:
            label.setColor(theme.muted)
        self.roof.setPen(pen(theme.muted, 1.6))
        self.points.setSymbolBrush(brush(theme.accent))

    def table(self) -> Table:
        header = ("step", "flops_per_byte", "gflops", "share")
        return header, [(s.node, s.intensity, s.gflops, s.share) for s in self._steps()]
