"""Asking for the place of a file, writing it, and telling how that went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QSettings, QStandardPaths, QUrl
from PySide6.QtGui import QAction, QDesktopServices
from PySide6.QtWidgets import QPushButton, QWidget

from nnjit_studio.errors import UserError
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.files import recent
from nnjit_studio.ui.state.jobs import JobProblem
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.message_bar import MessageBar, Step
from nnjit_studio.ui.widgets.plots.panel import PlotPanel
from nnjit_studio.ui.widgets.tables import TablePanel

Write = Callable[[Path], object]
FOLDER_KEY = "save_folder"


class Saver:
    """For buttons and actions that write a file."""

    def __init__(
        self, window: QWidget, session: StudioSession, settings: QSettings, message: MessageBar
    ) -> None:
        self._window, self._session = window, session
        self._settings, self._message = settings, message

    @property
    def folder(self) -> Path:
        """Where a file to open is looked for first: where the latest model is."""
        paths = recent.recent(self._settings)
        return paths[0].parent if paths else Path.home()

    @property
    def save_folder(self) -> Path:
        """Where a file was written last, at first the user's documents."""
        last = Path(str(self._settings.value(FOLDER_KEY, "")))
        if last.is_absolute() and last.is_dir():
            return last
        where = QStandardPaths.StandardLocation.DocumentsLocation
        documents = Path(QStandardPaths.writableLocation(where))
        return documents if documents.is_dir() else Path.home()

    def ask(self, title: str, name: str, write: Write) -> None:
        """Have ``write`` called with the file that the user chooses."""

        def chosen(path: Path) -> None:
            self._settings.setValue(FOLDER_KEY, str(path.parent.absolute()))
            write(path)

        dialogs.ask_save(self._window, title, self.save_folder / name, chosen)

    def ask_for_model(self, title: str, ending: str, write: Write) -> None:
        """The same; the model's name with this ending is proposed."""
        model = self._session.state.model
        self.ask(title, (model.path.stem if model else "model") + ending, write)

    def guarded(self, write: Write) -> Write:
        """Tell in the message bar that it was written, or why it was not."""

        def writes(path: Path) -> None:
            try:
                write(path)
            except UserError as error:
                self._message.say(str(JobProblem.of("save", error)), "bad")
            except OSError as error:
                reason = error.strerror or str(error)
                self._message.say(f"{path.name} was not written: {reason}.", "bad", str(error))
            else:
                self.tell_written(path)

        return writes

    def tell_written(self, path: Path, steps: Sequence[Step] = (), said: str = "") -> None:
        """Say how large a file is that was written, with what can be done with it; ``said`` is
        what else there is to know."""
        folder = QUrl.fromLocalFile(str(path.absolute().parent))
        show = ("Show in folder", lambda: QDesktopServices.openUrl(folder))
        size = text.nbytes(path.stat().st_size)
        words = f"Written: {path.name}, {size}. {said}".rstrip()
        self._message.say(words, "good", steps=(*steps, show), stays=True)

    def offer(self, button: QPushButton, title: str, ending: str, write: Write) -> None:
        """Have a button ask for a file that is named after the model, and write it."""
        button.clicked.connect(
            lambda _=False: self.ask_for_model(title, ending, self.guarded(write))
        )

    def offer_table(self, panel: TablePanel) -> None:
        self._offer(panel.export_action, "Export CSV", "table.csv", panel.export_csv)

    def offer_plot(self, plot: PlotPanel) -> None:
        self._offer(plot.csv_action, "Export CSV", "table.csv", plot.export_csv)
        self._offer(plot.png_action, "Export image", "plot.png", plot.export_png)

    def _offer(self, action: QAction, title: str, name: str, write: Write) -> None:
        action.triggered.connect(lambda _=False: self.ask(title, name, self.guarded(write)))
