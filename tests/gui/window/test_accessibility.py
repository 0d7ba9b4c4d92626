"""Everything that can be used has a name for a screen reader and a way by keyboard."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QDialog,
    QDockWidget,
    QGraphicsView,
    QHeaderView,
    QLineEdit,
    QPlainTextEdit,
    QScrollArea,
    QScrollBar,
    QTabBar,
    QTabWidget,
    QTextEdit,
)

from nnjit_studio.ui.window.features import ACTIONS

USED = (
    QAbstractButton, QAbstractItemView, QAbstractSlider, QAbstractSpinBox, QComboBox,
    QGraphicsView, QLineEdit, QPlainTextEdit, QTabWidget, QTextEdit,
)  # fmt: skip
DIALOGS = ("settings", "shortcuts", "palette", "about")


@pytest.fixture
def filled(window):
    """With every dock filled: views are made when they are seen first."""
    for dock in window.docks.values():
        dock.show()
        dock.raise_()
        QCoreApplication.processEvents()
    return window


def used_in(widget):
    for kind in USED:
        for child in widget.findChildren(kind):
            if not of_qt(child):
                yield child


def of_qt(child) -> bool:
    """A scroll bar, a header, a dock's or a tab bar's own button, the list of a combo box."""
    parts = (
        QComboBox, QAbstractSpinBox, QAbstractItemView, QLineEdit, QTabWidget, QTabBar, QDockWidget,
    )  # fmt: skip
    parent = child.parent()
    return (
        child.objectName().startswith("qt_")
        or isinstance(child, (QScrollBar, QHeaderView))
        or isinstance(parent, parts)
        or isinstance(parent and parent.parent(), QComboBox)
    )


def name_of(widget) -> str:
    text = widget.text() if isinstance(widget, QAbstractButton) else ""
    return (widget.accessibleName() or text).replace("&", "")


def describe(widget) -> str:
    parent = widget.parent()
    return f"{type(widget).__name__} {name_of(widget)!r} in {type(parent).__name__}"


def test_everything_that_can_be_used_has_a_name(filled):
    widgets = list(used_in(filled))
    assert len(widgets) > 80
    assert "\n".join(describe(w) for w in widgets if not name_of(w).strip("…. ")) == ""


def test_an_area_to_which_tab_goes_has_a_name(filled):
    areas = [a for a in filled.findChildren(QScrollArea) if a.focusPolicy() & Qt.TabFocus]
    assert areas
    assert "\n".join(describe(a) for a in areas if not name_of(a)) == ""


def test_everything_that_can_be_used_takes_the_focus_by_tab(filled):
    tab = Qt.FocusPolicy.TabFocus
    mute = [describe(w) for w in used_in(filled) if (w.focusPolicy() & tab) != tab]
    assert "\n".join(mute) == ""


def test_every_action_is_reached_by_keys_alone(window):
    """By a shortcut, or by the letters of its menu and its entry."""
    letters = {}
    for action in window.menus.bar.actions():
        assert "&" in action.text()
        entries = [a for a in action.menu().actions() if a.objectName()]
        letters[action.text()] = [a.text() for a in entries]
    named = {text for texts in letters.values() for text in texts}
    assert {s.text for s in ACTIONS} <= named
    for menu, texts in letters.items():
        keys = [text[text.index("&") + 1].lower() for text in texts if "&" in text]
        assert len(keys) == len(texts), menu


def test_dialogs_have_names_and_close_by_escape(qtbot, window):
    for action in DIALOGS:
        window.actions_by_id[action].trigger()
        (dialog,) = (d for d in window.findChildren(QDialog) if d.isVisible())
        assert dialog.windowTitle(), action
        assert [describe(w) for w in used_in(dialog) if not name_of(w).strip("…. ")] == []
        with qtbot.waitSignal(dialog.finished):
            qtbot.keyClick(dialog, Qt.Key.Key_Escape)
