"""The menu bar: actions, recent models, docks and themes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import QDockWidget, QMenuBar

from nnjit_studio.ui.commands import actions as registry
from nnjit_studio.ui.commands.actions import ActionSpec
from nnjit_studio.ui.commands.history import UndoStep
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.files import recent
from nnjit_studio.ui.widgets.panel import named

THEMES = ("system", "light", "dark")


class Menus:
    """The bar and its actions; what is listed in it is added when the docks are there."""

    def __init__(self, host: Host, specs: Iterable[ActionSpec]) -> None:
        self._host = host
        self.bar = QMenuBar()
        self.actions, self._menus = registry.build(host.window, self.bar, specs)
        self._theme_actions = QActionGroup(host.window)
        host.history.changed.connect(self._name_undo)

    def fill(self, docks: Iterable[QDockWidget], open_model: Callable[[Path], object]) -> None:
        """Add the recent models, the docks and the themes."""
        file, view = self._menus["&File"], self._menus["&View"]
        self.recent = named(file.addMenu("Open &recent"), "Open recent")
        file.insertMenu(self.actions["export"], self.recent)
        self.recent.aboutToShow.connect(lambda: self._fill_recent(open_model))
        self._fill_recent(open_model)
        view.addSeparator()
        # In the menu itself they would be longer than a screen of 720 pixels.
        self.shown = named(view.addMenu("&Docks"), "Docks")
        for dock in docks:
            self.shown.addAction(dock.toggleViewAction())
        themes = named(view.addMenu("T&heme"), "Theme")
        for name in THEMES:
            action = themes.addAction(f"&{name.capitalize()}")
            action.setCheckable(True)
            action.triggered.connect(lambda _=False, name=name: self.choose_theme(name))
            self._theme_actions.addAction(action)
        self._check_theme()
        # The palette lists what the menu has, although nobody opened it.
        self._host.session.done.connect(
            lambda job, _: self._fill_recent(open_model) if job == "open" else None
        )

    def choose_theme(self, name: str) -> None:
        """Take a theme and keep it in the settings."""
        self._host.settings.setValue("theme", name)
        self._host.themes.choose(name)
        self._check_theme()

    def _check_theme(self) -> None:
        for action in self._theme_actions.actions():
            action.setChecked(registry.plain(action.text()).lower() == self._host.themes.choice)

    def _fill_recent(self, open_model: Callable[[Path], object]) -> None:
        recent.fill_menu(self.recent, self._host.settings, open_model, self._clear_recent)

    def _clear_recent(self) -> None:
        settings = self._host.settings
        paths = recent.recent(settings)
        self._host.history.do(
            UndoStep.at_once(
                "Cleared the list of recent models",
                lambda: recent.forget(settings),
                lambda: recent.put_back(settings, paths),
            )
        )

    def _name_undo(self) -> None:
        history = self._host.history
        for name, steps in (("Undo", history.done), ("Redo", history.undone)):
            tip = f"{name}: {steps[-1].done}" if steps else f"Nothing to {name.lower()}"
            self.actions[name.lower()].setToolTip(tip)
