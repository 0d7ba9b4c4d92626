"""The program's log, fed by any thread."""

from __future__ import annotations

import collections
import logging
from html import escape

from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QCheckBox, QLineEdit, QPlainTextEdit

from nnjit_studio.ui.state.log_lines import LIMIT, Line, LineHandler
from nnjit_studio.ui.widgets.panel import Panel, chooser, hbox, named, push_button, vbox
from nnjit_studio.ui.widgets.theme import Theme
from nnjit_studio.ui.widgets.worker import REFRESH_MS

LEVELS = ("debug", "info", "warning", "error")


class LogPanel(Panel):
    """Shows new lines about 15 times a second, the newest at the bottom."""

    def __init__(self, handler: LineHandler, theme: Theme) -> None:
        super().__init__()
        self.handler = handler
        self.theme = theme
        self.lines: collections.deque[Line] = collections.deque(maxlen=LIMIT)
        self.level = chooser("Lowest level", "Hide lines below this level", LEVELS)
        self.level.setCurrentText("info")
        self.level.currentTextChanged.connect(self._redraw)
        self.filter = named(QLineEdit(placeholderText="Filter lines"), "Log: filter")
        self.filter.setClearButtonEnabled(True)
        self.filter.setMaximumWidth(240)
        self.filter.textChanged.connect(self._redraw)
        self.wrap = named(QCheckBox("wrap"), "Wrap long lines")
        self.wrap.toggled.connect(self._wrap)
        copy = push_button("Copy", "Copy log", "Copy all lines that are shown", self.copy)
        self.view = named(QPlainTextEdit(), "Log")
        self.view.setReadOnly(True)
        self.view.setMaximumBlockCount(LIMIT)
        self.view.setPlaceholderText("What the program does appears here.")
        self._wrap(False)
        bar = hbox(self.level, self.wrap, None, self.filter, copy, margins=(8, 6, 8, 4), spacing=10)
        vbox(bar, (self.view, 1), on=self)
        self._timer = QTimer(self, interval=REFRESH_MS)
        self._timer.timeout.connect(self.take)
        self._timer.start()

    def take(self) -> None:
        """Show what came in since the last time."""
        fresh = [self.handler.fresh.popleft() for _ in range(len(self.handler.fresh))]
        self.lines.extend(fresh)
        self._append(fresh)

    def copy(self) -> None:
        QGuiApplication.clipboard().setText(self.view.toPlainText())

    def set_theme(self, theme: Theme) -> None:
        self.theme = theme
        self._redraw()

    def _shown(self, line: Line) -> bool:
        lowest = getattr(logging, self.level.currentText().upper())
        words = self.filter.text().lower().split()
        return line.level >= lowest and all(word in str(line).lower() for word in words)

    def _append(self, lines: list[Line]) -> None:
        shown = [line for line in lines if self._shown(line)]
        if shown:
            # One call per batch: each call lays the document out again.
            self.view.appendHtml("<br>".join(self._html(line) for line in shown))

    def _html(self, line: Line) -> str:
        t = self.theme
        high = line.level >= logging.WARNING
        colour = t.bad if line.level >= logging.ERROR else t.warn if high else t.text
        words = escape(str(line)).replace("\n", "<br>").replace("  ", "&nbsp;&nbsp;")
        return f'<span style="color:{colour}">{words}</span>'

    def _redraw(self) -> None:
        self.view.clear()
        self._append(list(self.lines))

    def _wrap(self, on: bool) -> None:
        mode = QPlainTextEdit.LineWrapMode
        self.view.setLineWrapMode(mode.WidgetWidth if on else mode.NoWrap)
