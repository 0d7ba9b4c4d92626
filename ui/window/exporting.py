"""Export of bundles and reports: for which sizes, where to, and what became of it."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QMessageBox, QPushButton

from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.files.trial import Trials
from nnjit_studio.ui.state.jobs import (
    AnySizeBundle,
    Job,
    export_any_size,
    export_bundle,
    export_report,
)
from nnjit_studio.ui.state.open_sizes import open_axes, sizes_here, words_of
from nnjit_studio.workbench.inputs.roles import most_varied

ANY, CANCEL = "&Any size", "Cancel"
TITLE = "Export bundle"


class Exporting(QObject):
    """Asks what a bundle is for where the model leaves sizes open, then where it goes."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._host = host
        self.trials = Trials(self, host.message)
        host.session.done.connect(self._done)

    def ask_bundle(self) -> None:
        """Have the user choose sizes, if there is a choice, and a file."""
        state = self._host.session.state
        model = state.model
        if model is None or model.generation is not None or not open_axes(state):
            self._ask_file(any_size=False)
            return
        dialogs.show(self._question(sizes_here(state)))

    def ask_report(self) -> None:
        """Have the user choose a file for the report."""
        run = self._host.session.run
        self._host.saver.ask_for_model(
            "Export report", "-report.html", lambda path: run(export_report(path))
        )

    def _question(self, here: str) -> QMessageBox:
        axes = most_varied(open_axes(self._host.session.state))
        left = ", ".join(dict.fromkeys(map(words_of, axes)))
        box = QMessageBox(self._host.window)
        box.setWindowTitle(f"{TITLE} — NNJIT Studio")
        box.setText(f"This model leaves open: {left}. Which sizes is the bundle for?")
        box.setInformativeText(
            "A bundle for any size has the settings that were compared at several sizes (Profile, "
            f"Sizes, Tune and measure). One for {here} has the kernels that are tuned here, and "
            "takes no other size."
        )
        box.addButton(QMessageBox.StandardButton.Cancel)
        one = box.addButton(f"&Only {here}", QMessageBox.ButtonRole.AcceptRole)
        every = box.addButton(ANY, QMessageBox.ButtonRole.AcceptRole)
        assert isinstance(one, QPushButton) and isinstance(every, QPushButton)
        one.clicked.connect(lambda: self._ask_file(any_size=False))
        every.clicked.connect(lambda: self._ask_file(any_size=True))
        box.setDefaultButton(every)
        return box

    def _ask_file(self, any_size: bool) -> None:
        job = export_any_size if any_size else export_bundle
        self._host.saver.ask_for_model(TITLE, ".nnjit.zip", lambda path: self._run(job(path)))

    def _run(self, job: Job) -> None:
        self._host.session.run(job)

    def _done(self, job: str, result: object) -> None:
        saver = self._host.saver
        if job == "report" and isinstance(result, Path):
            saver.tell_written(result)
        elif job == "export" and isinstance(result, Path):
            saver.tell_written(result, self.trials.steps(result))
        elif job == "export" and isinstance(result, AnySizeBundle):
            said = " ".join(("It takes any size.", *result.notes))
            saver.tell_written(result.path, self.trials.steps(result.path), said)
