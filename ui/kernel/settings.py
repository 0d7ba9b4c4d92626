"""The settings of a candidate, each with a field of its own."""

from __future__ import annotations

from dataclasses import fields

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QHBoxLayout, QLabel, QSpinBox, QWidget

from nnjit_studio.errors import UserError
from nnjit_studio.records.candidate import ORDERS
from nnjit_studio.records.gpu_candidate import VECTOR_WIDTHS, AnyCandidate, GpuCandidate
from nnjit_studio.records.gpu_candidate import parse_candidate as parse
from nnjit_studio.ui.tuning.space import TILE_TIPS
from nnjit_studio.ui.widgets.theme import named

SETTLE_MS = 250
"""Fields rest that long before the candidate counts as changed."""
LARGEST = 1 << 20
TIPS = TILE_TIPS | {
    "order": "order of the outer loops",
    "pack": "B is read from panels",
    "split": "parts of the reduction",
    "vec": "elements of a load",
}
FOLLOWS = {"x0": "x1", "y0": "y1"}
"""A block as large as its tile grows with it: in the Wasm templates most are."""


class SizeBox(QSpinBox):
    """A size; its arrows double and halve, or go by whole vectors."""

    def __init__(self, name: str, doubles: bool) -> None:
        super().__init__(minimum=1, maximum=LARGEST)
        self._doubles = doubles
        self.setSingleStep(4 if name in ("x0", "x1") else 1)
        self.setKeyboardTracking(False)

    def stepBy(self, steps: int) -> None:
        if not self._doubles:
            step = self.singleStep()
            down = self.value() // step * step
            self.setValue(max(1, down + steps * step))
        elif steps > 0:
            self.setValue(self.value() << steps)
        else:
            self.setValue(max(1, self.value() >> -steps))


class SettingsEditor(QWidget):
    """A row of fields for either kind of candidate.

    Signals
    -------
    changed(str)
        The settings as text, once the fields rest.
    refused(str)
        Why they make no candidate.
    """

    changed = Signal(str)
    refused = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._kind: type | None = None
        self._before: AnyCandidate | None = None
        self.fields: dict[str, QWidget] = {}
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(4)
        self._later = QTimer(self, interval=SETTLE_MS, singleShot=True)
        self._later.timeout.connect(self.tell)

    def show_candidate(self, candidate: AnyCandidate) -> None:
        """Fill the fields; says nothing."""
        if type(candidate) is not self._kind:
            self._build(type(candidate))
        self._before = candidate
        for name, field in self.fields.items():
            field.blockSignals(True)
            value = getattr(candidate, name)
            if isinstance(field, QSpinBox):
                field.setValue(value)
            elif isinstance(field, QCheckBox):
                field.setChecked(value)
            else:
                field.setCurrentText(str(value))
            field.blockSignals(False)
        self._later.stop()

    def settings(self) -> str:
        """What the fields say, candidate or not."""
        parts = []
        for name, field in self.fields.items():
            if isinstance(field, QSpinBox):
                value = str(field.value())
            elif isinstance(field, QCheckBox):
                value = str(int(field.isChecked()))
            else:
                value = field.currentText()
            parts.append(f"{name}={value}")
        return ",".join(parts)

    def tell(self) -> bool:
        """Say what the fields are now, without waiting; False when that is no candidate."""
        self._later.stop()
        try:
            candidate = parse(self.settings())
        except UserError as error:
            self.refused.emit(str(error))
            return False
        if candidate != self._before:
            self._before = candidate
            self.changed.emit(str(candidate))
        return True

    def _build(self, kind: type) -> None:
        while self._row.count():
            widget = self._row.takeAt(0).widget()
            if widget is not None:
                widget.deleteLater()
        self._kind, self.fields = kind, {}
        for field in fields(kind):
            name, tip = field.name, TIPS[field.name]
            made: QWidget
            if name in ("order", "vec"):
                made = QComboBox()
                made.addItems([str(v) for v in (ORDERS if name == "order" else VECTOR_WIDTHS)])
                made.currentTextChanged.connect(self._later.start)
            elif name == "pack":
                made = QCheckBox()
                made.toggled.connect(self._later.start)
            else:
                made = SizeBox(name, kind is GpuCandidate)
                made.valueChanged.connect(lambda value, name=name: self._sized(name, value))
            label = QLabel(name)
            label.setBuddy(made)
            label.setToolTip(tip)
            self.fields[name] = named(made, f"Setting {name}", f"{tip}, in elements")
            self._row.addWidget(label)
            self._row.addWidget(made)

    def _sized(self, name: str, value: int) -> None:
        follower = FOLLOWS.get(name)
        if follower and self._kind is not GpuCandidate and self._before is not None:
            field = self.fields[follower]
            if field.value() == getattr(self._before, name):
                field.setValue(value)
        self._later.start()
