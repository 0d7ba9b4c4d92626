"""The window, with its views as attributes: ``window.graph`` is ``window.panel("graph")``."""

from __future__ import annotations

from nnjit_studio.ui.window import main_window
from nnjit_studio.ui.window.features import FEATURES


class StudioWindow(main_window.StudioWindow):
    """For tests alone."""


for feature in FEATURES:
    name = feature.key
    setattr(StudioWindow, name, property(lambda window, name=name: window.panel(name)))
