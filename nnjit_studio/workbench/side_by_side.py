"""The same workloads tuned in several browsers in turns, and every winner in every other one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from nnjit_studio.analysis.browsers.comparison import BrowserComparison
from nnjit_studio.analysis.browsers.crossing import Crossing, Winner
from nnjit_studio.errors import UserError
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.support.phases import OnPhase
from nnjit_studio.tuner.events import Event
from nnjit_studio.workbench.jobs.crossing import cross, winners
from nnjit_studio.workbench.workbench import Workbench

T = TypeVar("T")
ONCE = "embedded"
"""Qt's web engine is entered once in a process, so this one has the last turn."""


class Within(Protocol):
    """Does work on a workbench whose page runs in the browser of that name."""

    def __call__(self, browser: str, work: Callable[[Workbench], T], /) -> T: ...


def compare_browsers(
    within: Within,
    browsers: Sequence[str],
    model: Path,
    seconds: float,
    on_phase: OnPhase,
    feeds: Feeds | None = None,
    on_event: Callable[[str, Event], None] = lambda browser, event: None,
) -> BrowserComparison:
    """Tune a model in each browser, then try each winner in all others.

    Only one browser runs at a time, so that none disturbs another.

    Parameters
    ----------
    seconds
        Of each session.

    Raises
    ------
    UserError
        When they are fewer than two, or have no tuned workload in common.
    """
    names = tuple(dict.fromkeys(browsers))
    if len(names) < 2:
        raise UserError("Fewer than two browsers are there to compare.", "Name them: --target.")
    won: dict[str, Mapping[str, Winner]] = {}
    engines: dict[str, str] = {}
    crossings: list[Crossing] = []

    def opened(name: str, bench: Workbench) -> None:
        on_phase(f"{name}: opening {model.name}")
        bench.open_model(model, lambda phase: on_phase(f"{name}: {phase}"), feeds)

    def tune(name: str, bench: Workbench) -> None:
        opened(name, bench)
        engines[name] = bench.page.connect().user_agent
        on_phase(f"{name}: tuning for {seconds:.0f} s")
        for event in bench.tuning.start(seconds):
            on_event(name, event)
        won[name] = {w.workload: w for w in winners(bench.model, name)}

    def try_others(name: str, bench: Workbench) -> None:
        own, others = settings_in(won, name)
        crossings.extend(cross(bench.model, name, own, others, on_phase))

    def try_again(name: str, bench: Workbench) -> None:
        opened(name, bench)
        try_others(name, bench)

    def last_turn(bench: Workbench) -> None:
        tune(last, bench)
        try_others(last, bench)

    *first, last = sorted(names, key=ONCE.__eq__)
    for name in first:
        within(name, partial(tune, name))
    within(last, last_turn)
    for name in first:
        if settings_in(won, name)[1]:
            within(name, partial(try_again, name))
    if not settings_in(won, last)[0]:
        raise UserError("These browsers have no tuned workload in common.", "Choose others.")
    every = tuple(w for name in names for w in won[name].values())
    return BrowserComparison(model.name, names, engines, every, tuple(crossings))


def settings_in(
    won: Mapping[str, Mapping[str, Winner]], browser: str
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """A browser's own settings, and those of others that differ, of workloads that all have."""
    shared = [key for key in won[browser] if all(key in of for of in won.values())]
    own = {key: won[browser][key].settings for key in shared}
    others = {key: sorted({of[key].settings for of in won.values()} - {own[key]}) for key in shared}
    return own, {key: several for key, several in others.items() if several}
