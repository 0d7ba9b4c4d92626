"""What the pages on the window quote is in it: commands, keys, words, settings, pictures."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import command_table
import pytest

from nnjit_studio.ui.commands.dialogs import OTHER_KEYS
from nnjit_studio.ui.window.features import ACTIONS
from nnjit_studio.ui.window.preferences import SETTINGS

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *(ROOT / "docs" / name for name in ("window.md", "tour.md"))]
NAMES = [page.name for page in PAGES]

KEY = re.compile(r"(?<![\w+])((?:(?:Ctrl|Shift|Alt)\+)+(?:[A-Z]\w*|[][,0-9])|F\d{1,2})(?!\w)")
OF_BUTTONS = {"Ctrl+Return", "Ctrl+Enter"}
"""Keys of buttons inside a dock: Measure, and Start of the dock Text."""
MENU = re.compile(r"\*(File|Edit|Tune|Inspect|View|Help), ([^*]+)\*")
WORDS = re.compile(r"(?<!\*)\*([^*\n]+)\*(?!\*)|“([^”]+)”")
PICTURE = re.compile(r"""(?:src|srcset)="([^"]+)"|!\[[^\]]*\]\(([^)\s]+)\)""")


@cache
def words_of_the_window() -> frozenset[str]:
    """Every text of the window's sources, as a reader sees it."""
    found = set()
    for path in (ROOT / "ui").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(plain(node.value))
    return frozenset(found)


def plain(text: str) -> str:
    return " ".join(text.replace("&", "").rstrip("…").split()).lower()


def keys_of(text: str) -> set[str]:
    return {match[0] for match in KEY.finditer(text)}


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("press Ctrl+Shift+P or F6,", {"Ctrl+Shift+P", "F6"}),
        ("`Ctrl+]` `Ctrl+Alt+[` Ctrl+1, Ctrl+,", {"Ctrl+]", "Ctrl+Alt+[", "Ctrl+1", "Ctrl+,"}),
        ("GFLOP, FF6 and F64 tensors of F6x", {"F64"}),
    ],
)
def test_keys_are_found_in_a_text(text, keys):
    assert keys_of(text) == keys


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_keys_that_are_named_do_something(page):
    known = {spec.shortcut for spec in ACTIONS} | {k for _, k in OTHER_KEYS} | OF_BUTTONS
    assert keys_of(page.read_text("utf-8")) - known == set()


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_menu_entries_that_are_named_exist(page):
    entries = {(plain(s.menu), plain(s.text)) for s in ACTIONS}
    named = {(plain(m), plain(t)) for m, t in MENU.findall(page.read_text("utf-8"))}
    assert named - entries == set()


@pytest.mark.parametrize("page", PAGES[1:], ids=NAMES[1:])
def test_words_that_are_quoted_stand_in_the_window(page):
    text = MENU.sub("", page.read_text("utf-8"))
    quoted = {plain(a or b) for a, b in WORDS.findall(text)}
    assert quoted, "the page quotes nothing of the window"
    assert {q for q in quoted if q not in words_of_the_window()} == set()


def test_a_word_that_is_nowhere_in_the_window_is_found():
    assert plain("Start &tuning…") in words_of_the_window()
    assert plain("Make it so") not in words_of_the_window()


def test_every_setting_is_in_the_page_on_the_window():
    text = PAGES[1].read_text("utf-8").lower()
    assert [s.label for s in SETTINGS if s.label.lower() not in text] == []


def test_every_dock_is_in_the_page_on_the_window(window):
    text = PAGES[1].read_text("utf-8")
    titles = [dock.windowTitle() for dock in window.docks.values()]
    assert [t for t in titles if not re.search(rf"^#+ .*{re.escape(t)}", text, re.M)] == []


def test_the_table_of_commands_is_that_of_the_registry():
    assert command_table.PAGE.read_text("utf-8") == command_table.page(), "run: make commands"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_pictures_that_are_shown_exist(page):
    shown = [a or b for a, b in PICTURE.findall(page.read_text("utf-8"))]
    lost = [s for s in shown if "://" not in s and not (page.parent / s).is_file()]
    assert lost == []
    assert shown or page.name != "tour.md"
