"""Actions of the window as data, and the menus that are made of them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar, QWidget

from nnjit_studio.ui.widgets.icons import icon
from nnjit_studio.ui.widgets.panel import named

MENUS = ("&File", "&Edit", "&Tune", "&Inspect", "&View", "&Help")
ICONS = {
    "open": "open", "sample": "sample", "export": "export", "report": "report",
    "open_session": "folder", "save_session": "save", "wasm": "chip", "quit": "quit",
    "import": "database", "undo": "undo", "redo": "redo", "settings": "settings", "tune": "play",
    "pause": "pause", "stop": "stop", "resume_last": "reset", "device": "device",
    "profile": "clock", "diff": "compare", "kernel": "chip", "faster": "bars", "text": "list",
    "find": "search", "fit": "fit", "split": "compare", "reset_layout": "layout",
    "palette": "search", "documentation": "book", "shortcuts": "keyboard", "about": "about",
}  # fmt: skip
"""Names of icons by the ids of actions; the others have none."""


NEED_IDLE = ("idle", "model", "tuned")
"""Of ``needs``: a running job is in the way of these."""


@dataclass(frozen=True)
class ActionSpec:
    """One action: it feeds a menu, a shortcut, the palette and the table of commands."""

    id: str
    menu: str
    text: str
    shortcut: str = ""
    needs: str = ""
    """When it is possible: ``idle``, ``model`` (and idle), ``tuning`` (running or paused),
    ``busy`` (or paused), ``tuned`` (a session of the open model has ended, and idle), ``undo``
    and ``redo`` (there is something), or always if empty."""
    tip: str = ""
    command: str = ""
    """The command line that does the same, with ``MODEL`` for the model's path."""
    place: int = 0
    """Of the action's group in its menu: lower numbers come first, and a line parts two groups."""


def ordered(specs: Iterable[ActionSpec]) -> tuple[ActionSpec, ...]:
    """Actions in the order in which the menus show them."""
    return tuple(sorted(specs, key=lambda spec: (MENUS.index(spec.menu), spec.place)))


def command_line(action: QAction, model: Path | None) -> str:
    """The command line that does the same as an action, empty where none does."""
    command = str(action.data() or "")
    return command.replace("MODEL", shlex.quote(str(model))) if model else command


def plain(text: str) -> str:
    """An action's text without its marks for menus."""
    return text.replace("&", "").rstrip("…")


def tip_of(spec: ActionSpec) -> str:
    """What it does, and its keys."""
    words = spec.tip or spec.text.replace("&", "")
    return f"{words} ({spec.shortcut})" if spec.shortcut else words


def not_now(action: QAction) -> str:
    """Why an action that is disabled is not possible, with the next step."""
    return f"Not now. {action.toolTip().rpartition(chr(10))[2]}"


def build(
    window: QWidget, bar: QMenuBar, specs: Iterable[ActionSpec]
) -> tuple[dict[str, QAction], dict[str, QMenu]]:
    """Make every action and place it; returns them by id, and the menus by title."""
    actions: dict[str, QAction] = {}
    menus: dict[str, QMenu] = {}
    places: dict[str, int] = {}
    for spec in specs:
        if spec.menu not in menus:
            menus[spec.menu] = named(bar.addMenu(spec.menu), spec.menu.replace("&", ""))
        action = actions[spec.id] = QAction(spec.text, window)
        action.setObjectName(spec.id)
        if spec.id in ICONS:
            action.setIcon(icon(ICONS[spec.id]))
        action.setData(spec.command)
        action.setShortcut(QKeySequence(spec.shortcut))
        action.setToolTip(tip_of(spec))
        if places.setdefault(spec.menu, spec.place) != spec.place:
            menus[spec.menu].addSeparator()
            places[spec.menu] = spec.place
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


@dataclass(frozen=True)
class Possible:
    """What the possible actions depend on; see :attr:`ActionSpec.needs`."""

    job: str = ""
    has_model: bool = False
    paused: bool = False
    tuned: bool = False
    undo: bool = False
    redo: bool = False
    unasked: bool = False
    """Whether something runs that no user asked for."""


def enable(actions: Mapping[str, QAction], specs: Iterable[ActionSpec], now: Possible) -> None:
    """Make possible what is possible now.

    A job in the way disables nothing but its own action: the others say so when they are called.
    What is disabled has the reason in its tip.
    """
    job, paused = now.job, now.paused
    model = "" if now.has_model else "Open a model first."
    lacks = {
        "": "",
        "idle": "",
        "model": model,
        "tuning": "" if job == "tune" or (paused and not job) else "Nothing is being tuned.",
        "tuned": model or ("" if now.tuned else "Tune the model first."),
        "busy": "" if job or now.unasked or paused else "Nothing is running.",
        "undo": "" if now.undo else "There is nothing to undo.",
        "redo": "" if now.redo else "There is nothing to redo.",
    }
    actions["pause"].setText("&Resume" if paused and not job else "&Pause")
    lacking = {
        spec: "It is running." if spec.needs in NEED_IDLE and spec.id == job else lacks[spec.needs]
        for spec in specs
    }
    # What becomes possible first: a button that starts and stops would lose the keys between both.
    for spec, lack in sorted(lacking.items(), key=lambda one: bool(one[1])):
        action = actions[spec.id]
        action.setEnabled(not lack)
        tip = f"{tip_of(spec)}\n{lack}" if lack else tip_of(spec)
        if action.toolTip() != tip:
            action.setToolTip(tip)
