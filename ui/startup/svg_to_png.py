"""An SVG as a PNG file, drawn by Qt."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QByteArray
from PySide6.QtGui import QGuiApplication, QImage, QImageWriter, QPainter
from PySide6.QtSvg import QSvgRenderer

from nnjit_studio.errors import UserError
from nnjit_studio.ui.page.process import choose_platform

SCALE = 2
"""Pixels a unit: sharp on a dense screen and in print."""


def write_png(svg: str, out: Path) -> None:
    """Draw ``svg`` to ``out``.

    Raises
    ------
    UserError
        When the file cannot be written.
    """
    if QGuiApplication.instance() is None:
        choose_platform()
        _keep.append(QGuiApplication(["nnjit"]))  # fonts need one
    renderer = QSvgRenderer(QByteArray(svg.encode()))
    image = QImage(renderer.defaultSize() * SCALE, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    renderer.render(painter)
    painter.end()
    if not QImageWriter(str(out), QByteArray(b"PNG")).write(image):
        raise UserError(f"The picture {out} cannot be written.", "Choose a folder you may write.")


_keep: list[QGuiApplication] = []
