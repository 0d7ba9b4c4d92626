"""Choosers of the run that a graph shows, and of the one that it is compared with."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QWidget

from nnjit_studio.ui.graph.facts import BEFORE, Run
from nnjit_studio.ui.widgets.panel import chooser, hbox

NOW, NO_COMPARISON = "Show: now", "Compare: nothing"
SAVED = "Saved profile…"

GetRun = Callable[[], "Run | None"]


class RunChoice(QWidget):
    """Two choosers over the runs that are known."""

    changed = Signal()
    """Another run is to be shown or compared."""
    wants_file = Signal()
    """A saved profile is to be chosen, for :meth:`add`."""

    def __init__(self, before_tuning: GetRun) -> None:
        super().__init__()
        self._before_tuning = before_tuning
        self._runs: list[Run] = []
        self.show_run = chooser("Show run", "The run of this model that the boxes show")
        self.compare = chooser("Compare with", "Another run of this model to compare with")
        hbox((self.compare, 1), (self.show_run, 1), on=self)  # as the two graphs stand
        for combo in (self.compare, self.show_run):
            combo.setSizeAdjustPolicy(
                QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
            )
            combo.setMinimumContentsLength(10)
        self.show_run.activated.connect(lambda _: self.changed.emit())
        self.compare.activated.connect(self._choose)
        self._fill()

    @property
    def shown(self) -> Run | None:
        """None for the present run, as it goes on."""
        return _run(self.show_run)

    @property
    def compared(self) -> Run | None:
        """None also while there is no such run yet."""
        return _run(self.compare)

    def clear(self) -> None:
        """Forget the runs of another model."""
        self._runs = []
        self.compare.setToolTip("")
        for combo in (self.show_run, self.compare):
            combo.setCurrentIndex(0)
        self._fill()

    def add(self, *runs: Run) -> None:
        """Offer runs, in place of those of the same label; what is chosen stays."""
        labels = {run.label for run in runs}
        self._runs = [run for run in self._runs if run.label not in labels] + list(runs)
        self._fill()

    def compare_with(self, label: str) -> None:
        """Choose what the run that is shown is compared with."""
        self.compare.setCurrentIndex(max(0, self.compare.findText(label)))
        self.changed.emit()

    def _fill(self) -> None:
        for combo, first in ((self.show_run, NOW), (self.compare, NO_COMPARISON)):
            chosen = combo.currentText()
            combo.clear()
            combo.addItem(first, None)
            combo.addItem(BEFORE, self._before_tuning)
            for run in self._runs:
                combo.addItem(run.label, lambda run=run: run)
            if combo is self.compare:
                combo.addItem(SAVED, SAVED)
            combo.setCurrentIndex(max(0, combo.findText(chosen)))
        self._chosen = self.compare.currentIndex()

    def _choose(self, place: int) -> None:
        if self.compare.itemData(place) == SAVED:
            self.compare.setCurrentIndex(self._chosen)
            self.wants_file.emit()
            return
        self._chosen = place
        self.changed.emit()


def _run(combo: QComboBox) -> Run | None:
    get = combo.currentData()
    return get() if callable(get) else None
