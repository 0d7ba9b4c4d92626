"""Tokens of colour, type and space, read from the table that pages use, and colours by number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from importlib.resources import files

from PySide6.QtGui import QColor

_TABLE = (files("nnjit_studio.resources") / "sdk" / "tokens.css").read_text("utf-8")
_COLOUR = re.compile(r"--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")
_PIXELS = re.compile(r"--([a-z0-9-]+): (\d+)px;")


@dataclass(frozen=True)
class Theme:
    """Colours as ``#rrggbb``, named as in ``resources/sdk/tokens.css``."""

    name: str
    window: str
    surface: str
    raised: str
    sunken: str
    line: str
    grid: str
    edge: str
    text: str
    muted: str
    accent: str
    accent_soft: str
    on_accent: str
    tuned: str
    untuned: str
    kernels: str
    peer: str
    good: str
    good_soft: str
    bad: str
    bad_soft: str
    warn: str
    warn_soft: str
    grey: str
    grey_soft: str
    heat_0: str
    heat_1: str
    heat_2: str
    heat_3: str
    series_0: str
    series_1: str
    series_2: str
    series_3: str
    series_4: str
    series_5: str
    series_6: str
    series_7: str
    code_keyword: str
    code_number: str
    code_type: str
    code_comment: str
    linked: str
    linked_mark: str

    @cached_property
    def heat(self) -> tuple[str, ...]:
        """Stops of the scale of time, from nothing to most."""
        return tuple(self._ranked("heat"))

    @cached_property
    def series(self) -> tuple[str, ...]:
        """Colours of curves, in the order in which they are given out."""
        return tuple(self._ranked("series"))

    def _ranked(self, name: str) -> list[str]:
        return [getattr(self, f.name) for f in fields(self) if f.name.startswith(f"{name}_")]


def _theme(name: str, place: int) -> Theme:
    found = {row[0].replace("-", "_"): row[place] for row in _COLOUR.findall(_TABLE)}
    return Theme(name, **found)


LIGHT, DARK = _theme("light", 1), _theme("dark", 2)
PIXELS = {name: int(size) for name, size in _PIXELS.findall(_TABLE)}
"""Sizes of type and spaces, in device-independent pixels."""

DASHES: tuple[tuple[float, ...], ...] = ((), (6, 3), (2, 2), (8, 3, 2, 3))
"""Pen patterns, in pen widths: they tell apart series of equal colour."""


def series_style(theme: Theme, rank: int) -> tuple[str, tuple[float, ...]]:
    """Colour and dash pattern of the series with this rank: 8 colours, then dashes."""
    n = len(theme.series)
    return theme.series[rank % n], DASHES[rank // n % len(DASHES)]


def ramp(stops: Sequence[str], fraction: float) -> QColor:
    """Colour for 0..1, linear between stops at equal distances."""
    place = min(max(fraction, 0.0), 1.0) * (len(stops) - 1)
    low = min(int(place), len(stops) - 2)
    return mixed(QColor(stops[low + 1]), QColor(stops[low]), place - low)


def mixed(colour: QColor, ground: QColor, share: float) -> QColor:
    """A colour with so much of itself on a ground, 0..1."""
    pairs = (
        (colour.redF(), ground.redF()),
        (colour.greenF(), ground.greenF()),
        (colour.blueF(), ground.blueF()),
    )
    return QColor.fromRgbF(*(share * a + (1 - share) * b for a, b in pairs))


def ink_on(colour: QColor) -> QColor:
    """Black or white, whichever has more contrast (WCAG relative luminance, linearised by 2.2)."""
    luminance = sum(
        k * part**2.2
        for k, part in zip(
            (0.2126, 0.7152, 0.0722), (colour.redF(), colour.greenF(), colour.blueF()), strict=True
        )
    )
    return QColor("#000000") if luminance > 0.179 else QColor("#ffffff")
