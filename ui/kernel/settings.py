"""The settings of a candidate, each with a field of its own."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from PySide6.QtCore import QSignalBlocker, QTimer, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QLabel, QSpinBox, QWidget

from nnjit_studio.errors import UserError
from nnjit_studio.records.candidate import ORDERS
from nnjit_studio.records.gpu_candidate import VECTOR_WIDTHS, AnyCandidate, GpuCandidate
from nnjit_studio.records.gpu_candidate import parse_candidate as parse
from nnjit_studio.ui.dock.candidates import TILE_TIPS
from nnjit_studio.ui.widgets.panel import clear, hbox, inset, named

SETTLE_MS = 250
"""Fields rest that long before the candidate counts as changed."""
LARGEST = 1 << 20
Field = QSpinBox | QCheckBox | QComboBox
TIPS = TILE_TIPS | {
    "order": "order of the outer loops",
    "pack": "B is read from panels",
    "split": "parts of the reduction",
    "vec": "elements of a load",
}
SIZE_WIDTH, NARROW_WIDTH = 72, 50
"""Pixels of a field: five digits and its arrows, or three where there is no room."""
FOLLOWS = {"x0": "x1", "y0": "y1"}
"""A block as large as its tile grows with it: in the Wasm templates most are."""


class SizeBox(QSpinBox):
    """A size; its arrows double and halve, or go by whole vectors."""

    def __init__(self, name: str, doubles: bool) -> None:
        super().__init__(minimum=1, maximum=LARGEST)
        inset(self)
        self._doubles = doubles
        self.setSingleStep(4 if name in ("x0", "x1") else 1)
        self.setKeyboardTracking(False)
        self.setMaximumWidth(SIZE_WIDTH)
        self.setMinimumWidth(NARROW_WIDTH)

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
    """A row of fields for either kind of candidate."""

    changed = Signal(str)
    """The settings as text, once the fields rest."""
    refused = Signal(str)
    """Why they make no candidate."""

    def __init__(self) -> None:
        super().__init__()
        self._kind: type[AnyCandidate] | None = None
        self._before: AnyCandidate | None = None
        self.fields: dict[str, Field] = {}
        self._row = hbox(on=self, spacing=4)
        self._later = QTimer(self, interval=SETTLE_MS, singleShot=True)
        self._later.timeout.connect(self.tell)

    def show_candidate(self, candidate: AnyCandidate) -> None:
        """Fill the fields without a signal."""
        if type(candidate) is not self._kind:
            self._build(type(candidate))
        self._before = candidate
        for name, field in self.fields.items():
            with QSignalBlocker(field):
                _set(field, getattr(candidate, name))
        self._later.stop()

    def settings(self) -> str:
        """The fields as text, candidate or not."""
        return ",".join(f"{name}={_text(field)}" for name, field in self.fields.items())

    def tell(self) -> bool:
        """Emit what the fields are now, without waiting; False when that is no candidate."""
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

    def _build(self, kind: type[AnyCandidate]) -> None:
        clear(self._row)
        self._kind, self.fields = kind, {}
        for name in (field.name for field in fields(kind)):
            made = self.fields[name] = self._field(name, kind is GpuCandidate)
            named(made, f"Setting {name}", f"{TIPS[name]}, in elements")
            label = QLabel(name)
            label.setBuddy(made)
            label.setToolTip(TIPS[name])
            self._row.addWidget(label)
            self._row.addWidget(made)

    def _field(self, name: str, on_gpu: bool) -> Field:
        if name in ("order", "vec"):
            combo = QComboBox()
            combo.addItems([str(v) for v in (ORDERS if name == "order" else VECTOR_WIDTHS)])
            combo.currentTextChanged.connect(lambda _: self._later.start())
            return combo
        if name == "pack":
            check = QCheckBox()
            check.toggled.connect(lambda _: self._later.start())
            return check
        size = SizeBox(name, on_gpu)
        size.valueChanged.connect(lambda value: self._sized(name, value))
        return size

    def _sized(self, name: str, value: int) -> None:
        follower = None if self._kind is GpuCandidate else self.fields.get(FOLLOWS.get(name, ""))
        before = getattr(self._before, name, None)
        if isinstance(follower, QSpinBox) and follower.value() == before:
            follower.setValue(value)
        self._later.start()


def _set(field: Field, value: Any) -> None:
    if isinstance(field, QSpinBox):
        field.setValue(value)
    elif isinstance(field, QCheckBox):
        field.setChecked(value)
    else:
        field.setCurrentText(str(value))


def _text(field: Field) -> str:
    if isinstance(field, QSpinBox):
        return str(field.value())
    return str(int(field.isChecked())) if isinstance(field, QCheckBox) else field.currentText()
