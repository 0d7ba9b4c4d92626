"""The editor of inputs: what each input of the open model is fed with from now on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QDialog, QGridLayout, QLabel, QWidget

from nnjit_studio.errors import UserError
from nnjit_studio.model.survey import InputPort
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.commands.job_steps import JobSteps
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.opening import kept_inputs
from nnjit_studio.ui.opening.feeding import Feeding
from nnjit_studio.ui.opening.pictures import FITS, SCALES
from nnjit_studio.ui.state.jobs import Job
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import quiet
from nnjit_studio.ui.widgets.panel import (
    Panel,
    chooser,
    hbox,
    push_button,
    scrolled,
    vbox,
)
from nnjit_studio.workbench import Workbench, jobs
from nnjit_studio.workbench.inputs.edited import Array, described, port_of
from nnjit_studio.workbench.inputs.texts import tokenizer_beside
from nnjit_studio.workbench.inputs.values import Arrays

FEED = "feed"
"""Name of the job, and of the action that opens the editor."""
WIDTH, HEIGHT, ROW = 820, 210, 36
HEADS = ("input", "shape and type", "fed with", "", "its values now")
SAYS = "Profile, comparison, numerical diff, advice and bundles take these inputs from now on."


class InputEditor(QDialog):
    """One row for each input; nothing counts before *Use these inputs*.

    ``sha256`` is of the file, for which inputs are kept; empty where none are.
    """

    wanted = Signal(object)
    """``dict``: Arrays of all inputs."""

    def __init__(
        self, model: Path, ports: Sequence[InputPort], now: Mapping[str, Array], parent: QWidget,
        sha256: str = "",
    ) -> None:  # fmt: skip
        super().__init__(parent)
        self._sha256 = sha256
        self.setWindowTitle(f"Inputs of {model.name}")
        self.setAcceptDrops(True)
        self._now = now
        self.rows = {p.name: Feeding(p, model, tokenizer_beside(model)) for p in ports}
        self.fit = chooser("Fit of the picture", "", FITS)
        self.scale = chooser("Values of the picture", "", SCALES)
        self.problem = QLabel(wordWrap=True)
        self.problem.setObjectName("bad")
        self.problem.hide()
        self.use_button = push_button("Use these inputs", "Use these inputs", act=self.accept)
        self.use_button.setObjectName("primary")
        self.use_button.setDefault(True)
        self._pictures = QWidget()
        hbox(
            QLabel("Pictures:"), self.fit, QLabel("values"), self.scale, None,
            on=self._pictures, spacing=8,
        )  # fmt: skip
        self._build()
        self.resize(WIDTH, min(HEIGHT + ROW * len(self.rows), parent.height()))
        self._turn()

    def _build(self) -> None:
        page, foot, grid = Panel(), Panel(), QGridLayout()
        grid.setHorizontalSpacing(14)
        grid.setVerticalSpacing(8)
        grid.setColumnStretch(3, 1)
        for column, head in enumerate(HEADS):
            grid.addWidget(quiet(QLabel(head)), 0, column)
        for place, (name, row) in enumerate(self.rows.items(), start=1):
            shape = text.shape(tuple(int(d) for d in row.port.dims or ()))
            cells = (
                QLabel(name), quiet(QLabel(f"{shape} {row.port.dtype}")), row.source, row.values,
                quiet(QLabel(described(self._now[name]) if name in self._now else "")),
            )  # fmt: skip
            for column, cell in enumerate(cells):
                grid.addWidget(cell, place, column)
            row.changed.connect(self._turn)
        says = quiet(QLabel(SAYS, wordWrap=True))
        vbox(says, grid, self._pictures, None, on=page, margins=(18, 14, 18, 10), spacing=12)
        self.forget_button = push_button(
            "Forget kept inputs", "Forget kept inputs",
            "The next opening of this file draws numbers again", self._forget,
        )  # fmt: skip
        self.forget_button.setAutoDefault(False)
        self.forget_button.setVisible(kept_inputs.is_kept(self._sha256))
        cancel = push_button("Cancel", "Cancel", act=self.reject)
        cancel.setAutoDefault(False)
        vbox(
            self.problem, hbox(self.forget_button, None, cancel, self.use_button, spacing=8),
            on=foot, margins=(18, 8, 18, 12), spacing=8,
        )  # fmt: skip
        vbox((scrolled(page), 1), foot, on=self)

    def _forget(self) -> None:
        kept_inputs.forget(self._sha256)
        self.forget_button.hide()

    def accept(self) -> None:
        """Hand the arrays over, or say what is wrong."""
        try:
            arrays = {
                name: row.array(self._now, self.fit.currentText(), self.scale.currentText())
                for name, row in self.rows.items()
            }
        except UserError as error:
            self.problem.setText(str(error))
            self.problem.show()
            return
        self.wanted.emit(arrays)
        super().accept()

    def _turn(self) -> None:
        self.problem.hide()
        self._pictures.setVisible(any(row.is_picture for row in self.rows.values()))

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        event.acceptProposedAction()
        files = [Path(url.toLocalFile()) for url in event.mimeData().urls() if url.isLocalFile()]
        taken = [row.take_file(path) for path in files for row in self.rows.values()]
        if not any(taken):
            self.problem.setText("Drop a picture, a .npy or a .npz file that an input can take.")
            self.problem.show()


class InputEditing(QObject):
    """Opens the editor, and has the open model take what was chosen there."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._host = host
        self.dialog: InputEditor | None = None
        self._steps = JobSteps(FEED, host.session, host.history)
        host.session.done.connect(self._done)

    def ask(self) -> None:
        """Show the editor of the open model."""
        session = self._host.session
        model = session.state.model
        if model is None:
            return
        if model.generation is not None:
            self._host.message.say("A model that makes text takes its prompt in the dock Text.")
            return
        ports = [port_of(model.graph.tensors[name]) for name in model.graph.inputs]
        self.dialog = InputEditor(
            model.path, ports, dict(session.workbench.model.feeds), self._host.window, self._sha256
        )
        self.dialog.wanted.connect(self._feed)
        dialogs.show(self.dialog)

    @property
    def _sha256(self) -> str:
        """Of the open file; empty for a sample and for a file that advice made."""
        model, survey = self._host.session.state.model, self._host.session.state.survey
        same = model is not None and survey is not None and survey.path == model.path
        return survey.sha256 if survey is not None and same else ""

    def _feed(self, arrays: Arrays) -> None:
        """Take these inputs, and keep them; Ctrl+Z has those of before again."""
        sha256, before = self._sha256, dict(self._host.session.workbench.model.feeds)
        self._steps.do(
            "Took other inputs",
            partial(self._take, arrays, sha256, True),
            partial(self._take, before, sha256, kept_inputs.is_kept(sha256)),
        )

    def _take(self, arrays: Arrays, sha256: str, kept: bool) -> bool:
        def work(bench: Workbench) -> str:
            bench.run(jobs.feed, arrays)
            if sha256 and kept:
                return kept_inputs.keep(sha256, arrays)
            kept_inputs.forget(sha256)
            return ""

        return self._host.session.run(Job(FEED, "Taking other inputs", lambda b, _: work(b)))

    def _done(self, job: str, said: object) -> None:
        if job == "open":
            self._steps.forget()
        elif job == FEED and isinstance(said, str) and said:
            self._host.message.say(said)
