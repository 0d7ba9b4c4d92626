"""Text of a kernel: read only, lines marked, one key to copy it all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QColor, QGuiApplication, QResizeEvent, QTextCursor, QTextFormat
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QTextEdit

from nnjit_studio.ui.widgets.fonts import code_font
from nnjit_studio.ui.widgets.highlighter import Highlighter
from nnjit_studio.ui.widgets.labels import ElidedLabel, quiet
from nnjit_studio.ui.widgets.line_numbers import LineNumbers
from nnjit_studio.ui.widgets.panel import Panel, hbox, named, push_button, vbox
from nnjit_studio.ui.widgets.theme import Theme, mixed

MOST_MARKS = 2000
"""Lines that are coloured at most; Qt lays out each one again."""


class CodeLines(QPlainTextEdit):
    """Lines of one text; the cursor says which one is meant."""

    line_chosen = Signal(int)
    """The user moved the cursor to this line, counted from 0."""

    def __init__(self, title: str, theme: Theme, numbered: bool = False) -> None:
        super().__init__()
        named(self, title)
        self.theme = theme
        self.marks: dict[int, str] = {}
        self.setReadOnly(True)
        # Read only would take the keyboard's cursor away.
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByKeyboard
            | Qt.TextInteractionFlag.TextSelectableByMouse
        )
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setTabChangesFocus(True)
        self.setFont(code_font())
        self._highlighter = Highlighter(self.document(), theme)
        self._line = -1
        self._quiet = False
        self.cursorPositionChanged.connect(self._moved)
        self.numbers = LineNumbers(self, theme) if numbered else None
        if numbered:
            self.blockCountChanged.connect(lambda _: self._leave_room())
            self._leave_room()

    def minimumSizeHint(self) -> QSize:
        return QSize(120, 60)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._leave_room()

    def _leave_room(self) -> None:
        """Of the numbers, where there are any."""
        if self.numbers is not None:
            self.setViewportMargins(self.numbers.room, 0, 0, 0)
            self.numbers.place()

    @property
    def line(self) -> int:
        """Where the cursor is, counted from 0."""
        return self.textCursor().blockNumber()

    def show_text(self, text: str, keep_place: bool = True) -> None:
        """Show a text; with ``keep_place`` scrolled and with the cursor where it was."""
        if text == self.toPlainText():
            return
        scrolled, line = self.verticalScrollBar().value(), self.line
        self._quiet = True
        self.setPlainText(text)
        self.marks = {}
        self._paint()
        if keep_place:
            self._put_cursor(line)
            self.verticalScrollBar().setValue(scrolled)
        self._quiet = False
        self._line = self.line

    def go_to(self, line: int) -> None:
        """Put the cursor there, as if the user had."""
        self._put_cursor(line)
        self.centerCursor()

    def _put_cursor(self, line: int) -> None:
        block = self.document().findBlockByNumber(min(line, self.blockCount() - 1))
        self.setTextCursor(QTextCursor(block))

    def mark(self, lines: Mapping[int, str]) -> None:
        """Colour lines by a token of the theme, or a colour."""
        self.marks = dict(lines)
        self._paint()

    def reveal(self, lines: Iterable[int]) -> None:
        """Scroll so that the first of the lines is seen, unless one of them is."""
        wanted = sorted(lines)
        top = self.verticalScrollBar().value()
        page = self.verticalScrollBar().pageStep()
        if wanted and not any(top <= line < top + page for line in wanted):
            self.verticalScrollBar().setValue(max(0, wanted[0] - page // 3))

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self._highlighter.set_theme(theme)
        if self.numbers is not None:
            self.numbers.theme = theme
            self.numbers.update()
        self._paint()

    def _moved(self) -> None:
        if not self._quiet and self.line != self._line:
            self._line = self.line
            self.line_chosen.emit(self._line)

    def _paint(self) -> None:
        made = []
        for line in sorted(self.marks)[:MOST_MARKS]:
            one = QTextEdit.ExtraSelection()
            one.format.setBackground(_ground(self.theme, self.marks[line]))
            one.format.setProperty(QTextFormat.Property.FullWidthSelection, True)
            one.cursor = QTextCursor(self.document().findBlockByNumber(line))
            made.append(one)
        self.setExtraSelections(made)


def _ground(theme: Theme, token: str) -> QColor:
    """The colour of a token, mixed into the ground so that text on it stays readable."""
    if token == "partner":
        return QColor(theme.linked)
    return mixed(QColor(getattr(theme, token)), QColor(theme.surface), 0.22)


class CodeView(Panel):
    """A text under its title, with a button that copies it."""

    def __init__(self, title: str, theme: Theme, tip: str = "", numbered: bool = False) -> None:
        super().__init__()
        self.title = QLabel(title)
        self.note = quiet(ElidedLabel())
        self.note.tip = tip
        self.lines = CodeLines(title, theme, numbered)
        self.copy_button = push_button("Copy", f"{title}: copy", "Copy the whole text", self.copy)
        self.bar = hbox(
            self.title, (self.note, 1), self.copy_button, margins=(8, 3, 6, 3), spacing=8
        )
        vbox(self.bar, (self.lines, 1), on=self)

    def copy(self) -> None:
        QGuiApplication.clipboard().setText(self.lines.toPlainText())
