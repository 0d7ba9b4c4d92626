"""The text face and the code face that ship with the application."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from PySide6.QtGui import QFont, QFontDatabase

from nnjit_studio.ui.widgets.theme import PIXELS

FILES = (
    "inter_regular.otf", "inter_medium.otf", "inter_semibold.otf",
    "mono_regular.ttf", "mono_semibold.ttf",
)  # fmt: skip
TEXT_FACE, CODE_FACE = "Inter", "JetBrains Mono"


@cache
def _load() -> None:
    for name in FILES:
        held = (files("nnjit_studio.resources") / "fonts" / name).read_bytes()
        if QFontDatabase.addApplicationFontFromData(held) < 0:
            raise RuntimeError(f"Qt cannot read the font {name}, which ships with NNJIT Studio.")


def _font(face: str, pixels: int, weight: int) -> QFont:
    _load()
    font = QFont(face)
    font.setPixelSize(pixels)
    font.setWeight(QFont.Weight(weight))
    font.setFeature(QFont.Tag("tnum"), 1)
    return font


def text_font(size: str = "body", weight: int = 400) -> QFont:
    """The text face at a size of the tokens, digits of equal width."""
    return _font(TEXT_FACE, PIXELS[size], weight)


def code_font() -> QFont:
    """The code face, small."""
    return _font(CODE_FACE, PIXELS["small"], 400)
