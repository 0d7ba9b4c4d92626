"""A dock is one row of the table: its view, its actions, its job and its layouts."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from gui_fakes import engine_label, finish
from gui_window import StudioWindow
from PySide6.QtWidgets import QLabel

from nnjit_studio.ui.dock.feature import COMPARE, Action, Feature
from nnjit_studio.ui.state.jobs import Job
from nnjit_studio.ui.widgets.panel import Panel, vbox
from nnjit_studio.ui.window.features import ACTIONS, FEATURES

UI = Path(__file__).parents[3] / "ui"


class ToyPanel(Panel):
    def __init__(self, host) -> None:
        super().__init__()
        self.changes: list[frozenset[str]] = []
        self.seen = False
        self.theme = host.theme
        self.result = QLabel()
        vbox(self.result, on=self)
        host.session.done.connect(self.done)

    def done(self, job, result) -> None:
        if job == "test_toy":
            self.result.setText(str(result))

    def refresh(self, changes) -> None:
        self.changes.append(changes)

    def set_theme(self, theme) -> None:
        self.theme = theme

    def be_seen(self, seen) -> None:
        self.seen = seen


TOY = Feature(
    "test_toy",
    "Toy",
    ToyPanel,
    actions=(
        Action("test_toy", "&Inspect", "T&oy", "Ctrl+Alt+T", "idle", "Count badges", place=1),
    ),
    job=Job("test_toy", "Playing", lambda bench, tell: len(bench.page.badges()), needs_model=False),
    layouts=(COMPARE,),
)


@pytest.fixture
def toys(qtbot, workbench, settings):
    window = StudioWindow(workbench, engine_label, settings, (*FEATURES, TOY))
    qtbot.addWidget(window, before_close_func=lambda w: finish(qtbot, workbench, w))
    window.show()
    return window


def test_a_row_is_a_dock_that_is_made_when_it_is_seen(toys):
    assert toys.docks["test_toy"].windowTitle() == "Toy" and toys.docks["test_toy"].made is None
    assert toys.docks["test_toy"].toggleViewAction() in toys.menus.shown.actions()
    toys.docks["test_toy"].raise_()
    panel = toys.panel("test_toy")
    assert toys.docks["test_toy"].widget().widget() is panel and panel.changes and panel.seen
    toys.menus.choose_theme("dark")
    assert panel.theme is toys.themes.current
    toys.session.state.set_phase("Idle")
    toys.session.refresh()
    assert panel.changes[-1] == {"phase"}


def test_its_action_is_in_the_menu_shows_the_dock_and_runs_the_job(qtbot, toys):
    entries = [action.objectName() for action in toys.menus._menus["&Inspect"].actions()]
    assert entries.index("profile") < entries.index("test_toy"), "by place"
    with qtbot.waitSignal(toys.session.done):
        toys.actions_by_id["test_toy"].trigger()
        assert not toys.actions_by_id["test_toy"].isEnabled(), "a job is running"
    assert toys.panel("test_toy").result.text() == "1"
    assert toys.docks["test_toy"].seen


def test_layouts_show_it_or_not(toys):
    toys.actions_by_id["layout_tune"].trigger()
    assert toys.docks["test_toy"].isHidden()
    toys.actions_by_id["layout_compare"].trigger()
    assert not toys.docks["test_toy"].isHidden()


def test_every_row_of_a_feature_folder_is_in_the_table():
    folders = sorted(path.parent.name for path in UI.glob("*/feature.py"))
    modules = [name for name in folders if name != "dock"]
    rows = [
        value
        for name in modules
        for value in vars(importlib.import_module(f"nnjit_studio.ui.{name}.feature")).values()
        if isinstance(value, Feature)
    ]
    assert len(modules) > 8
    assert {id(row) for row in rows} == {id(row) for row in FEATURES}


def test_keys_and_actions_are_unique():
    keys, ids = [f.key for f in FEATURES], [a.id for a in ACTIONS]
    assert len(keys) == len(set(keys)) and len(ids) == len(set(ids))
