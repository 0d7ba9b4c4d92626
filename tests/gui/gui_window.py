"""The window with its views as attributes, ``window.graph`` for ``window.panel("graph")``."""

from __future__ import annotations

from nnjit_studio.ui.window import main_window
from nnjit_studio.ui.window.features import FEATURES


class StudioWindow(main_window.StudioWindow):
    """For tests alone."""


for feature in FEATURES:
    name = feature.key
    setattr(StudioWindow, name, property(lambda window, name=name: window.panel(name)))


def wait_job(qtbot, window, job, start):
    """Start a job and wait until it has returned."""
    with qtbot.waitSignal(window.session.done, check_params_cb=lambda name, _: name == job):
        assert start()


def rested(qtbot, window, start):
    """Start something and wait until the verdict that follows it is measured."""
    with qtbot.waitSignal(window.verdict.rested):
        start()
