"""Dialogs, none of them modal: tuning goes on and the window stays usable."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QMessageBox,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from nnjit_studio import __version__
from nnjit_studio.ui.commands.actions import ActionSpec
from nnjit_studio.ui.widgets.panel import named, vbox

OTHER_KEYS = (
    ("Graph: next, previous node", "Down, Up"),
    ("Graph: zoom", "+, -, wheel"),
    ("Graph: fit, top", "F, Home"),
    ("Graph: open, close group", "Right, Left"),
    ("Table: next, previous row", "Down, Up"),
    ("Make it faster: apply the row, or what its button says", "Enter, Space"),
    ("Table: copy rows as TSV", "Ctrl+C"),
    ("Table: copy rows as CSV", "Ctrl+Alt+C"),
    ("Table: copy rows as Markdown", "Ctrl+Shift+C"),
)


MODELS = ("Open model", "ONNX models (*.onnx)")
PROFILES = ("Saved profile", "Profiles (*.json)")
TOKEN_IDS = ("Token ids", "")
RECORDS = ("Import records", "Kernel records (*.db *.sqlite *.sqlite3 *.json)")
WASM_FILES = ("Open a Wasm file", "Wasm modules (*.wasm)")
RUNS = ("How often sizes come", "Sizes, texts or inputs (*.txt *.csv *.npz)")
SESSIONS = ("Open session", "Sessions (*.json)")
"""Titles of dialogs that ask for a file, and the files that they show."""


def ask_file(
    parent: QWidget, kind: tuple[str, str], folder: Path, chosen: Callable[[Path], object]
) -> None:
    """Have ``chosen`` called with a file that is there."""
    title, files = kind
    dialog = QFileDialog(parent, title, str(folder), files)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    dialog.fileSelected.connect(lambda text: chosen(Path(text)))
    show(dialog)


def ask_files(
    parent: QWidget, kind: tuple[str, str], folder: Path, chosen: Callable[[list[Path]], object]
) -> None:
    """Have ``chosen`` called with files that are there."""
    title, files = kind
    dialog = QFileDialog(parent, title, str(folder), files)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
    dialog.filesSelected.connect(lambda names: chosen([Path(name) for name in names]))
    show(dialog)


def ask_save(parent: QWidget, title: str, file: Path, chosen: Callable[[Path], object]) -> None:
    """Have ``chosen`` called with the file to write; ``file`` is proposed."""
    dialog = QFileDialog(parent, title, str(file))
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.fileSelected.connect(lambda text: chosen(Path(text)))
    show(dialog)


def show_about(parent: QWidget) -> None:
    words = (
        f"NNJIT Studio {__version__}\n\nTunes the kernels of neural networks just in time, "
        "inside a real browser engine, and ships them as a static bundle.\n\n"
        "Apache License 2.0. Nothing leaves this machine unless you ask for it."
    )
    show(QMessageBox(QMessageBox.Icon.NoIcon, "About NNJIT Studio", words, parent=parent))


def show_shortcuts(parent: QWidget, actions: Iterable[ActionSpec]) -> None:
    rows = [(s.text, s.shortcut) for s in actions if s.shortcut] + list(OTHER_KEYS)
    table = named(QTableWidget(len(rows), 2), "Keyboard shortcuts")
    table.setHorizontalHeaderLabels(["action", "keys"])
    table.verticalHeader().hide()
    table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
    table.horizontalHeader().setStretchLastSection(True)
    for i, (name, keys) in enumerate(rows):
        table.setItem(i, 0, QTableWidgetItem(name.replace("&", "").rstrip("…")))
        table.setItem(i, 1, QTableWidgetItem(keys))
    table.resizeColumnToContents(0)
    dialog = QDialog(parent)
    dialog.setWindowTitle("Keyboard shortcuts")
    vbox(table, on=dialog, margins=None)
    dialog.resize(460, 560)
    show(dialog)


def show(dialog: QWidget) -> None:
    """Not modal, gone when closed."""
    dialog.setWindowModality(Qt.WindowModality.NonModal)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.show()
