"""The settings of the window: one description feeds dialog, storage and session files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QSettings
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QFormLayout,
    QLabel,
    QLineEdit,
    QSpinBox,
    QWidget,
)

from nnjit_studio.errors import UserError
from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.state.jobs import running
from nnjit_studio.ui.widgets.panel import inset, named
from nnjit_studio.ui.window.backend_choice import CHOICES, BackendChoice

ORGANIZATION, APPLICATION = "NNJIT Studio", "nnjit-studio"


@dataclass(frozen=True)
class Preference:
    """One setting: a choice, a number from ``low`` to ``high``, or a text.

    ``none`` is the meaning of 0 or of an empty text, in words.

    ``later``: it holds from the next start on; ``option`` is the flag of the command line that
    goes before it.
    """

    key: str
    label: str
    default: str | int | float
    tip: str
    choices: tuple[str, ...] = ()
    low: float = 0
    high: float = 0
    unit: str = ""
    none: str = ""
    later: bool = False
    option: str = ""


SETTINGS = (
    Preference("theme", "Theme", "system", "Colours of the window",
               choices=("system", "light", "dark")),
    Preference("backend", "Backend", CHOICES[0][0], "What runs the kernels",
               choices=tuple(text for text, _, _ in CHOICES), option="--backend"),
    Preference("threads", "Threads", 1,
               "Threads of a kernel, in Wasm alone; on WebGPU for a fallback only",
               low=1, high=64, later=True, option="--threads"),
    Preference("budget_s", "Tuning budget", 0.0,
               "Seconds that a session may take; 0: until nothing more is expected",
               high=86_400, unit=" s", none="until nothing more is expected", option="--tune"),
    Preference("database", "Kernel database", "", "The file; empty: in the user's data folder",
               none="in the user's data folder", later=True, option="--database"),
)  # fmt: skip
BY_KEY = {setting.key: setting for setting in SETTINGS}


def checked(key: str, value: Any) -> str | int | float:
    """A value of a setting in its type.

    Raises
    ------
    UserError
        When there is no such setting, or it cannot have this value.
    """
    setting = BY_KEY.get(key)
    if setting is None:
        raise UserError(f"There is no setting {key!r}.", f"Settings are {', '.join(BY_KEY)}.")
    try:
        if isinstance(setting.default, str):
            right = isinstance(value, str) and (not setting.choices or value in setting.choices)
        else:
            value = type(setting.default)(value)
            right = setting.low <= value <= setting.high
    except (TypeError, ValueError):
        right = False
    if not right:
        allowed = ", ".join(setting.choices) or f"{setting.low:g} to {setting.high:g}"
        raise UserError(f"{setting.label} cannot be {value!r}.", f"It is one of: {allowed}.")
    return value  # type: ignore[no-any-return]


def read(settings: QSettings) -> dict[str, str | int | float]:
    """Every setting; a stored value that is not valid counts as not set."""
    found = {}
    for setting in SETTINGS:
        try:
            found[setting.key] = checked(setting.key, settings.value(setting.key, setting.default))
        except UserError:
            found[setting.key] = setting.default
    return found


def stored() -> dict[str, str | int | float]:
    """The user's own settings, before there is a window."""
    return read(QSettings(ORGANIZATION, APPLICATION))


class PreferencesDialog(QDialog):
    """A field for each setting; ``apply`` gets those that were changed."""

    def __init__(
        self,
        parent: QWidget,
        values: Mapping[str, Any],
        apply: Callable[[Mapping[str, Any]], object],
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Settings")
        self._before, self._apply = dict(values), apply
        form = QFormLayout(self)
        self.fields = {}
        for setting in SETTINGS:
            field = named(_field(setting, values[setting.key]), setting.label, setting.tip)
            self.fields[setting.key] = field
            form.addRow(f"{setting.label}{' *' if setting.later else ''}", field)
        note = QLabel("* from the next start on, unless the program is started with another value.")
        note.setObjectName("muted")
        form.addRow(note)
        buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel
        )
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        form.addRow(buttons)
        self.resize(460, 0)

    def values(self) -> dict[str, Any]:
        return {key: _value(field) for key, field in self.fields.items()}

    def accept(self) -> None:
        changed = {k: v for k, v in self.values().items() if v != self._before[k]}
        super().accept()
        self._apply(changed)


def _field(setting: Preference, value: Any) -> QWidget:
    if setting.choices:
        combo = QComboBox()
        combo.addItems(list(setting.choices))
        combo.setCurrentText(value)
        return combo
    if isinstance(setting.default, str):
        return QLineEdit(value, placeholderText=setting.none)
    spin: QSpinBox | QDoubleSpinBox
    if isinstance(setting.default, int):
        spin = inset(QSpinBox())
        spin.setRange(int(setting.low), int(setting.high))
    else:
        spin = inset(QDoubleSpinBox())
        spin.setRange(setting.low, setting.high)
    spin.setSuffix(setting.unit)
    spin.setSpecialValueText(setting.none)
    spin.setValue(value)
    return spin


def _value(field: QWidget) -> Any:
    if isinstance(field, QComboBox):
        return field.currentText()
    if isinstance(field, QSpinBox | QDoubleSpinBox):
        return field.value()
    assert isinstance(field, QLineEdit)
    return field.text().strip()


class SettingsControl:
    """Applies each setting: at once where that is possible, else from the next start on.

    ``budget_changed`` is called after another tuning budget was stored.
    """

    def __init__(
        self,
        host: Host,
        backend: BackendChoice,
        choose_theme: Callable[[str], object],
        budget_changed: Callable[[], object],
    ) -> None:
        self._host, self._backend = host, backend
        self._choose_theme, self._budget_changed = choose_theme, budget_changed

    def ask(self) -> None:
        """Show the settings and apply what the user changes."""
        values = read(self._host.settings)
        dialogs.show(PreferencesDialog(self._host.window, values, self.apply))

    def apply(self, changed: Mapping[str, Any]) -> None:
        """Apply values by the keys of their settings."""
        message = self._host.message
        for key, value in changed.items():
            if key == "theme":
                self._choose_theme(value)
            elif key == "backend":
                place = BY_KEY[key].choices.index(value)
                if not self._backend.choose(place):
                    what = running(self._host.session.busy)
                    message.say(f"{what}: stop it, then change the backend.")
            else:
                self._host.settings.setValue(key, value)
                self._budget_changed()
        later = [BY_KEY[k].label for k in changed if BY_KEY[k].later]
        if later:
            message.say(f"From the next start on: {', '.join(later)}.")
