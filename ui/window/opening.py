"""Opening models: from a dialog, the list of recent ones, a dropped file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject

from nnjit_studio.model.survey import Survey
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.files import recent
from nnjit_studio.ui.opening import answers as kept
from nnjit_studio.ui.opening import kept_inputs
from nnjit_studio.ui.opening.answers import RANDOM, Answers
from nnjit_studio.ui.opening.dialog import OpeningDialog
from nnjit_studio.ui.opening.progress import OpeningProgress
from nnjit_studio.ui.state.jobs import EXAMINE
from nnjit_studio.ui.window.in_the_way import InTheWay
from nnjit_studio.workbench.inputs import roles
from nnjit_studio.workbench.inputs.values import Arrays

KEPT = (
    "The model runs on the inputs that you gave this file last time. If you forget them, the next "
    "opening draws numbers."
)


class ModelOpener(QObject):
    """Opens models, and says why where one cannot be opened.

    ``asks`` is false for a script: what its command line left open is an error there.
    """

    def __init__(self, host: Host, way: InTheWay) -> None:
        super().__init__(host)
        self._host, self._way = host, way
        self.asks = True
        self.dialog: OpeningDialog | None = None
        self.progress = OpeningProgress(host.session)
        self._survey: Survey | None = None
        self._answers: Answers | None = None
        self._gave = ""
        host.session.surveyed.connect(self._surveyed)
        host.session.asked.connect(self._ask_sizes)
        host.session.done.connect(self._done)

    def ask(self) -> None:
        """Have the user choose a model."""
        dialogs.ask_file(self._host.window, dialogs.MODELS, self._host.saver.folder, self.open)

    def open(self, path: Path) -> bool:
        """Open a model unless something is wrong with the path or the session is busy."""

        def answer(survey: Survey) -> Arrays | None:
            return None if self._has_questions(survey) else self._kept(survey, {})

        return self._open(path, answer)

    def reopen(self, path: Path) -> bool:
        """The same with the sizes of last time, where there are any."""

        def answer(survey: Survey) -> Arrays | None:
            last = kept.remembered(self._host.settings, survey)
            if last is None or not self._has_questions(survey):
                return None if self._has_questions(survey) else self._kept(survey, {})
            arrays = last.arrays(survey)
            return self._kept(survey, arrays) if last.source == RANDOM else arrays

        return self._open(path, answer)

    def _open(self, path: Path, answer: Callable[[Survey], Arrays | None]) -> bool:
        session, refuse = self._host.session, self._host.refuse_file
        if session.after(EXAMINE, lambda: self._open(path, answer)):
            return True
        if path.suffix.lower() != ".onnx":
            refuse(f"{path.name} is not an ONNX model: give a file that ends in .onnx.")
        elif not os.path.isfile(path):
            refuse(f"There is no {path.name} in {path.parent}: choose another model.")
        elif session.busy:
            self._way.offer(f"open {path.name}", lambda: self._open(path, answer))
        else:
            self._close_dialog()
            return session.open(path, answer)
        return False

    def _has_questions(self, survey: Survey) -> bool:
        given = self._host.session.workbench.page.importing.shapes
        settled = not self.asks or given.dims or given.shapes
        ranks = any(port.dims is None for port in survey.inputs)
        return not settled and bool(survey.open_dims or roles.constants_of(survey) or ranks)

    def _surveyed(self, survey: Survey) -> None:
        self._survey = survey
        self._answers = kept.remembered(self._host.settings, survey)
        self.progress.expect(survey, self._answers.seconds if self._answers else 0.0)

    def _ask_sizes(self, survey: Survey) -> None:
        last = kept.remembered(self._host.settings, survey)
        self.dialog = dialog = OpeningDialog(survey, last, self._host.window)
        dialog.wanted.connect(lambda answers, arrays: self._start(survey, answers, arrays))
        dialog.looked.connect(self._forget)
        dialog.rejected.connect(self._abandon)
        dialogs.show(dialog)

    def _start(self, survey: Survey, answers: Answers, arrays: Arrays) -> None:
        keeps = self.dialog is not None and self.dialog.keeps.isChecked()
        self._forget()
        if keeps:
            kept.remember(self._host.settings, survey, answers)
        self._answers = answers
        drawn = answers.source == RANDOM
        self._open(survey.path, lambda _: self._kept(survey, arrays) if drawn else arrays)

    def _kept(self, survey: Survey, arrays: Arrays) -> Arrays:
        """The inputs that a user gave this file last in place of drawn ones of the same sizes."""
        found = kept_inputs.kept(survey) if self.asks else None
        shapes = {name: array.shape for name, array in arrays.items()}
        fits = found is not None and (
            not arrays or shapes == {name: array.shape for name, array in found.items()}
        )
        self._gave = survey.sha256 if fits else ""
        return found if found is not None and fits else arrays

    def _forget(self) -> None:
        self.dialog = None

    def _abandon(self) -> None:
        """Escape: back to what was open."""
        if self.dialog is not None:
            self.dialog = None
            self._host.session.abandoned.emit()

    def _close_dialog(self) -> None:
        if self.dialog is not None:
            self.dialog.reject()

    def _done(self, job: str, _: object) -> None:
        model = self._host.session.state.model
        if job == "open" and model is not None:
            recent.remember(self._host.settings, model.path)
            self._host.window.setWindowTitle(f"{model.path.name} - NNJIT Studio")
            self._host.message.hide()
            self._time(self.progress.seconds)
            self._tell_kept()

    def _tell_kept(self) -> None:
        """Say that the inputs are those of last time, with a way to be rid of them."""
        gave, self._gave = self._gave, ""
        if gave:
            feed = self._host.actions["feed"].trigger
            forget = partial(kept_inputs.forget, gave)
            self._host.message.say(KEPT, steps=[("Inputs…", feed), ("Forget them", forget)])

    def _time(self, seconds: float) -> None:
        """Keep how long the import took, to tell it next time."""
        survey, settings = self._survey, self._host.settings
        if survey is None:
            return
        last = kept.remembered(settings, survey)
        if last is None and not self._has_questions(survey):
            last = Answers()
        if last is not None:
            kept.remember(settings, survey, replace(last, seconds=seconds))
