"""Actions of the window as data, and the menus that are made of them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar, QWidget

from nnjit_studio.ui.widgets.panel import named

MENUS = ("&File", "&Edit", "&Tune", "&Inspect", "&View", "&Help")


@dataclass(frozen=True)
class ActionSpec:
    """One action: it feeds a menu, a shortcut, the palette and the table of commands."""

    id: str
    menu: str
    text: str
    shortcut: str = ""
    needs: str = ""
    """When it is possible: ``idle``, ``model`` (and idle), ``tuning`` (running or paused),
    ``busy`` (or paused), or always if empty."""
    tip: str = ""
    command: str = ""
    """The command line that does the same, with ``MODEL`` for the model's path."""
    place: int = 0
    """Of the action in its menu: lower numbers come first, equal ones in the order given."""


def ordered(specs: Iterable[ActionSpec]) -> tuple[ActionSpec, ...]:
    """Actions in the order in which the menus show them."""
    return tuple(sorted(specs, key=lambda spec: (MENUS.index(spec.menu), spec.place)))


def command_line(action: QAction, model: Path | None) -> str:
    """The command line that does the same as an action, empty where none does."""
    command = str(action.data() or "")
    return command.replace("MODEL", shlex.quote(str(model))) if model else command


def build(
    window: QWidget, bar: QMenuBar, specs: Iterable[ActionSpec]
) -> tuple[dict[str, QAction], dict[str, QMenu]]:
    """Make every action and place it; returns them by id, and the menus by title."""
    actions: dict[str, QAction] = {}
    menus: dict[str, QMenu] = {}
    for spec in specs:
        if spec.menu not in menus:
            menus[spec.menu] = named(bar.addMenu(spec.menu), spec.menu.replace("&", ""))
        action = actions[spec.id] = QAction(spec.text, window)
        action.setObjectName(spec.id)
        action.setData(spec.command)
        action.setShortcut(QKeySequence(spec.shortcut))
        plain = spec.tip or spec.text.replace("&", "")
        action.setToolTip(f"{plain} ({spec.shortcut})" if spec.shortcut else plain)
        menus[spec.menu].addAction(action)
    return actions, menus


def connect(actions: Mapping[str, QAction], handlers: Mapping[str, Callable[[], object]]) -> None:
    """Have each action call its handler.

    Raises
    ------
    KeyError
        When an action has none.
    """
    for name, action in actions.items():
        handler = handlers[name]
        action.triggered.connect(lambda _=False, handler=handler: handler())


def enable(
    actions: Mapping[str, QAction],
    specs: Iterable[ActionSpec],
    job: str,
    has_model: bool,
    paused: bool,
) -> None:
    """Make possible what is possible now, while ``job`` runs and a session waits or not."""
    able = {
        "": True,
        "idle": not job,
        "model": has_model and not job,
        "tuning": job == "tune" or (paused and not job),
        "busy": bool(job) or paused,
    }
    actions["pause"].setText("&Resume" if paused and not job else "&Pause")
    for spec in specs:
        actions[spec.id].setEnabled(able[spec.needs])
