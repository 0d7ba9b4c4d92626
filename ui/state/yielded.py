"""What the jobs of a session yield and return on their way: phases, models, problems."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from nnjit_studio.model.feeds import Feeds
from nnjit_studio.model.survey import Survey
from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.state.jobs import JobProblem


@dataclass(frozen=True)
class Phase:
    """What a job is doing, in words."""

    text: str


@dataclass(frozen=True)
class Imported:
    """A model on its way into the page: it can be shown, and nothing else yet."""

    model: Any


@dataclass(frozen=True)
class Asked:
    """A model cannot be opened before its user says sizes."""

    survey: Survey


Work = Callable[[Callable[[Any], None]], Any]
Answer = Callable[[Survey], Feeds | None]
"""Inputs for a file, empty for those of the Studio's own; None where the user is to be asked."""


def phases(emit: Callable[[Any], None]) -> Callable[[str], None]:
    """Has phases told among what a job yields."""
    return lambda text: emit(Phase(text))


def problems(events: list[ev.Event]) -> Iterator[JobProblem]:
    """The failures among events; of a fallback it is enough to tell that."""
    fell_back = any(isinstance(event, ev.FellBack) for event in events)
    for event in events:
        if isinstance(event, ev.FellBack):
            hint = "The model runs in Wasm now; choose WebGPU to try it again."
            yield JobProblem(ev.FellBack.name, event.reason, hint, kind="user")
        elif isinstance(event, ev.Failed) and not fell_back:
            error, hint, kind = (str(event.error.get(k, "")) for k in ("error", "hint", "kind"))
            details = json.dumps(event.error, indent=2, default=str)
            yield JobProblem("tune", error, hint, details, kind)
