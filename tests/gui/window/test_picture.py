"""An SVG as a PNG."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QColor, QImage
from pytestqt.qtbot import QtBot

from nnjit_studio.errors import UserError
from nnjit_studio.ui.startup.svg_to_png import SCALE, write_png

SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20">'
    '<rect width="40" height="20" fill="#0072b2"/></svg>'
)


def test_the_png_shows_the_svg(qtbot: QtBot, tmp_path: Path) -> None:
    write_png(SVG, tmp_path / "a.png")
    image = QImage(str(tmp_path / "a.png"))
    assert (image.width(), image.height()) == (40 * SCALE, 20 * SCALE)
    assert image.pixelColor(40, 20) == QColor("#0072b2")


def test_a_place_that_cannot_be_written(qtbot: QtBot, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        write_png(SVG, tmp_path / "missing" / "a.png")
