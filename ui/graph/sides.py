"""One or two drawings of the same graph: what is moved or selected in one is so in both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSplitter, QWidget

from nnjit_studio.ui.graph.boxes import Sheet
from nnjit_studio.ui.graph.view import GraphView
from nnjit_studio.ui.widgets.labels import ElidedLabel
from nnjit_studio.ui.widgets.panel import named, vbox
from nnjit_studio.ui.widgets.theme import Theme


class Sides(QSplitter):
    """``view`` alone, or with ``other`` to its left; each below a line that names its run."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(Qt.Orientation.Horizontal, childrenCollapsible=False)
        self.other, self.view = GraphView(theme), GraphView(theme)
        named(self.other, "Model graph of the compared run")
        self.captions = (ElidedLabel(), ElidedLabel())
        self._leading = False
        self._left = self._add(self.captions[0], self.other)
        self._add(self.captions[1], self.view)
        for leader, follower in ((self.view, self.other), (self.other, self.view)):
            leader.panned.connect(partial(self._follow, leader, follower))
            leader.moved.connect(partial(self._pick, leader, follower))
        self.split = False
        self._show_sides()

    def _add(self, caption: ElidedLabel, view: GraphView) -> QWidget:
        side = QWidget()
        caption.setContentsMargins(8, 2, 8, 2)
        vbox(caption, (view, 1), on=side)
        self.addWidget(side)
        return side

    @property
    def views(self) -> tuple[GraphView, ...]:
        return (self.other, self.view) if self.split else (self.view,)

    def set_split(self, split: bool) -> None:
        """Show two drawings, or one."""
        if split == self.split:
            return
        self.split = split
        self._show_sides()
        if split:
            self.setSizes([1000, 1000])
            self.other.addActions(self.view.actions())
            if self.view.canvas.sheet is not None:
                self._twin(self.view.canvas.sheet)

    def clear(self) -> None:
        """Nothing is drawn that could be selected."""
        for view in (self.other, self.view):
            view.boxes = {}
            view.pick(None)

    def show_sheet(self, sheet: Sheet) -> None:
        """Draw a graph on all sides; the views stay where they are."""
        self.view.show_sheet(sheet)
        if self.split:
            self._twin(sheet)

    def set_theme(self, theme: Theme) -> None:
        for view in (self.other, self.view):
            view.set_theme(theme)

    def _twin(self, sheet: Sheet) -> None:
        self.other.show_sheet(sheet.twin())
        self._follow(self.view, self.other)
        self._pick(self.view, self.other)

    def _show_sides(self) -> None:
        for widget in (self._left, *self.captions):
            widget.setVisible(self.split)

    @contextmanager
    def _lead(self) -> Iterator[None]:
        """Meanwhile the follower does not lead."""
        self._leading = True
        try:
            yield
        finally:
            self._leading = False

    def _follow(self, leader: GraphView, follower: GraphView) -> None:
        if self._leading or not self.split:
            return
        with self._lead():
            if follower.transform() != leader.transform():
                follower.setTransform(leader.transform())
            follower.centerOn(leader.mapToScene(leader.viewport().rect().center()))

    def _pick(self, leader: GraphView, follower: GraphView) -> None:
        if self._leading or not self.split:
            return
        box = leader.current_box
        with self._lead():
            follower.pick(follower.boxes.get(box.unit.key) if box else None, into_view=False)
