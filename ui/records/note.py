"""Note and tags of records."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLineEdit,
    QPlainTextEdit,
    QWidget,
)

from nnjit_studio.database import Measurement
from nnjit_studio.ui.records.store import RecordStore
from nnjit_studio.ui.widgets.panel import named


class NoteDialog(QDialog):
    """Note and tags of some records; both are the same on all of them afterwards."""

    def __init__(self, parent: QWidget, store: RecordStore, rows: Sequence[Measurement]) -> None:
        super().__init__(parent)
        self._store, self._rows = store, rows
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
        self._store.annotate(self._rows, self.note.toPlainText().strip(), self.tags.text())
        super().accept()
