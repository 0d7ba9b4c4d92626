"""One or two drawings of the same graph: what is moved or selected in one is so in both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from nnjit_studio.ui.graph.scene import GraphView, Sheet
from nnjit_studio.ui.widgets.theme import ElidedLabel, Theme, named


class Sides(QSplitter):
    """``view`` alone, or with ``other`` to its left; each below a line that names its run."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(Qt.Orientation.Horizontal, childrenCollapsible=False)
        self.other, self.view = GraphView(theme), GraphView(theme)
        named(self.other, "Model graph of the compared run")
        self.captions = (ElidedLabel(), ElidedLabel())
        self._leading = False
        for caption, view in zip(self.captions, (self.other, self.view), strict=True):
            side = QWidget()
            column = QVBoxLayout(side)
            column.setContentsMargins(0, 0, 0, 0)
            column.setSpacing(0)
            caption.setContentsMargins(8, 2, 8, 2)
            column.addWidget(caption)
            column.addWidget(view, 1)
            self.addWidget(side)
        for leader, follower in ((self.view, self.other), (self.other, self.view)):
            leader.panned.connect(partial(self._follow, leader, follower))
            leader.moved.connect(partial(self._pick, leader, follower))
        self._show_sides(False)

    @property
    def split(self) -> bool:
        return not self.widget(0).isHidden()

    @property
    def views(self) -> tuple[GraphView, ...]:
        return (self.other, self.view) if self.split else (self.view,)

    def set_split(self, split: bool) -> None:
        """Show two drawings, or one."""
        if split == self.split:
            return
        self._show_sides(split)
        if split:
            self.setSizes([1000, 1000])
            self.other.insertActions(None, self.view.actions())
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

    def _show_sides(self, split: bool) -> None:
        self.widget(0).setVisible(split)
        for caption in self.captions:
            caption.setVisible(split)

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
