"""Three arrangements of the docks, by what one does with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from PySide6.QtWidgets import QDockWidget


@dataclass(frozen=True)
class Layout:
    """Docks that are shown, by their names in the window, and those in front of their tabs."""

    name: str
    shown: frozenset[str]
    front: tuple[str, ...]


LAYOUTS = {
    "layout_tune": Layout(
        "Tune",
        frozenset({"graph", "tuning", "rounds", "latency", "space", "kernel", "database", "log"}),
        ("space",),
    ),
    "layout_inspect": Layout(
        "Inspect",
        frozenset({"graph", "kernel", "profile", "diff", "device", "text", "log"}),
        ("profile",),
    ),
    "layout_compare": Layout(
        "Compare",
        frozenset({"graph", "latency", "profile", "diff", "faster", "database"}),
        ("database",),
    ),
}
"""By the id of the action that takes each."""


def arrange(docks: Mapping[str, QDockWidget], layout: Layout) -> None:
    """Show the docks of a layout where they stand, and no others."""
    for name, dock in docks.items():
        dock.setVisible(name in layout.shown)
    for name in layout.front:
        docks[name].raise_()
