"""A saved trace and the way into Perfetto; the Studio itself opens no address."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QWidget

from nnjit_studio.ui.widgets.panel import vbox

ADDRESS = "https://ui.perfetto.dev"
HOW = (
    f"{{path}}\n\nOpen {ADDRESS} in a browser and drop the file on the page, or press Ctrl+O "
    "there. The page reads the file inside the browser. The Studio opens no page by itself: "
    "nothing leaves this machine through it."
)


class TraceSaved(QDialog):
    """Says how to open the file; copies the address, shows the folder."""

    def __init__(self, parent: QWidget, path: Path) -> None:
        super().__init__(parent)
        self.setWindowTitle("The trace is saved")
        self._path = path.absolute()
        home = Path.home()
        inside = self._path.is_relative_to(home)
        shown = Path("~", self._path.relative_to(home)) if inside else self._path
        how = QLabel(HOW.format(path=shown), wordWrap=True)
        how.setTextFormat(Qt.TextFormat.PlainText)
        how.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        how.setAccessibleName("How to open the trace")
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        role = QDialogButtonBox.ButtonRole.ActionRole
        self.copy_button = buttons.addButton("Copy the address", role)
        self.copy_button.clicked.connect(lambda: QGuiApplication.clipboard().setText(ADDRESS))
        self.folder_button = buttons.addButton("Show the folder", role)
        self.folder_button.clicked.connect(
            lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._path.parent)))
        )
        buttons.rejected.connect(self.reject)
        vbox(how, buttons, on=self, margins=None, spacing=None)
        self.resize(560, 160)
