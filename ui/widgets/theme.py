"""Colours of the window, light and dark, and how Qt gets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication


@dataclass(frozen=True)
class Theme:
    """Colour tokens as ``#rrggbb``; text on any surface keeps a contrast of 4.5 : 1."""

    name: str
    window: str
    surface: str
    raised: str
    line: str
    text: str
    muted: str
    accent: str
    good: str
    warn: str
    bad: str
    heat: tuple[str, ...]
    series: tuple[str, ...]


# Series after Okabe and Ito's colour-blind-safe set, shifted for contrast on each ground.
LIGHT = Theme(
    "light", window="#eef0f3", surface="#ffffff", raised="#f6f7f9", line="#d3d8df",
    text="#1a1e26", muted="#59616f", accent="#0b5cb8", good="#0b7247", warn="#8a5200",
    bad="#b3261e", heat=("#f3f5f8", "#fbd9a5", "#f0933f", "#b93d16"),
    series=(
        "#0072b2", "#c43d00", "#00805c", "#b4508a", "#3d9fd6", "#a38600", "#6a4ca3", "#444a54",
    ),
)  # fmt: skip
DARK = Theme(
    "dark", window="#14171c", surface="#1a1e24", raised="#22272f", line="#343b46",
    text="#e6e9ee", muted="#9aa4b2", accent="#6db1ff", good="#53c68e", warn="#e6b450",
    bad="#ff8f86", heat=("#262c35", "#5b3a1c", "#b8591b", "#ffab52"),
    series=(
        "#56b4e9", "#e69f00", "#2fc79a", "#e58fc0", "#f0e442", "#ff8a50", "#a98ff0", "#d0d4da",
    ),
)  # fmt: skip

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
    """Black or white, whichever reads better (WCAG relative luminance, linearised by 2.2)."""
    luminance = sum(
        k * part**2.2
        for k, part in zip(
            (0.2126, 0.7152, 0.0722), (colour.redF(), colour.greenF(), colour.blueF()), strict=True
        )
    )
    return QColor("#14171c") if luminance > 0.18 else QColor("#ffffff")


class Themes(QObject):
    """The theme in force: the system's, unless the user chose one."""

    changed = Signal(object)

    def __init__(self, app: QApplication, parent: QObject) -> None:
        super().__init__(parent)
        self._app = app
        self.choice = "system"
        self.current = self._resolve()
        app.styleHints().colorSchemeChanged.connect(self._system_changed)

    def choose(self, name: str) -> None:
        """``system``, ``light`` or ``dark``."""
        self.choice = name
        self.apply()

    def apply(self) -> None:
        self.current = self._resolve()
        self._app.setPalette(_palette(self.current))
        self._app.setStyleSheet(_style_sheet(self.current))
        self.changed.emit(self.current)

    def _system_changed(self) -> None:
        if self.choice == "system":
            self.apply()

    def _resolve(self) -> Theme:
        if self.choice != "system":
            return DARK if self.choice == "dark" else LIGHT
        return DARK if self._app.styleHints().colorScheme() == Qt.ColorScheme.Dark else LIGHT


def _palette(t: Theme) -> QPalette:
    role = QPalette.ColorRole
    palette = QPalette()
    for which, colour in {
        role.Window: t.window,
        role.WindowText: t.text,
        role.Base: t.surface,
        role.AlternateBase: t.raised,
        role.Text: t.text,
        role.PlaceholderText: t.muted,
        role.Button: t.raised,
        role.ButtonText: t.text,
        role.ToolTipBase: t.raised,
        role.ToolTipText: t.text,
        role.Highlight: t.accent,
        role.HighlightedText: "#ffffff" if t.name == "light" else "#0d1116",
        role.Link: t.accent,
        role.BrightText: t.bad,
        role.Mid: t.line,
        role.Dark: t.line,
        role.Light: t.surface,
        role.Midlight: t.raised,
        role.Accent: t.accent,
    }.items():
        palette.setColor(which, QColor(colour))
    for which in (role.WindowText, role.Text, role.ButtonText):
        disabled = QColor(t.muted)
        disabled.setAlpha(150)
        palette.setColor(QPalette.ColorGroup.Disabled, which, disabled)
    return palette


def _style_sheet(t: Theme) -> str:
    return f"""
    QMainWindow::separator {{ background: {t.window}; width: 5px; height: 5px; }}
    QDockWidget {{ font-weight: 600; }}
    QDockWidget::title {{ background: {t.window}; padding: 5px 8px; }}
    QToolTip {{ background: {t.raised}; color: {t.text};
        border: 1px solid {t.line}; padding: 4px; }}
    QTableView {{ border: none; gridline-color: {t.line}; }}
    QTableView::item {{ padding: 0 6px; }}
    QHeaderView::section {{ background: {t.raised}; color: {t.muted}; border: none;
        border-bottom: 1px solid {t.line}; padding: 4px 6px; }}
    QHeaderView::up-arrow, QHeaderView::down-arrow {{ subcontrol-position: center left;
        width: 11px; height: 11px; }}
    QLineEdit {{ background: {t.surface}; border: 1px solid {t.line}; border-radius: 3px;
        padding: 3px 5px; }}
    QLineEdit:focus {{ border-color: {t.accent}; }}
    QCheckBox::indicator {{ width: 11px; height: 11px; border: 1px solid {t.muted};
        border-radius: 2px; background: {t.surface}; }}
    QCheckBox::indicator:checked {{ background: {t.accent}; border-color: {t.accent}; }}
    QCheckBox::indicator:focus {{ border: 2px solid {t.accent}; }}
    QGraphicsView, QPlainTextEdit {{ border: none; background: {t.surface}; }}
    QToolButton[popupMode="2"] {{ padding-right: 14px; }}
    #panel {{ background: {t.surface}; }}
    #header {{ background: {t.surface}; border-bottom: 1px solid {t.line}; }}
    #muted {{ color: {t.muted}; }}
    #empty {{ color: {t.muted}; }}
    #good {{ color: {t.good}; }}
    #badge {{ color: {t.warn}; border: 1px solid {t.warn}; border-radius: 8px; padding: 1px 7px; }}
    #message {{ background: {t.raised}; border-bottom: 1px solid {t.line}; }}
    #message[tone="bad"] {{ border-left: 4px solid {t.bad}; }}
    #message[tone="good"] {{ border-left: 4px solid {t.good}; }}
    #message[tone="plain"] {{ border-left: 4px solid {t.accent}; }}
    QProgressBar {{ background: {t.raised}; border: 1px solid {t.line}; border-radius: 3px;
        max-height: 6px; }}
    QProgressBar::chunk {{ background: {t.accent}; border-radius: 2px; }}
    """
