"""A table whose rows are set anew keeps what is selected, current and in sight."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any

from PySide6.QtCore import QItemSelection, QItemSelectionModel, QSignalBlocker
from PySide6.QtWidgets import QAbstractItemView

from nnjit_studio.ui.widgets.tables import TablePanel


@contextmanager
def same_place(panel: TablePanel, key: Callable[[Any], Hashable]) -> Iterator[None]:
    """Whatever rows are set meanwhile, those with equal keys count as the same row.

    Nobody is told that something was picked, for nobody did. A table that was scrolled to its
    first row, and in which nothing is selected, stays there, so that new rows are seen.
    """
    view, chosen = panel.view, panel.view.selectionModel()
    selected = {key(panel.row_at(index)) for index in chosen.selectedRows()}
    current, column = chosen.currentIndex(), chosen.currentIndex().column()
    now = key(panel.row_at(current)) if current.isValid() else None
    top, across = view.rowAt(0), view.horizontalScrollBar().value()
    scrolled = top > 0 or (top == 0 and selected)
    seen = key(panel.model.shown[top]) if scrolled else None
    yield
    if not selected and now is None and seen is None:
        return
    places = {key(row): place for place, row in enumerate(panel.model.shown)}
    with QSignalBlocker(chosen):
        if now in places:
            index = panel.model.index(places[now], column)
            chosen.setCurrentIndex(index, QItemSelectionModel.SelectionFlag.NoUpdate)
        flags = QItemSelectionModel.SelectionFlag
        rows = _rows(panel, sorted(places[one] for one in selected if one in places))
        chosen.select(rows, flags.ClearAndSelect | flags.Rows)
    if seen in places:
        view.doItemsLayout()  # before that it scrolls no further than the old rows went
        at_top = QAbstractItemView.ScrollHint.PositionAtTop
        view.scrollTo(panel.model.index(places[seen], 0), at_top)
        view.horizontalScrollBar().setValue(across)


def _rows(panel: TablePanel, places: list[int]) -> QItemSelection:
    """Rows as few ranges: Qt takes a second for a thousand single ones."""
    made = QItemSelection()
    for _, run in groupby(enumerate(places), lambda one: one[1] - one[0]):
        run_places = [place for _, place in run]
        first, last = run_places[0], run_places[-1]
        made.select(panel.model.index(first, 0), panel.model.index(last, 0))
    return made
