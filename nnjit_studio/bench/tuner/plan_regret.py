"""``nnjit bench plan-regret``: the plan that tuning found, against every combination of choices."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nnjit_studio.bench.conditions import load_average, measured_on
from nnjit_studio.bench.report import Report, Table
from nnjit_studio.bench.tuner.regret import Forgetful
from nnjit_studio.errors import NnjitError, UserError
from nnjit_studio.model.plan_choice import PlanChoice, spell
from nnjit_studio.records import MeasurePolicy, Trial
from nnjit_studio.tuner.events import PlanSettled
from nnjit_studio.tuner.in_place import InPlace, joined, judge
from nnjit_studio.tuner.plan.rounds import PLAN_POLICY, TOLERANCE
from nnjit_studio.workbench import Workbench
from nnjit_studio.workbench.plan_forms import PlanForms, tune_plan

GOAL = 0.03
"""Regret that is small enough: intervals are narrowed until they settle it."""
LOOKS = (4, 8, 16, 32, 64, 128)
"""Pairs of a combination after which it may be settled: most are slower, which few pairs tell."""
MOST_S = 60.0
"""Of a combination: no look is begun that would end later, as it takes as long as all before it."""


@dataclass(frozen=True)
class Combination:
    """A plan, and how it compares with the one that tuning chose."""

    settings: str
    place: InPlace | None
    error: str = ""


def bench_plan_regret(
    bench: Workbench,
    models: Sequence[Path],
    most: int,
    note: Callable[[str], None],
    minutes: float = float("inf"),
) -> dict[str, Any]:
    """Tune each model's plan from nothing, then try all combinations against what was chosen.

    Regret is the share of the chosen plan's time that the best combination would have saved, 0
    where no interval of a combination's speed-up lies above 1; the highest end of all intervals
    bounds it.

    Parameters
    ----------
    most
        Combinations of a model; one with more is left out.
    minutes
        After which no model is begun, and no plan of the one before is tried any more: neither by
        its tuning nor against what that chose.

    Raises
    ------
    UserError
        When no model has choices.
    PageError, NnjitError
        When the chosen plan cannot run.
    """
    before, rows = load_average(), []
    end_s = time.monotonic() + 60 * minutes
    for path in models:
        if time.monotonic() > end_s:
            note(f"{path.name}: not begun after {minutes:g} minutes")
            continue
        opened = bench.open_model(path)
        plans = list(every_plan(opened.program().choices))
        if not 1 < len(plans) <= most:
            note(f"{opened.graph.name}: {len(plans)} plans, left out")
            continue
        began_s = time.monotonic()
        end = list(tune_plan(bench.model, end_s - began_s, Forgetful()))[-1]
        assert isinstance(end, PlanSettled)
        tuned_s = time.monotonic() - began_s
        note(f"{opened.graph.name}: {end.settings} after {end.rounds} of {len(plans)} plans")
        found: list[Combination] = []
        for ways in plans:
            if time.monotonic() > end_s:
                note(f"  {len(plans) - len(found) - 1} plans not tried after {minutes:g} minutes")
                break
            if spell(ways) != end.settings:
                found.append(_compared(bench, ways))
                note(f"  {found[-1].settings}: {found[-1].place or found[-1].error}")
        rows.append(
            {
                "model": opened.graph.name,
                "chosen": end.settings,
                "rounds": end.rounds,
                "seconds": tuned_s,
                **regret_of(found, len(plans)),
            }
        )
    if not rows:
        raise UserError("None of the models has a plan to be tuned.", f"Or all have over {most}.")
    device = bench.page.connect()
    return {
        "ok": True,
        **measured_on(device, before, bench.compiler.version),
        "threads": device.threads,
        "rows": rows,
    }


def every_plan(choices: Sequence[PlanChoice]) -> Iterator[dict[str, str]]:
    """All combinations, as the ways that differ from the rules."""
    names = [c.name for c in choices]
    rules = {c.name: c.rule for c in choices}
    for values in itertools.product(*((c.value, *c.others) for c in choices)):
        yield {n: v for n, v in zip(names, values, strict=True) if v != rules[n]}


def regret_of(found: Sequence[Combination], plans: int) -> dict[str, Any]:
    """The best of the combinations that were tried of so many, and what it would have saved."""
    faster = [c for c in found if c.place is not None and c.place.low > 1]
    best = max(faster, key=lambda c: c.place.speedup if c.place else 0.0, default=None)
    speedup = best.place.speedup if best and best.place else 1.0
    most = max((c.place.high for c in found if c.place), default=1.0)
    return {
        "plans": plans,
        "measured": sum(c.place is not None for c in found) + 1,
        "best": best.settings if best else "",
        "regret": 1 - 1 / speedup,
        "regret_high": 1 - 1 / max(most, 1.0),
    }


def _compared(bench: Workbench, ways: dict[str, str]) -> Combination:
    forms = PlanForms(bench.model)
    try:
        forms.make(ways)
        try:
            if not forms.difference() <= TOLERANCE:
                return Combination(spell(ways), None, "wrong")
            place = told(forms.trial)
        finally:
            forms.drop()
    except NnjitError as error:
        return Combination(spell(ways), None, str(error))
    return Combination(spell(ways), place)


def told(trial: Callable[[MeasurePolicy], Trial]) -> InPlace:
    """Trials until a combination's regret is known to the goal: above 0 and how much, or within it.

    Each look has an equal share of the error (Bonferroni).
    """
    taken, place, began_s = Trial(), InPlace(""), time.monotonic()
    for pairs in LOOKS:
        if time.monotonic() - began_s > MOST_S / 2:
            break
        taken = joined(taken, trial(replace(PLAN_POLICY, pairs=pairs - len(taken.ms))))
        place = judge(taken, confidence=1 - 0.05 / len(LOOKS))
        if place.error or place.high <= 1 / (1 - GOAL):
            break
        if place.low > 1 and 1 / place.low - 1 / place.high <= GOAL:
            break
    return place


def plan_regret_report(result: Mapping[str, Any]) -> Report:
    """A row for each model."""
    head = [
        "model",
        "plans",
        "measured",
        "rounds",
        "seconds",
        "chosen",
        "best of all",
        "regret",
        "at most",
    ]
    rows = [
        [
            row["model"],
            str(row["plans"]),
            str(row["measured"]),
            str(row["rounds"]),
            f"{row['seconds']:.0f}",
            row["chosen"],
            row["best"] or "the chosen one",
            f"{row['regret']:.1%}",
            f"{row['regret_high']:.1%}",
        ]
        for row in result["rows"]
    ]
    about = (
        "Each combination of choices was compared with the chosen plan, whole models in turns in "
        f"one page, until its interval told its regret to {GOAL:.0%}, or {LOOKS[-1]} pairs or "
        f"{MOST_S:.0f} s were taken; regret counts where the 95 % interval excludes 1, at most is "
        "by the highest end of all intervals."
    )
    return Report(result, "regret of the plan", about, (Table(head, rows),))
