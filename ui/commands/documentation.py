"""The documentation in a window: the pages of ``docs``, which ship with the application."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from PySide6.QtCore import Qt, QUrl
from PySide6.QtWidgets import QDialog, QListWidget, QTextBrowser, QWidget

from nnjit_studio.ui.widgets.panel import named, splitter, vbox

FIRST = ("tour", "window", "measuring", "commands", "models", "limits")
"""Pages that a user reads; those for developers come after them, by name."""


def pages() -> list[Path]:
    """The pages in the order in which they are listed."""
    found = sorted(Path(str(files("nnjit_studio.resources") / "docs")).glob("*.md"))
    rank = {name: place for place, name in enumerate(FIRST)}
    return sorted(found, key=lambda path: rank.get(path.stem, len(rank)))


def title_of(page: Path) -> str:
    """Its first heading."""
    return page.read_text("utf-8").lstrip("# ").partition("\n")[0]


class Documentation(QDialog):
    """A list of pages, and the chosen one; links lead from page to page, none to a network."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Documentation")
        self._pages = pages()
        self.list = named(QListWidget(), "Pages of the documentation")
        self.list.addItems([title_of(page) for page in self._pages])
        self.text = named(QTextBrowser(openLinks=False), "Page")
        self.text.anchorClicked.connect(self._follow)
        self.list.currentRowChanged.connect(self._show)
        parts = splitter(Qt.Orientation.Horizontal, (self.list, 220), (self.text, 720))
        vbox((parts, 1), on=self)
        self.resize(960, 720)
        self.list.setCurrentRow(0)

    def _show(self, row: int) -> None:
        page = self._pages[row]
        self.text.setSearchPaths([str(page.parent)])
        self.text.setMarkdown(page.read_text("utf-8"))

    def _follow(self, link: QUrl) -> None:
        names = [page.name for page in self._pages]
        if link.fileName() in names:
            self.list.setCurrentRow(names.index(link.fileName()))
