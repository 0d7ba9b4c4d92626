"""What the user does to records: note, delete, restore, undo, import, export."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLineEdit,
    QMessageBox,
    QPlainTextEdit,
    QWidget,
)

from nnjit_studio.database import Measurement
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.files.saving import Saver
from nnjit_studio.ui.records.dock import DatabasePanel
from nnjit_studio.ui.widgets.message_bar import MessageBar
from nnjit_studio.ui.widgets.theme import named


class RecordActions:
    """Asks where there is something to ask, then has the panel's store do it."""

    def __init__(
        self, window: QWidget, panel: DatabasePanel, saver: Saver, message: MessageBar
    ) -> None:
        self._window, self._panel, self._saver = window, panel, saver
        self._message, self._store = message, panel.store
        self._store.said.connect(lambda text: message.say(text, "good"))
        self._store.looked.connect(self._ask_import)

    def undo(self) -> None:
        self._say_unless(bool(self._store.done), "There is nothing to undo.")
        self._store.undo()

    def redo(self) -> None:
        self._say_unless(bool(self._store.undone), "There is nothing to redo.")
        self._store.redo()

    def delete(self) -> None:
        rows = [row for row in self._panel.selected() if not row.deleted]
        if self._say_unless(bool(rows), "Select records in the kernel database first."):
            self._store.delete(rows)

    def restore(self) -> None:
        rows = [row for row in self._panel.selected() if row.deleted]
        if self._say_unless(
            bool(rows), "Show deleted records in the kernel database and select some first."
        ):
            self._store.restore(rows)

    def note(self) -> None:
        rows = self._panel.selected()
        if self._say_unless(bool(rows), "Select records in the kernel database first."):
            dialogs.show(NoteDialog(self._window, self._panel, rows))

    def ask_import(self) -> None:
        dialogs.ask_records(self._window, self._saver.folder, self._store.look_into)

    def look_into(self, path: Path) -> None:
        """Show what a file holds and ask whether to import it."""
        self._store.look_into(path)

    def ask_export(self) -> None:
        self._saver.ask("Export records (.db, .json or .csv)", "records.json", self._export)

    def _export(self, path: Path) -> None:
        self._store.export_to(path)

    def _say_unless(self, fine: bool, sentence: str) -> bool:
        if not fine:
            self._message.say(sentence)
        return fine

    def _ask_import(self, path: Path, rows: Sequence[Measurement]) -> None:
        if not rows:
            self._message.say(f"{path.name} holds no records.")
            return
        places = [", ".join(sorted({getattr(r, of) for r in rows})) for of in ("device", "browser")]
        box = QMessageBox(
            QMessageBox.Icon.Question,
            "Import records",
            f"Import {len(rows):,} records of {len({r.workload for r in rows})} workloads from "
            f"{path.name}?\n\nDevices: {places[0]}\nBrowsers: {places[1]}\n\n"
            "Records that are here already are skipped.",
            QMessageBox.StandardButton.Cancel,
            self._window,
        )
        add = box.addButton("Import", QMessageBox.ButtonRole.AcceptRole)
        box.setDefaultButton(add)
        add.clicked.connect(lambda: self._store.import_from(path))
        dialogs.show(box)


class NoteDialog(QDialog):
    """Note and tags of some records; both are the same on all of them afterwards."""

    def __init__(self, parent: QWidget, panel: DatabasePanel, rows: Sequence[Measurement]) -> None:
        super().__init__(parent)
        self._panel, self._rows = panel, rows
        several = f"{len(rows):,} records" if len(rows) > 1 else rows[0].settings
        self.setWindowTitle(f"Note and tags: {several}")
        self.tags = named(QLineEdit(rows[0].tags), "Tags", "Words, separated by spaces")
        self.note = named(QPlainTextEdit(rows[0].note), "Note")
        self.note.setTabChangesFocus(True)
        buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Save | QDialogButtonBox.StandardButton.Cancel
        )
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        form = QFormLayout(self)
        form.addRow("&Tags", self.tags)
        form.addRow("&Note", self.note)
        form.addRow(buttons)
        self.resize(460, 240)

    def accept(self) -> None:
        self._panel.store.annotate(self._rows, self.note.toPlainText().strip(), self.tags.text())
        super().accept()
