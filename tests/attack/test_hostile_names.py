"""Texts of strangers where Qt and scripts read them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from PySide6 import QtGui

from nnjit_studio.ui.widgets.tips import plain_tip


@pytest.mark.parametrize(
    "name", ["<img src='file:///etc/passwd'>layer.0", "<b>x</b>", "<a href='x'>y</a>", "a < b"]
)
def test_a_tooltip_shows_a_name_letter_by_letter(name: str) -> None:
    tip = plain_tip(name)
    document = QtGui.QTextDocument()
    if QtGui.Qt.mightBeRichText(tip):
        document.setHtml(tip)
    else:
        document.setPlainText(tip)
    assert document.toPlainText() == name


def test_wrong_usage_is_json_where_json_was_asked_for() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nnjit_studio", "tune", "--json", "--nonsense"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert json.loads(done.stdout)["kind"] == "user"
