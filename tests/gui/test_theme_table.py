"""The table of tokens, the faces and the icons that ship with the application."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gui_fakes import engine_label, finish
from gui_window import StudioWindow
from PySide6.QtCore import QSize
from PySide6.QtGui import QFont, QFontInfo
from PySide6.QtWidgets import QApplication, QLabel, QLineEdit, QSpinBox, QWidget

from nnjit_studio.ui.widgets.fonts import code_font, text_font
from nnjit_studio.ui.widgets.icons import icon, paths
from nnjit_studio.ui.widgets.panel import hbox, inset
from nnjit_studio.ui.widgets.style import style_sheet
from nnjit_studio.ui.widgets.theme import DARK, LIGHT, PIXELS

ROOT = Path(__file__).parents[2]
RESOURCES = ROOT / "resources"
THEMES = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])


def contrast(a, b):
    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(k * p for k, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@THEMES
def test_text_and_marks_are_told_from_every_ground(theme):
    t = theme
    inks = (t.text, t.muted, t.accent, t.good, t.warn, t.bad)
    pairs = [(ink, ground) for ink in inks for ground in (t.window, t.surface, t.raised, t.sunken)]
    pairs += [(t.text, t.accent_soft), (t.on_accent, t.accent), (t.text, t.linked)]
    pairs += [(t.good, t.good_soft), (t.bad, t.bad_soft), (t.warn, t.warn_soft)]
    pairs += [(c, t.surface) for c in (t.code_keyword, t.code_number, t.code_type, t.code_comment)]
    assert not [pair for pair in pairs if contrast(*pair) < 4.5]
    marks = (*t.series, t.edge, t.tuned, t.untuned, t.peer, t.linked_mark)
    assert not [mark for mark in marks if contrast(mark, t.surface) < 3]


def test_pages_take_every_colour_from_the_table():
    style = (RESOURCES / "sdk" / "style.css").read_text()
    table = (RESOURCES / "sdk" / "tokens.css").read_text()
    assert not re.findall(r"#[0-9a-f]{3,8}\b", style)
    used = set(re.findall(r"var\((--[a-z0-9-]+)\)", style))
    assert used and used <= set(re.findall(r"(--[a-z0-9-]+):", table))


def test_the_shipped_faces_are_in_use(qapp):
    for weight in (400, 500, 600):
        font = QFontInfo(text_font(weight=weight))
        assert (font.family(), font.weight()) == ("Inter", weight)
    assert QFontInfo(code_font()).family() == "JetBrains Mono"
    assert QFontInfo(text_font()).pixelSize() == PIXELS["body"] == 13
    assert "SIL OPEN FONT LICENSE" in (RESOURCES / "fonts" / "OFL.txt").read_text().upper()


def test_every_icon_draws_something_in_the_colour_of_the_text(qapp):
    for name in paths():
        image = icon(name).pixmap(QSize(16, 16)).toImage()
        assert any(image.pixelColor(x, y).alpha() for x in range(16) for y in range(16)), name


def first_ink(field):
    """Pixels from the left border to the first one of the text."""
    picture = field.grab().toImage()
    rows = range(picture.height() // 3, 2 * picture.height() // 3)
    ground = picture.pixelColor(picture.width() // 2, picture.height() // 2).lightness()
    return next(
        x for x in range(3, picture.width())
        if any(abs(picture.pixelColor(x, y).lightness() - ground) > 60 for y in rows)
    )  # fmt: skip


def test_numbers_keep_off_their_border_as_words_do(qtbot):
    line, field, window = QLineEdit("38"), inset(QSpinBox(value=38)), QWidget()
    hbox(line, field, on=window)
    window.setStyleSheet(style_sheet(LIGHT))
    qtbot.addWidget(window)
    for widget in (line, field):
        widget.setFixedWidth(90)
        widget.clearFocus()
    window.setFocus()
    window.show()
    assert abs(first_ink(field) - first_ink(line)) <= 3


def test_every_field_for_a_number_is_inset():
    bare = re.compile(r"(?<!inset\()\bQ(?:Double)?SpinBox\((?!QS)")
    found = [
        str(p)
        for p in (ROOT / "ui").rglob("*.py")
        if bare.search(re.sub(r"class .*", "", p.read_text()))
    ]
    assert not found


def test_the_first_window_of_a_session_has_the_face_too(qtbot, workbench, settings):
    """Its own widgets had the system's: the face came when the window was there already."""
    app = QApplication.instance()
    app.setFont(QFont("another face"))
    window = StudioWindow(workbench, engine_label, settings)
    qtbot.addWidget(window, before_close_func=lambda w: finish(qtbot, workbench, w))
    faces = {widget.font().family() for widget in window.findChildren(QLabel)}
    assert faces == {"Inter"}
