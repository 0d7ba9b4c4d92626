"""The line above the records: the way in which they are shown, and filters."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QLabel, QWidget

from nnjit_studio.database import Measurement
from nnjit_studio.ui.records.store import FACETS, Listing
from nnjit_studio.ui.widgets.panel import chooser, hbox, named

EVERY, BEST, COMPARE = "every record", "best by", "compare"
MODES = (
    (EVERY, ""),
    (BEST, "workload"),
    (BEST, "device"),
    (BEST, "browser"),
    (COMPARE, "device"),
    (COMPARE, "browser"),
)
COMBO_WIDTH = 150


class RecordFilters(QWidget):
    """Choosers of a mode, of two places to compare, and of one value for each facet."""

    changed = Signal()
    """Something else is to be shown."""

    def __init__(self) -> None:
        super().__init__()
        self.words: tuple[str, ...] = ()
        modes = (f"{kind} {by}{'s' * (kind == COMPARE)}".strip().capitalize() for kind, by in MODES)
        self.mode_chooser = chooser("Kernel database: how records are shown", items=modes)
        self.first = _combo("Kernel database: first to compare", "The first place")
        self.second = _combo("Kernel database: second to compare", "The second place")
        self.versus = QLabel("with")
        self.facets = {
            name: _combo(f"Kernel database: {name}", f"Only records of one {name}")
            for name in FACETS
        }
        self.deleted = named(
            QCheckBox("Deleted"),
            "Kernel database: deleted records",
            "Show deleted records instead: they are used for nothing and can be restored until "
            "`nnjit db vacuum` removes them",
        )
        hbox(
            self.mode_chooser, self.first, self.versus, self.second, *self.facets.values(),
            self.deleted, None, on=self, margins=(8, 0, 8, 4),
        )  # fmt: skip
        self.mode_chooser.currentIndexChanged.connect(self._mode_changed)
        for combo in self.facets.values():
            combo.hide()  # it has no choice before the records are read
        for combo in (self.first, self.second, *self.facets.values()):
            combo.currentIndexChanged.connect(self.changed)
        self.deleted.toggled.connect(self.changed)
        self._listing = Listing()
        self._follow_mode()

    @property
    def mode(self) -> tuple[str, str]:
        """One of :data:`MODES`."""
        return MODES[self.mode_chooser.currentIndex()]

    def search(self, text: str) -> None:
        """Keep records that have all these words."""
        self.words = tuple(text.lower().split())
        self.changed.emit()

    def offer(self, listing: Listing) -> None:
        """Let the choosers offer what there is; choices that still exist stay.

        A chooser without a choice is not seen.
        """
        self._listing = listing
        for name, combo in self.facets.items():
            _fill(combo, (f"{name.capitalize()}: any", *listing.values[name]))
            combo.setVisible(len(listing.values[name]) > 1 or combo.currentIndex() > 0)
        self._fill_places()

    def select(self, listing: Listing) -> list[Measurement]:
        """The records that are wanted, in the listing's order."""
        deleted, words = self.deleted.isChecked(), self.words
        rows = [
            row
            for row, text in zip(listing.rows, listing.texts, strict=True)
            if bool(row.deleted) is deleted and all(word in text for word in words)
        ]
        for name, combo in self.facets.items():
            if combo.currentIndex() > 0:
                wanted = combo.currentText()
                rows = [row for row in rows if getattr(row, name) == wanted]
        return rows

    def clear(self) -> None:
        """Keep records of any state, kind, target, device and browser."""
        for combo in self.facets.values():
            combo.setCurrentIndex(0)

    def _mode_changed(self) -> None:
        self._follow_mode()
        self._fill_places()
        self.changed.emit()

    def _follow_mode(self) -> None:
        for widget in (self.first, self.versus, self.second):
            widget.setVisible(self.mode[0] == COMPARE)

    def _fill_places(self) -> None:
        kind, by = self.mode
        if kind == COMPARE:
            values = self._listing.values[by] if self._listing.rows else ()
            _fill(self.first, values)
            _fill(self.second, values, other=1)


def _combo(name: str, tip: str) -> QComboBox:
    combo = chooser(name, tip)
    combo.setMaximumWidth(COMBO_WIDTH)
    combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
    return combo


def _fill(combo: QComboBox, values: Sequence[str], other: int = 0) -> None:
    if [combo.itemText(i) for i in range(combo.count())] == list(values):
        return
    chosen = combo.currentText()
    with QSignalBlocker(combo):
        combo.clear()
        combo.addItems(list(values))
        combo.setCurrentIndex(
            values.index(chosen) if chosen in values else min(other, len(values) - 1)
        )
