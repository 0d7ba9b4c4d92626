"""Bytes of the arena that tensors need, step by step."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPointF

from nnjit_studio.analysis.profile.records import ModelProfile
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import ElidedLabel
from nnjit_studio.ui.widgets.plots.panel import PlotPanel, Table, pen, steps
from nnjit_studio.ui.widgets.theme import Theme

MIB = 2**20


class MemoryPlot(PlotPanel):
    """A staircase below the arena's size; a line above names the step under the pointer."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(
            "Memory timeline", "step", "live tensors", "MiB",
            "Press F6: what each step needs of the memory appears here.", theme,
        )  # fmt: skip
        self.plot.setAccessibleDescription("The sentence above has the peak and the arena's size.")
        self.profile: ModelProfile | None = None
        self.here = ElidedLabel()
        self.here.tip = "From the memory plan: a tensor lives from its first to its last step."
        self.bar.insertWidget(0, self.here, 1)
        self.item.setLimits(yMin=0, xMin=0)
        self.line = self.pg.PlotDataItem(skipFiniteCheck=True)
        self.line.setDownsampling(auto=True, method="peak")
        self.arena = self.pg.InfiniteLine(
            angle=0, label="arena", labelOpts={"position": 0.06, "anchors": [(0, 1), (0, 1)]}
        )
        self.item.addItem(self.arena)
        self.item.addItem(self.line)
        self.plot.scene().sigMouseMoved.connect(self._moved)
        self.set_theme(theme)

    def show_profile(self, profile: ModelProfile | None) -> None:
        self.profile = profile
        self.redraw()

    def redraw(self) -> None:
        memory = self.profile.memory if self.profile else None
        live = np.array(memory.live_bytes if memory else (), dtype=np.float64) / MIB
        self.show_empty(not len(live))
        self.arena.setVisible(bool(len(live)))
        x = np.arange(len(live) + 1, dtype=np.float64)
        self.line.setData(*(steps(x, np.append(live, live[-1])) if len(live) else ([], [])))
        self.here.setText("")
        if memory and len(live):
            arena = memory.forecast.arena_bytes / MIB
            self.arena.setValue(arena)
            self.frame(max(arena, float(live.max())))
            self.here.setText(self._words(int(live.argmax()), "Peak"))

    def _words(self, step: int, prefix: str) -> str:
        assert self.profile is not None
        live, named_steps = self.profile.memory.live_bytes, self.profile.steps
        # Views are steps of the plan without a row of their own.
        same = len(live) == len(named_steps)
        name = f"{named_steps[step].node}, {named_steps[step].op}" if same else "a step of the plan"
        return f"{prefix}: {text.nbytes(live[step])} live at step {step} ({name})"

    def _moved(self, place: QPointF) -> None:
        if self.profile is None or not self.item.sceneBoundingRect().contains(place):
            return
        step = int(self.item.getViewBox().mapSceneToView(place).x())
        if 0 <= step < len(self.profile.memory.live_bytes):
            self.here.setText(self._words(step, "Here"))

    def set_theme(self, theme: Theme) -> None:
        super().set_theme(theme)
        self.line.setPen(pen(theme.accent, 1.8))
        self.arena.setPen(pen(theme.muted, 1.2, (4, 4)))
        self.arena.label.setColor(theme.muted)

    def table(self) -> Table:
        live = self.profile.memory.live_bytes if self.profile else ()
        return ("step", "live_bytes"), list(enumerate(live))
