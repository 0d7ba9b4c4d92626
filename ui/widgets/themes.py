"""The theme in force, as Qt's palette and style sheet."""

from __future__ import annotations

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QApplication

from nnjit_studio.ui.widgets.style import style_sheet
from nnjit_studio.ui.widgets.theme import DARK, LIGHT, Theme


class Themes(QObject):
    """The theme in force: the system's, unless the user chose one."""

    changed = Signal(object)

    def __init__(self, app: QApplication, parent: QObject, choice: str) -> None:
        super().__init__(parent)
        self._app = app
        app.setStyleSheet("")  # of another window
        self.choice = choice
        self._take()
        app.styleHints().colorSchemeChanged.connect(self._system_changed)

    def choose(self, name: str) -> None:
        """``system``, ``light`` or ``dark``."""
        self.choice = name
        self.apply()

    def apply(self) -> None:
        self._take()
        self.style()
        self.changed.emit(self.current)

    def style(self) -> None:
        """Set the style sheet; the palette is set from the start."""
        self._app.setStyleSheet(style_sheet(self.current))

    def _take(self) -> None:
        self.current = self._resolve()
        self._app.setPalette(_palette(self.current))

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
        role.HighlightedText: t.on_accent,
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
