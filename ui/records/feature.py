"""The dock of the kernel database, and what its actions do to records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
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

from nnjit_studio.commons.client.consent import user_sharing
from nnjit_studio.database import Measurement
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.dock.feature import COMPARE, TUNE, Action, Feature
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.records.dock import DatabasePanel
from nnjit_studio.ui.records.sharing import SharingDialog
from nnjit_studio.ui.records.store import RecordStore
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.panel import named

NONE_SELECTED = "Select records in the kernel database first."


def _make(host: Host) -> DatabasePanel:
    store = RecordStore(host.session.workbench.database, host.history)
    panel = DatabasePanel(host.session, host.theme, store, host.actions, host.settings)
    store.setParent(panel)
    store.told.connect(lambda sentence: host.message.say(sentence, "good"))
    store.looked.connect(partial(_ask_import, host, store))
    store.problem.connect(host.tell)
    panel.picked.connect(lambda row: host.workload_wanted.emit(row.workload))
    host.background.append(store)
    host.kernels.add(panel, host.actions["kernel"])
    store.refresh()
    return panel


def look_into(host: Host, path: Path) -> None:
    """Show what a file holds and ask whether to import it."""
    DATABASE.panel(host).store.look_into(path)


def _selected(host: Host, deleted: bool | None, otherwise: str) -> list[Measurement]:
    """Selected records, of ``deleted`` or other ones unless None; a sentence if there are none."""
    rows = DATABASE.panel(host).selected()
    found = [row for row in rows if deleted is None or bool(row.deleted) is deleted]
    if not found:
        host.message.say(otherwise)
    return found


def _delete(host: Host) -> None:
    if rows := _selected(host, False, NONE_SELECTED):
        DATABASE.panel(host).store.delete(rows)


def _restore(host: Host) -> None:
    sentence = "Show deleted records in the kernel database and select some first."
    if rows := _selected(host, True, sentence):
        DATABASE.panel(host).store.restore(rows)


def _note(host: Host) -> None:
    if rows := _selected(host, None, NONE_SELECTED):
        dialogs.show(NoteDialog(host.window, DATABASE.panel(host).store, rows))


def _choose_import(host: Host) -> None:
    dialogs.ask_file(host.window, dialogs.RECORDS, host.saver.folder, partial(look_into, host))


def _export(host: Host) -> None:
    store = DATABASE.panel(host).store
    host.saver.ask("Export records (.db, .json or .csv)", "records.json", store.export_to)


def _share(host: Host) -> None:
    records = host.session.workbench.database
    dialogs.show(SharingDialog(host.window, records, user_sharing(), host.settings))


def _ask_import(host: Host, store: RecordStore, path: Path, rows: Sequence[Measurement]) -> None:
    if not rows:
        host.message.say(f"{path.name} holds no records.")
        return
    targets = ", ".join(sorted({r.target for r in rows}))
    devices = text.counted(len({r.device for r in rows}), "device")
    workloads = text.counted(len({r.workload for r in rows}), "workload")
    box = QMessageBox(
        QMessageBox.Icon.Question,
        "Import records",
        f"Import {len(rows):,} record{'s' * (len(rows) != 1)} of {workloads} from {path.name}?\n\n"
        f"They were measured on {devices}, in: {targets}.\n\n"
        "Records that the database has already are skipped.",
        QMessageBox.StandardButton.Cancel,
        host.window,
    )
    add = box.addButton("Import", QMessageBox.ButtonRole.AcceptRole)
    box.setDefaultButton(add)
    add.clicked.connect(lambda: store.import_from(path))
    dialogs.show(box)


ACTIONS = (
    Action("import", "&File", "&Import records…", command="nnjit db import FILE", place=2,
           tip="Add the records of another kernel database or of an export", do=_choose_import),
    Action("export_records", "&File", "Export re&cords…", command="nnjit db export FILE", place=2,
           tip="Write the kernel database as .db, .json or .csv", do=_export),
    Action("share", "&File", "S&hare results…", command="nnjit share send SERVER", place=2,
           tip="Show the very bytes that would travel to a commons, and send them if you agree",
           do=_share),
    Action("note", "&Edit", "&Note and tags…", "F2", place=1,
           tip="Write a note and tags to the selected records", do=_note),
    Action("delete", "&Edit", "&Delete records", "Del", place=1,
           tip="Put the selected records aside; undo brings them back", do=_delete),
    Action("restore", "&Edit", "Re&store records", place=1,
           tip="Bring selected deleted records back", do=_restore),
    Action("refresh", "&View", "Refresh &kernel database", "Ctrl+D", command="nnjit db list",
           place=3, do=lambda host: host.session.read_records()),
)  # fmt: skip
DATABASE: Feature[DatabasePanel] = Feature(
    "database", "Kernel database", _make, actions=ACTIONS, layouts=(TUNE, COMPARE)
)


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
