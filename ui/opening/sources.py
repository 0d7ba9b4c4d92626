"""The choice of what a model is fed with: random numbers, a picture, a text, or arrays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QPixmap
from PySide6.QtWidgets import QLabel, QLineEdit, QStackedWidget, QWidget

from nnjit_studio.errors import UserError
from nnjit_studio.model.survey import Survey
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.opening.answers import ARRAYS, PICTURE, RANDOM, TEXT, Answers
from nnjit_studio.ui.opening.pictures import FITS, SCALES, read_picture
from nnjit_studio.ui.widgets.labels import ElidedLabel, quiet
from nnjit_studio.ui.widgets.panel import chooser, hbox, named, push_button, vbox
from nnjit_studio.workbench.inputs import roles
from nnjit_studio.workbench.inputs.texts import TOKENIZER, tokenizer_beside

WORDS = {
    RANDOM: "Random numbers, seed 0", PICTURE: "Picture", TEXT: "Text", ARRAYS: "Arrays from .npz",
}  # fmt: skip
PICTURES = ("Picture", "Pictures (*.png *.jpg *.jpeg *.webp *.bmp)")
NPZ = ("Arrays", "NumPy arrays (*.npz)")
PREVIEW = (180, 90)
_KEEP = Qt.AspectRatioMode.KeepAspectRatio


class FileChoice(QWidget):
    """A path with a button that asks for another one."""

    chosen = Signal()

    def __init__(self, kind: tuple[str, str], folder: Path) -> None:
        super().__init__()
        self.path: Path | None = None
        self._kind, self._folder = kind, folder
        self.label = ElidedLabel("no file yet")
        self.button = push_button("Choose…", f"Choose: {kind[0].lower()}", act=self._ask)
        self.button.setAutoDefault(False)  # Enter opens the model, wherever the focus is
        hbox((self.label, 1), self.button, on=self)

    def take(self, path: Path) -> None:
        self.path = path
        self.label.setText(path.name)
        self.label.tip = str(path)
        self.chosen.emit()

    def _ask(self) -> None:
        folder = self.path.parent if self.path is not None else self._folder
        dialogs.ask_file(self.window(), self._kind, folder, self.take)


class SourceChoice(QWidget):
    """Offers what the inputs can take; says why not where one cannot be had."""

    changed = Signal()

    def __init__(self, survey: Survey, answers: Answers) -> None:
        super().__init__()
        kinds = {roles.kind_of(p) for p in survey.inputs if not p.is_number}
        self._tokenizer = tokenizer_beside(survey.path)
        self.offered = [
            source
            for source, there in (
                (RANDOM, True),
                (PICTURE, roles.PICTURE in kinds),
                (TEXT, roles.TEXTS in kinds and self._tokenizer is not None),
                (ARRAYS, True),
            )
            if there
        ]
        self.source = chooser("What to feed the model", "", [WORDS[s] for s in self.offered])
        self.hint = quiet(QLabel(wordWrap=True))
        if roles.TEXTS in kinds and roles.PICTURE not in kinds and self._tokenizer is None:
            self.hint.setText(f"Text needs a {TOKENIZER} beside the model.")
        self.picture = FileChoice(PICTURES, survey.path.parent)
        self.arrays = FileChoice(NPZ, survey.path.parent)
        self.fit = chooser("Fit of the picture", "", FITS)
        self.scale = chooser("Values of the picture", "", SCALES)
        self.text = named(QLineEdit(answers.text), "Text")
        self.preview = QLabel()
        self._pages = QStackedWidget()
        self._page_of = {s: self._pages.addWidget(self._page(s)) for s in self.offered}
        vbox(hbox(self.source, (self.hint, 1)), self._pages, on=self, spacing=6)
        self._show(answers)
        self.source.currentIndexChanged.connect(lambda _: self._turn())
        for file in (self.picture, self.arrays):
            file.chosen.connect(self._taken)
        self._turn()

    @property
    def chosen(self) -> str:
        return self.offered[self.source.currentIndex()]

    @property
    def problem(self) -> str:
        """One sentence, empty where all is well."""
        file = {PICTURE: self.picture, ARRAYS: self.arrays}.get(self.chosen)
        return "Choose a file, or random numbers." if file is not None and not file.path else ""

    def answers(self, others: Answers) -> Answers:
        """The same answers with what is chosen here."""
        file = {PICTURE: self.picture.path, ARRAYS: self.arrays.path}.get(self.chosen)
        return replace(
            others,
            source=self.chosen,
            file=str(file or ""),
            text=self.text.text(),
            fit=self.fit.currentText(),
            scale=self.scale.currentText(),
        )

    def take_file(self, path: Path) -> bool:
        """Feed a file that was dropped; False where no input takes such."""
        source = ARRAYS if path.suffix.lower() == ".npz" else PICTURE
        if source not in self.offered:
            return False
        self.source.setCurrentIndex(self.offered.index(source))
        (self.arrays if source == ARRAYS else self.picture).take(path)
        return True

    def _page(self, source: str) -> QWidget:
        page = QWidget()
        if source == PICTURE:
            options = hbox(QLabel("Fit"), self.fit, QLabel("Values"), self.scale, None)
            vbox(hbox(self.preview, (self.picture, 1)), options, on=page, spacing=6)
        elif source == TEXT:
            hbox((self.text, 1), on=page)
        elif source == ARRAYS:
            hbox((self.arrays, 1), on=page)
        return page

    def _show(self, answers: Answers) -> None:
        for combo, text in ((self.fit, answers.fit), (self.scale, answers.scale)):
            combo.setCurrentIndex(max(combo.findText(text), 0))
        if answers.file and Path(answers.file).is_file():
            self.take_file(Path(answers.file))
        elif answers.source == TEXT and TEXT in self.offered:
            self.source.setCurrentIndex(self.offered.index(TEXT))

    def _taken(self) -> None:
        if self.chosen == PICTURE and self.picture.path is not None:
            try:
                image = read_picture(self.picture.path)
                self.preview.setPixmap(QPixmap.fromImage(image).scaled(*PREVIEW, _KEEP))
                self.hint.setText(f"{image.width()} by {image.height()} pixels")
            except UserError as error:
                self.preview.clear()
                self.hint.setText(str(error))
        self.changed.emit()

    def _turn(self) -> None:
        self._pages.setCurrentIndex(self._page_of[self.chosen])
        self._pages.setVisible(self.chosen != RANDOM)
        self.changed.emit()
