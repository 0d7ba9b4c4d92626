"""Icons in the colour of the theme's text, drawn when they are painted."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from PySide6.QtCore import QByteArray, QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QIcon, QIconEngine, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication

_PATH = re.compile(r'<path id="([a-z]+)" d="([^"]+)"/>')
_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="{path}" fill="none" '
    'stroke="{colour}" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"/></svg>'
)


@cache
def paths() -> dict[str, str]:
    """Path data of every icon, by name."""
    table = files("nnjit_studio.resources") / "icons" / "icons.svg"
    return dict(_PATH.findall(table.read_text("utf-8")))


def icon(name: str) -> QIcon:
    """An icon of ``resources/icons``; KeyError where there is none of this name."""
    return QIcon(_Engine(paths()[name]))


class _Engine(QIconEngine):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def paint(self, painter: QPainter, rect: QRect, mode: QIcon.Mode, state: QIcon.State) -> None:
        group = QPalette.ColorGroup
        which = group.Disabled if mode == QIcon.Mode.Disabled else group.Active
        colour = QApplication.palette().color(which, QPalette.ColorRole.ButtonText)
        if mode == QIcon.Mode.Selected:
            colour = QApplication.palette().color(QPalette.ColorRole.HighlightedText)
        svg = _SVG.format(path=self._path, colour=colour.name())
        painter.setOpacity(colour.alphaF())
        QSvgRenderer(QByteArray(svg.encode())).render(painter, QRectF(rect))

    def pixmap(self, size: QSize, mode: QIcon.Mode, state: QIcon.State) -> QPixmap:
        made = QPixmap(size)
        made.fill(Qt.GlobalColor.transparent)
        painter = QPainter(made)
        self.paint(painter, QRect(QPoint(), size), mode, state)
        painter.end()
        return made

    def clone(self) -> QIconEngine:
        return _Engine(self._path)
