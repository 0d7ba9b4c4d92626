"""The row that a feature folder exposes for each of its docks, and the actions in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar, cast

from nnjit_studio.ui.commands.actions import ActionSpec
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.state.jobs import Job
from nnjit_studio.ui.widgets.panel import Panel


class Place(Enum):
    """Where a dock is at first: those of the stage, the plots and the drawer are tabs."""

    STAGE = "the middle: where the time goes"
    RIGHT = "the column at the right: what can be done"
    PLOTS = "below the stage at the left: the course of the tuning"
    BOTTOM = "below the stage: tables of what was tried and measured"


STAGE, RIGHT, PLOTS, BOTTOM = Place.STAGE, Place.RIGHT, Place.PLOTS, Place.BOTTOM
TUNE, INSPECT, COMPARE = "layout_tune", "layout_inspect", "layout_compare"
WASM_FILE = "layout_wasm"
"""Named layouts, by the ids of the actions that take them."""
P = TypeVar("P", bound=Panel, covariant=True)


@dataclass(frozen=True)
class Action(ActionSpec):
    """An action of a feature; without ``do`` it shows the dock and runs its job."""

    do: Callable[[Host], object] | None = None


@dataclass(frozen=True)
class Feature(Generic[P]):
    """One dock: a folder of ``ui/`` and a row of ``ui/window/features.py``."""

    key: str
    """Names the dock in layouts, links and settings."""
    title: str
    make: Callable[[Host], P]
    """Makes the view and connects it, when the dock is first seen."""
    area: Place = BOTTOM
    actions: tuple[Action, ...] = ()
    job: Job | None = None
    """What its action runs, if it is always the same."""
    layouts: tuple[str, ...] = ()
    """The named layouts that show it."""
    begin: Callable[[Host], object] | None = None
    """Called when the window is made; for what has to work before there is a view."""

    def panel(self, host: Host) -> P:
        """The view of this dock, made if need be."""
        return cast(P, host.docks.panel(self.key))

    def show(self, host: Host) -> P:
        """Bring the dock to the front; returns its view."""
        host.docks.show(self.key)
        return self.panel(host)

    def run(self, host: Host) -> None:
        """Show the dock and run its job."""
        host.message.hide()
        self.show(host)
        if self.job is not None:
            host.session.run(self.job)

    def handlers(self, host: Host) -> dict[str, Callable[[], object]]:
        """What its actions do, by their ids."""
        return {action.id: self._handler(action, host) for action in self.actions}

    def _handler(self, action: Action, host: Host) -> Callable[[], object]:
        do = action.do or self.run
        return lambda: do(host)
