"""The device: three plots of its measurements, and the button that measures it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QProgressBar, QWidget

from nnjit_studio.device.measured import LATENCY, SPILL, MeasuredDevice, binary_size
from nnjit_studio.device.primitives import PRIMITIVES, preference
from nnjit_studio.doctor.device_report import bandwidth_text, caches_text, registers_text
from nnjit_studio.ui.state.jobs import Job
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.widgets.labels import ElidedLabel, quiet
from nnjit_studio.ui.widgets.panel import Panel, ground, named, push_button, scrolled, vbox
from nnjit_studio.ui.widgets.plots.panel import TICKS, Array, PlotPanel, Table, brush, pen
from nnjit_studio.ui.widgets.theme import Theme
from nnjit_studio.workbench.jobs import measure_device

START, STOP = "Measure this device", "Stop"
MEASURE = Job(
    "device",
    "Measuring the device",
    lambda bench, tell: bench.run(measure_device, tell),
    needs_model=False,
)
NOT_MEASURED = (
    "This device was not measured yet.\n\nRegisters and caches are as the system reports them, or "
    "assumed. Measuring takes some seconds, on an otherwise quiet machine."
)
BAR_HEIGHT = 0.62
WIDE = 1000
"""Pixels from which on facts and plots stand in one row; else in two, which scroll."""
LOWEST, BAR_PX, AROUND_BARS = 196, 15, 88
"""Pixels: height of the lowest plot, of a bar with its name, of what is around the bars."""
SIZE_PX = 58
"""Pixels of the size of a working set, with a gap."""


class DevicePlot(PlotPanel):
    """A plot of the measured device; empty until there is one."""

    def __init__(self, title: str, x: str, y: str, unit: str, theme: Theme) -> None:
        super().__init__(title, x, y, unit, "Not measured yet", theme)
        self.device: MeasuredDevice | None = None
        self.bar.insertWidget(0, QLabel(title))
        self.reset_button.hide()  # three plots side by side: Ctrl+R does it
        self.setMinimumSize(120, LOWEST)

    def show_device(self, device: MeasuredDevice | None) -> None:
        self.device = device
        self.redraw()

    def redraw(self) -> None:
        self.item.clear()
        self.show_empty(self.device is None)
        if self.device is not None:
            self.draw(self.device)

    def draw(self, device: MeasuredDevice) -> None:
        raise NotImplementedError

    def draw_curve(self, x: Array, best: Array, samples: Sequence[Sequence[float]]) -> None:
        """The undisturbed samples as a line, all others as faint dots."""
        every = [(place, value) for place, own in zip(x, samples, strict=True) for value in own]
        faint = QColor(self.theme.muted)
        faint.setAlpha(90)
        dots = np.array(every)
        self.item.plot(
            dots[:, 0], dots[:, 1], pen=None, symbol="o", symbolSize=3, symbolPen=None,
            symbolBrush=faint,
        )  # fmt: skip
        self.item.plot(
            x, best, pen=pen(self.theme.accent, 2.2), symbol="o", symbolSize=5, symbolPen=None,
            symbolBrush=brush(self.theme.accent),
        )  # fmt: skip

    def mark(self, place: float, text: str, height: float = 0.95) -> None:
        """A vertical line with its name, at ``height`` of the plot."""
        line = self.pg.InfiniteLine(
            place, 90, pen(self.theme.warn, 1.4, (4, 3)), label=text, labelOpts={"position": height}
        )
        line.label.setColor(self.theme.warn)
        self.item.addItem(line)


class SpillPlot(DevicePlot):
    """The rate by the number of accumulators: it falls where registers spill."""

    def __init__(self, theme: Theme) -> None:
        super().__init__("Vector registers", "accumulators", "speed", "GFLOP/s", theme)
        self.item.setLimits(yMin=0)

    def draw(self, device: MeasuredDevice) -> None:
        curve = device.curves[SPILL]
        best = np.array(curve.best())
        self.draw_curve(np.array(curve.x, float), best, curve.samples)
        if device.accumulators is not None:
            self.mark(device.accumulators + 0.5, f"spills above {device.accumulators}")
        self.frame(float(best.max()))

    def table(self) -> Table:
        return _samples(self.device, SPILL, ("accumulators", "GFLOP/s"))


class LatencyPlot(DevicePlot):
    """The latency by the size of the working set: its steps are caches."""

    def __init__(self, theme: Theme) -> None:
        super().__init__("Caches", "working set", "latency", "ns", theme)
        self.item.setLogMode(x=True, y=True)
        self.item.getAxis("left").setTicks(TICKS)

    def draw(self, device: MeasuredDevice) -> None:
        curve = device.curves[LATENCY]
        best = np.array(curve.best(least=True))
        self.draw_curve(np.array(curve.x, float), best, curve.samples)
        marks = (("L1", device.l1_bytes, 0.95), ("L2", device.l2_bytes, 0.06))
        for name, nbytes, height in marks:
            if nbytes:
                self.mark(math.log10(nbytes * 1.1), f"{name} {binary_size(nbytes)}", height)
        self._name_sizes()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._name_sizes()

    def _name_sizes(self) -> None:
        """As many sizes as have room side by side."""
        if self.device is None:
            return
        ticks = [size for size in self.device.curves[LATENCY].x if size & (size - 1) == 0]
        labels = [(math.log10(s), binary_size(s)) for s in ticks]
        step = math.ceil(SIZE_PX * len(labels) / max(SIZE_PX, self.plot.width() - SIZE_PX))
        self.item.getAxis("bottom").setTicks([labels[::step], [(at, "") for at, _ in labels]])

    def table(self) -> Table:
        return _samples(self.device, LATENCY, ("working set bytes", "ns"))


class EffectsPlot(DevicePlot):
    """A bar for each setting, from 1 to its speed relative to the setting in force."""

    def __init__(self, theme: Theme) -> None:
        super().__init__("Primitives", "speed-up", "", "", theme)
        self.item.getViewBox().invertY(True)

    def draw(self, device: MeasuredDevice) -> None:
        effects = [e for e in device.effects if not e.error]
        self.setMinimumHeight(max(LOWEST, AROUND_BARS + BAR_PX * len(effects)))
        if not effects:
            return
        places = np.arange(len(effects), dtype=float)
        speed = np.array([e.speedup for e in effects])
        tones = {"faster": self.theme.good, "slower": self.theme.bad, "even": self.theme.muted}
        brushes = [brush(tones[e.verdict]) for e in effects]
        self.item.addItem(
            self.pg.BarGraphItem(
                x0=np.minimum(speed, 1.0), width=np.abs(speed - 1.0), y=places, height=BAR_HEIGHT,
                brushes=brushes, pen=None,
            )
        )  # fmt: skip
        self.item.addItem(
            self.pg.ErrorBarItem(
                x=speed, y=places, left=speed - [e.low for e in effects],
                right=[e.high for e in effects] - speed, beam=BAR_HEIGHT / 2,
                pen=pen(self.theme.text, 1.2),
            )
        )  # fmt: skip
        self.item.addItem(self.pg.InfiniteLine(1.0, 90, pen(self.theme.muted, 1.0)))
        in_force = {p.name: p.settings[0] for p in PRIMITIVES}
        names = [f"{e.primitive} {in_force[e.primitive]} → {e.setting}" for e in effects]
        self.item.getAxis("left").setTicks([list(enumerate(names))])
        if not self._zoomed:
            self.item.setYRange(-0.6, len(effects) - 0.4, padding=0)
            self.item.setXRange(0, max(1.2, *(min(e.high, 2.5) for e in effects)), padding=0.02)

    def table(self) -> Table:
        header = ("primitive", "setting", "speed", "low", "high", "verdict", "error")
        effects = self.device.effects if self.device else ()
        return header, [
            (e.primitive, e.setting, e.speedup, e.low, e.high, e.verdict, e.error) for e in effects
        ]


class DevicePanel(Panel):
    """Facts with the button, and the plots: in one row, or in two of a narrow dock."""

    def __init__(self, session: StudioSession, theme: Theme) -> None:
        super().__init__()
        self._session = session
        self.facts = ground(QLabel(NOT_MEASURED, wordWrap=True))
        self.facts.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.facts.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.phase = quiet(ElidedLabel())
        self.progress = named(QProgressBar(textVisible=False), "Progress of the measurement")
        self.progress.setRange(0, 0)
        self.button = push_button(
            START, START, "Registers, caches, memory, primitives", act=self._clicked
        )
        self.plots: tuple[DevicePlot, ...] = (
            SpillPlot(theme), LatencyPlot(theme), EffectsPlot(theme),
        )  # fmt: skip
        left = QWidget()
        vbox(
            self.button, self.progress, self.phase, (scrolled(self.facts, "Device facts"), 1),
            on=left, margins=None, spacing=None,
        )  # fmt: skip
        self._parts: tuple[QWidget, ...] = (left, *self.plots)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(0)
        self._columns = 0
        self._place(len(self._parts))
        session.device_changed.connect(self.show_device)
        session.busy_changed.connect(self._follow)
        self._follow("")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place(len(self._parts) if event.size().width() >= WIDE else 2)

    def _place(self, columns: int) -> None:
        if columns == self._columns:
            return
        self._columns = columns
        for place, part in enumerate(self._parts):
            self._grid.addWidget(part, *divmod(place, columns))
        for column, stretch in enumerate((3, 3, 3, 4)):
            self._grid.setColumnStretch(column, stretch if column < columns else 0)

    def refresh(self, changes: frozenset[str]) -> None:
        if "phase" in changes and self._session.busy == "device":
            self.phase.setText(self._session.state.phase)

    def show_device(self, device: MeasuredDevice | None) -> None:
        self.facts.setText(NOT_MEASURED if device is None else facts_of(device))
        for plot in self.plots:
            plot.show_device(device)

    def set_theme(self, theme: Theme) -> None:
        for plot in self.plots:
            plot.set_theme(theme)

    def _clicked(self) -> None:
        if self._session.busy == "device":
            self._session.cancel()
        else:
            self._session.run(MEASURE)

    def _follow(self, job: str) -> None:
        measuring = job == "device"
        self.button.setText(STOP if measuring else START)
        self.button.setEnabled(measuring or not job)
        for widget in (self.progress, self.phase):
            widget.setVisible(measuring)


def facts_of(device: MeasuredDevice) -> str:
    """The results of the experiments, in sentences."""
    prefers = {p.name: preference(p, device.effects) for p in PRIMITIVES}
    settled = ", ".join(f"{name} {setting}" for name, setting in prefers.items() if setting)
    open_ = ", ".join(name for name, setting in prefers.items() if not setting)
    return "\n\n".join(
        (
            f"{device.cpu}, {device.cores} cores\n{device.target}, {device.tier}",
            f"Engine started with: {device.flags or 'no flags'}.",
            f"Registers: {registers_text(device)}.",
            f"Caches: {caches_text(device)}.",
            f"Memory: {bandwidth_text(device)}.",
            f"Prefers: {settled or 'nothing'}.\nNo preference: {open_ or 'none'}.",
            f"Measured {device.created[:16].replace('T', ' ')} UTC "
            f"in {sum(device.seconds.values()):.1f} s.",
        )
    )


def _samples(device: MeasuredDevice | None, curve: str, header: tuple[str, str]) -> Table:
    if device is None:
        return header, []
    found = device.curves[curve]
    pairs = zip(found.x, found.samples, strict=True)
    return header, [(x, value) for x, samples in pairs for value in samples]
