"""Tooltips with texts of strangers' files."""

from __future__ import annotations

import html

from PySide6 import QtGui


def plain_tip(text: str) -> str:
    """The text as a tooltip shows it letter by letter: Qt renders what looks like HTML."""
    if not QtGui.Qt.mightBeRichText(text):
        return text
    return f"<qt>{html.escape(text)}</qt>"
