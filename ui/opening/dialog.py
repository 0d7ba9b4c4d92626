"""The dialog that asks for the sizes and inputs of a file that leaves them open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QCheckBox, QDialog, QGridLayout, QLabel, QWidget

from nnjit_studio.errors import UserError
from nnjit_studio.model.survey import Survey
from nnjit_studio.ui.opening.answers import ARRAYS, Answers, guessed
from nnjit_studio.ui.opening.fields import NumberField
from nnjit_studio.ui.opening.sources import SourceChoice
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import quiet
from nnjit_studio.ui.widgets.panel import Panel, hbox, push_button, scaled_font, scrolled, vbox
from nnjit_studio.workbench.inputs import roles, values

WIDTH, HEIGHT = 760, 440
HEADS = ("input", "axis", "role", "open with", "allowed", "where it comes from")
ANY = float("inf")


class OpeningDialog(QDialog):
    """One field for every open axis and every input of one number; Enter opens, Escape does not.

    The arrays are made when the dialog is accepted, so what is wrong with a file is said here.
    """

    wanted = Signal(object, object)
    """``Answers, dict``: Open with these answers and the arrays that they give."""
    looked = Signal()
    """Nothing is to be opened; the raw graph stays."""

    def __init__(self, survey: Survey, last: Answers | None, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(f"Sizes and inputs of {survey.path.name}")
        self.setAcceptDrops(True)
        self._survey = survey
        first = last or guessed(survey)
        self.sizes: dict[str, NumberField] = {}
        self.constants: dict[str, NumberField] = {}
        self.source = SourceChoice(survey, first)
        self.expected = QLabel()
        self.problem = QLabel(wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        self.problem.setObjectName("bad")
        self.keeps = QCheckBox("Remember for this file")
        self.keeps.setChecked(True)
        self.open_button = push_button("Open and measure", "Open and measure", act=self.accept)
        self._build(first)
        self.open_button.setDefault(True)
        self.open_button.setObjectName("primary")
        self.resize(self._size(parent))
        self._count()
        if last is None:
            next(iter((*self.sizes.values(), *self.constants.values(), self.source))).setFocus()
        else:
            self.open_button.setFocus()

    def _build(self, first: Answers) -> None:
        page = Panel()
        parts: list[QWidget | None] = [_wrapped(sentence(self._survey))]
        axes, constants = roles.axes_of(self._survey), roles.constants_of(self._survey)
        if axes:
            parts += [_heading("Inputs and their open axes"), self._axes(axes, first.sizes)]
        if constants:
            parts += [_heading("Held constant"), self._constants(constants, first.constants)]
        parts += [_heading("What to feed it"), self.source, None]
        vbox(*parts, on=page, margins=(18, 14, 18, 10), spacing=8)
        self.source.changed.connect(self._count)
        defaults = push_button("Defaults", "Defaults", "The first values again", self._reset)
        look = push_button("Only look at the graph", "Only look at the graph", act=self._look)
        cancel = push_button("Cancel", "Cancel", act=self.reject)
        for button in (defaults, look, cancel):
            button.setAutoDefault(False)
        foot = Panel()
        vbox(
            self.problem,
            hbox((self.expected, 1), self.keeps),
            hbox(defaults, None, look, cancel, self.open_button, spacing=8),
            on=foot,
            margins=(18, 8, 18, 12),
            spacing=8,
        )
        self.problem.hide()
        vbox((scrolled(page), 1), foot, on=self)

    def _size(self, parent: QWidget) -> QSize:
        return QSize(WIDTH, HEIGHT).boundedTo(parent.size())

    def _axes(self, axes: tuple[roles.Axis, ...], first: Mapping[str, int]) -> QWidget:
        grid = _Grid(HEADS)
        for axis in axes:
            given = first.get(axis.name, axis.first)
            field = NumberField(_title(axis), given, (axis.low, axis.high), axis.why)
            field.edited.connect(self._count)
            self.sizes[axis.name] = field
            inputs = ", ".join(dict.fromkeys(name for name, _ in axis.places))
            allowed = quiet(QLabel(field.range_text))
            grid.add(inputs, axis.label, axis.role, field, allowed, field.note)
        return grid

    def _constants(
        self, constants: tuple[roles.Constant, ...], first: Mapping[str, float]
    ) -> QWidget:
        grid = _Grid(("input", "type", "value", "where it comes from"))
        for constant in constants:
            given = first.get(constant.name, constant.first)
            field = NumberField(constant.name, given, (-ANY, ANY), constant.why)
            field.edited.connect(self._count)
            self.constants[constant.name] = field
            grid.add(constant.name, f"{constant.dtype}, one number", field, field.note)
        return grid

    # What the user does

    @property
    def fields(self) -> tuple[NumberField, ...]:
        return (*self.sizes.values(), *self.constants.values())

    def answers(self) -> Answers:
        """What the fields say; all of them are valid."""
        sizes = {name: int(field.number or 0) for name, field in self.sizes.items()}
        constants = {name: field.number or 0.0 for name, field in self.constants.items()}
        return self.source.answers(Answers(sizes, constants))

    def accept(self) -> None:
        """Open, or show what is wrong."""
        wrong = next((field for field in self.fields if field.problem), None)
        if wrong is not None:
            wrong.setFocus()
            self._say(wrong.problem)
            return
        if self.source.problem:
            self._say(self.source.problem)
            return
        answers = self.answers()
        try:
            arrays = answers.arrays(self._survey)
        except UserError as error:
            self._say(str(error))
            return
        self.wanted.emit(answers, arrays)
        super().accept()

    def _reset(self) -> None:
        first = guessed(self._survey)
        for name, field in self.sizes.items():
            field.show_number(first.sizes[name])
        for name, field in self.constants.items():
            field.show_number(first.constants[name])

    def _look(self) -> None:
        self.looked.emit()
        super().reject()

    def _say(self, sentence: str) -> None:
        self.problem.setText(sentence)
        self.problem.show()

    def _count(self) -> None:
        """The memory of inputs and weights at these sizes."""
        self.problem.hide()
        if self.source.chosen == ARRAYS and self.source.arrays.path is not None:
            self._take_sizes(self.source.arrays.path)
        wrong = [field for field in self.fields if field.problem]
        if wrong:
            self.expected.setText("")
            return
        sizes = {name: int(field.number or 0) for name, field in self.sizes.items()}
        count = len(self._survey.inputs)
        total = text.nbytes(values.nbytes(self._survey, sizes))
        weights = text.nbytes(self._survey.nbytes)
        self.expected.setText(f"{count} input{'s' * (count > 1)}, {total}; {weights} weights")

    def _take_sizes(self, path: Path) -> None:
        try:
            found = values.sizes_of(values.read_npz(path, self._survey), self._survey)
        except UserError as error:
            self._say(str(error))
            return
        for name, size in found.items():
            if self.sizes[name].number != size:
                self.sizes[name].show_number(size)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        event.acceptProposedAction()
        files = [Path(url.toLocalFile()) for url in event.mimeData().urls() if url.isLocalFile()]
        if len(files) != 1 or not self.source.take_file(files[0]):
            self._say("Drop one picture or one .npz file that the model's inputs can take.")


class _Grid(QWidget):
    """Rows of labels and fields below muted heads."""

    def __init__(self, heads: tuple[str, ...]) -> None:
        super().__init__()
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(14)
        self._grid.setVerticalSpacing(6)
        self._grid.setColumnStretch(len(heads) - 1, 1)
        self.add(*(quiet(QLabel(head)) for head in heads))

    def add(self, *cells: str | QWidget) -> None:
        row = self._grid.rowCount()
        for column, cell in enumerate(cells):
            self._grid.addWidget(QLabel(cell) if isinstance(cell, str) else cell, row, column)


def sentence(survey: Survey) -> str:
    """What the model takes, in words."""
    kinds = list(dict.fromkeys(roles.kind_of(p) for p in survey.inputs if not p.is_number))
    axes = roles.axes_of(survey)
    takes = {
        roles.PICTURE: "pictures", roles.SOUND: "sound", roles.TEXTS: "token ids",
        roles.OTHER: "numbers",
    }  # fmt: skip
    what = takes[kinds[0]] if kinds else "numbers"
    if not axes:
        return f"This model takes {what}. One input is a number that chooses; say which."
    known = [axis.role for axis in axes if axis.role != roles.BATCH]
    if not known:
        return (
            f"This model takes {what} in batches of any size. Say for which it is opened and "
            "measured."
        )
    return (
        f"This model takes {what} of any {_listed(known)}. "
        "Say for which sizes it is opened and measured."
    )


def _listed(roles_of_axes: Sequence[str]) -> str:
    """Roles as a list in words, each once."""
    words = {roles.SAMPLES: "length", roles.FREE: "size"}
    *rest, last = dict.fromkeys(words.get(role, role) for role in roles_of_axes)
    return f"{', '.join(rest)} and {last}" if rest else last


def _title(axis: roles.Axis) -> str:
    port, place = axis.places[0]
    return (
        f"{axis.role.capitalize()} of {port}"
        if axis.role != roles.FREE
        else f"Axis {place} of {port}"
    )


def _heading(words: str) -> QLabel:
    label = QLabel(words)
    label.setFont(scaled_font(label.font(), 1.0, bold=True))
    return label


def _wrapped(words: str) -> QLabel:
    return QLabel(words, wordWrap=True)
