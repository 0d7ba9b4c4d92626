"""One input in the editor: where its values come from, and the fields that this needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QLabel, QLineEdit, QStackedWidget, QWidget

from nnjit_studio.errors import UserError
from nnjit_studio.model.survey import InputPort
from nnjit_studio.ui.opening.answers import Answers
from nnjit_studio.ui.opening.fields import NumberField
from nnjit_studio.ui.opening.pictures import as_input, read_picture
from nnjit_studio.ui.opening.sources import PICTURES, FileChoice
from nnjit_studio.ui.widgets.labels import quiet
from nnjit_studio.ui.widgets.panel import chooser, hbox, named
from nnjit_studio.workbench.inputs import edited, roles, texts

KEEP, RANDOM, NUMBER, ARRAY, PICTURE, TEXT = (
    "what it has now", "random numbers", "one number", "array, .npy or .npz", "picture", "text",
)  # fmt: skip
FILES = ("Array", "NumPy arrays (*.npy *.npz)")
MOST_SEED, MOST = 2**31 - 1, 1e30


class Feeding(QObject):
    """The chooser of an input's source, and the field or file that belongs to it."""

    changed = Signal()

    def __init__(self, port: InputPort, model: Path, tokenizer: Path | None) -> None:
        super().__init__()
        self.port, self._tokenizer = port, tokenizer
        kind = roles.kind_of(port)
        self.offered = [KEEP, RANDOM, NUMBER, ARRAY]
        self.offered += [PICTURE] if kind == roles.PICTURE else []
        self.offered += [TEXT] if kind == roles.TEXTS and tokenizer is not None else []
        self.source = chooser(f"What {port.name} is fed with", "", self.offered)
        whole = not port.dtype.startswith("float")
        self.seed = NumberField(f"Seed of {port.name}", 0, (0, MOST_SEED), "")
        self.number = NumberField(f"Number of {port.name}", 1, (-MOST, MOST), "", whole)
        self.picture = FileChoice(PICTURES, model.parent)
        self.file = FileChoice(FILES, model.parent)
        self.text = named(QLineEdit(Answers().text), f"Text of {port.name}")
        self.values = QStackedWidget()
        self._pages = {
            KEEP: QWidget(), RANDOM: _line("seed", self.seed), NUMBER: _line("", self.number),
            ARRAY: self.file, PICTURE: self.picture, TEXT: self.text,
        }  # fmt: skip
        for page in self._pages.values():
            self.values.addWidget(page)
        self.source.currentTextChanged.connect(lambda _: self._turn())
        self.file.chosen.connect(self.changed)
        self.picture.chosen.connect(self.changed)

    @property
    def chosen(self) -> str:
        return self.source.currentText()

    @property
    def is_picture(self) -> bool:
        return self.chosen == PICTURE

    def take_file(self, path: Path) -> bool:
        """Feed a file that was dropped; False where this input takes no such."""
        arrays = path.suffix.lower() in (".npy", ".npz")
        wanted = ARRAY if arrays else PICTURE
        if wanted not in self.offered:
            return False
        self.source.setCurrentText(wanted)
        (self.file if arrays else self.picture).take(path)
        return True

    def array(self, now: Mapping[str, edited.Array], fit: str, scale: str) -> edited.Array:
        """The values.

        Raises
        ------
        UserError
            When a field or a file has none that fit.
        """
        port = self.port
        if self.chosen == RANDOM:
            return edited.random(port, int(_given(self.seed)))
        if self.chosen == NUMBER:
            return edited.filled(port, _given(self.number))
        if self.chosen == TEXT and self._tokenizer is not None:
            ids = texts.token_ids(self._tokenizer, self.text.text())
            return texts.text_row(port, {}, ids)
        if self.chosen == PICTURE:
            image = read_picture(_path(self.picture, port))
            return edited.fitting(as_input(image, port, {}, fit, scale), port)
        if self.chosen == ARRAY:
            return edited.from_file(_path(self.file, port), port)
        return now[port.name]

    def _turn(self) -> None:
        self.values.setCurrentWidget(self._pages[self.chosen])
        self.changed.emit()


def _line(word: str, field: NumberField) -> QWidget:
    page = QWidget()
    hbox(*([quiet(QLabel(word))] if word else []), field, None, on=page)
    return page


def _given(field: NumberField) -> float:
    if field.number is None:
        raise UserError(field.problem)
    return field.number


def _path(file: FileChoice, port: InputPort) -> Path:
    if file.path is None:
        raise UserError(f"{port.name} has no file yet.", "Choose one.")
    return file.path
