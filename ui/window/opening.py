"""Opening models: from a dialog, the list of recent ones, a dropped file."""

from __future__ import annotations

import os
from pathlib import Path

from PySide6.QtCore import QObject

from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.files import recent
from nnjit_studio.ui.state.jobs import EXAMINE


class ModelOpener(QObject):
    """Opens models, and says why where one cannot be opened."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._host = host
        host.session.done.connect(self._done)

    def ask(self) -> None:
        """Have the user choose a model."""
        dialogs.ask_file(self._host.window, dialogs.MODELS, self._host.saver.folder, self.open)

    def open(self, path: Path) -> bool:
        """Open a model unless something is wrong with the path or the session is busy."""
        session, say = self._host.session, self._host.message.say
        if session.after(EXAMINE, lambda: self.open(path)):
            return True
        if session.busy:
            say("Something is running: stop it first (Shift+F5), then open a model.")
        elif path.suffix.lower() != ".onnx":
            say(f"{path.name} is not an ONNX model: drop one file that ends in .onnx.", "bad")
        elif not os.path.isfile(path):
            say(f"{path.name} is not there any more: choose another model.", "bad")
        else:
            return session.open(path)
        return False

    def _done(self, job: str, _: object) -> None:
        model = self._host.session.state.model
        if job == "open" and model is not None:
            recent.remember(self._host.settings, model.path)
            self._host.window.setWindowTitle(f"{model.path.name} - NNJIT Studio")
            self._host.message.hide()
