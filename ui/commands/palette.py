"""The command palette: every action of the menus, found by a few of its letters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QAction, QGuiApplication, QKeyEvent
from PySide6.QtWidgets import (
    QDialog,
    QLabel,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QMenu,
    QMenuBar,
    QWidget,
)

from nnjit_studio.ui.commands.actions import command_line, not_now, plain
from nnjit_studio.ui.widgets.panel import named, vbox


@dataclass(frozen=True)
class Command:
    """An action and where the menus have it, such as ``Tune > Start tuning``."""

    name: str
    action: QAction


def commands(bar: QMenuBar) -> list[Command]:
    """All actions of the menus, in their order."""
    menus = (action.menu() for action in bar.actions())
    return [c for menu in menus if isinstance(menu, QMenu) for c in _inside(menu, "")]


def _inside(menu: QMenu, path: str) -> Iterator[Command]:
    here = f"{path}{plain(menu.title())} > "
    for action in menu.actions():
        inner = action.menu()
        if isinstance(inner, QMenu):
            yield from _inside(inner, here)
        elif not action.isSeparator():
            yield Command(here + plain(action.text()), action)


def score(name: str, typed: str) -> int | None:
    """How well the typed letters fit, least best; None where they do not come in this order.

    Words beat letters spread over the name: what is skipped inside a word counts, and what
    begins a word of the name as it is typed skips nothing.
    """
    if re.search(rf"\b{re.escape(typed.strip())}", name, re.IGNORECASE):
        return 0
    place, skipped, text = -1, 0, name.lower()
    for letter in typed.lower().replace(" ", ""):
        found = text.find(letter, place + 1)
        if found < 0:
            return None
        begins = found == 0 or not text[found - 1].isalnum()
        skipped += 0 if found == place + 1 or begins else found - place
        place = found
    return skipped


class Palette(QDialog):
    """Type, choose by arrow keys, Return does it; Ctrl+C copies it as a command line."""

    def __init__(self, parent: QWidget, bar: QMenuBar, model: Path | None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Commands")
        self.model = model
        self.commands = commands(bar)
        self.field = named(QLineEdit(), "Find a command")
        self.field.setPlaceholderText("Type a few letters of a command")
        self.list = named(QListWidget(), "Commands found")
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.hint = named(QLabel(), "Command line")
        self.hint.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.hint.setWordWrap(True)
        vbox(self.field, self.list, self.hint, on=self, margins=None, spacing=None)
        self.field.installEventFilter(self)
        self.field.textChanged.connect(self._find)
        self.list.currentRowChanged.connect(self._tell)
        self.list.itemActivated.connect(lambda item: self._do())
        self.list.itemClicked.connect(lambda item: self._do())
        self.resize(560, 420)
        self._find("")

    def current(self) -> Command | None:
        item = self.list.currentItem()
        found: Command | None = item.data(Qt.ItemDataRole.UserRole) if item else None
        return found

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Arrow keys, Return and Ctrl+C act on the list although the field has the focus."""
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            key, row = Qt.Key(event.key()), self.list.currentRow()
            steps = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1}
            steps |= {Qt.Key.Key_PageDown: 10, Qt.Key.Key_PageUp: -10}
            if key in steps:
                last = self.list.count() - 1
                self.list.setCurrentRow(max(0, min(last, row + steps[key])))
                return True
            if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._do()
                return True
            copies = event.modifiers() == Qt.KeyboardModifier.ControlModifier
            if copies and key == Qt.Key.Key_C and not self.field.hasSelectedText():
                QGuiApplication.clipboard().setText(self.line())
                return True
        return super().eventFilter(watched, event)

    def line(self) -> str:
        """The command line that does the current command, empty where there is none."""
        command = self.current()
        return command_line(command.action, self.model) if command else ""

    def _find(self, typed: str) -> None:
        found = [(score(c.name, typed), i, c) for i, c in enumerate(self.commands)]
        # What cannot be done now stays in the list, so that it can say why, but behind the rest.
        ranked = sorted(
            (f for f in found if f[0] is not None),
            key=lambda f: (bool(typed) and not f[2].action.isEnabled(), *f[:2]),
        )
        self.list.clear()
        for _, _, command in ranked:
            keys = command.action.shortcut().toString()
            text = f"{command.name}    {keys}" if keys else command.name
            item = QListWidgetItem(text)
            item.setData(Qt.ItemDataRole.UserRole, command)
            if not command.action.isEnabled():
                item.setFlags(item.flags() & ~Qt.ItemFlag.ItemIsEnabled)
            item.setToolTip(command.action.toolTip())
            self.list.addItem(item)
        self.list.setCurrentRow(0)
        self._tell()

    def _tell(self) -> None:
        command = self.current()
        if command is None:
            self.hint.setText("No command has these letters in this order.")
        elif not command.action.isEnabled():
            self.hint.setText(not_now(command.action))
        else:
            line = self.line()
            self.hint.setText(f"{line}    (Ctrl+C copies)" if line else command.action.toolTip())

    def _do(self) -> None:
        command = self.current()
        if command is not None and command.action.isEnabled():
            self.accept()
            command.action.trigger()
