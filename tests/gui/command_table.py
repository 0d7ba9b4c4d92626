"""Writes docs/commands.md from the window's registry of actions: ``make commands``."""

from __future__ import annotations

from pathlib import Path

import nnjit_studio.ui  # noqa: F401  (before PySide6)
from nnjit_studio.ui.commands.dialogs import OTHER_KEYS
from nnjit_studio.ui.window.features import ACTIONS

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
HEAD = """# Every command of the window

Made by `make commands` from the registry that feeds menus, shortcuts and palette
(`ui/window/features.py`). Ctrl+Shift+P finds a command by a few of its letters; Ctrl+C there
copies what does the same on the command line.

| menu | command | keys | what it does | on the command line |
|---|---|---|---|---|
"""
KEYS = """
## Keys inside a view

| view and what | keys |
|---|---|
"""


def page() -> str:
    rows = []
    for spec in ACTIONS:
        menu, text = (words.replace("&", "") for words in (spec.menu, spec.text))
        command = f"`{spec.command}`" if spec.command else ""
        rows.append(f"| {menu} | {text} | {spec.shortcut} | {spec.tip} | {command} |")
    keys = [f"| {what} | {keys} |" for what, keys in OTHER_KEYS]
    return HEAD + "\n".join(rows) + "\n" + KEYS + "\n".join(keys) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
