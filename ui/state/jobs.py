"""Jobs: work on the workbench that the session runs one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.ui.state.services import OnPhase, Workbench

EXAMINE = "examine"
"""The job that examines the machine; models that are opened meanwhile wait for its end."""
Work = Callable[[Workbench, OnPhase], Any]


@dataclass(frozen=True)
class Job:
    """Work that blocks, in a thread of its own.

    Attributes
    ----------
    name
        Of the signals ``busy_changed``, ``done`` and ``problem`` of the session.
    phase
        What the window shows until the work tells a phase of its own.
    work
        Called with the workbench and with a function that takes phases; gives a result, or an
        iterator of events.
    needs_model
        It is refused while no model is open.
    """

    name: str
    phase: str
    work: Work
    needs_model: bool = True


def export_bundle(out: Path) -> Job:
    """Write the tuned kernel bundle; the result is its path."""
    return Job("export", f"Writing {out.name}", lambda bench, _: bench.export(out))


def export_report(out: Path) -> Job:
    """Write the report; the result is its path."""
    return Job("report", f"Writing {out.name}", lambda bench, _: bench.report(out))
