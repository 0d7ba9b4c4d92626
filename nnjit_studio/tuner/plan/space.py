"""The lite space of a plan: one choice made differently at a time.

A step's threads are not in it: the engine measures alone and together while the model runs. Packed
weights and blocking for caches are settings of the kernels, whose winners are tried in the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nnjit_studio.model.plan_choice import PlanChoice, changed, spell


@dataclass(frozen=True)
class PlanEntry:
    """A plan to be tried, as the choices that differ from their rules."""

    ways: dict[str, str]
    reason: str

    @property
    def settings(self) -> str:
        return spell(self.ways)


def neighbours(choices: Sequence[PlanChoice]) -> list[PlanEntry]:
    """Every plan that differs in one choice from the one with these, in the order of choices."""
    return [
        PlanEntry(changed(choices, c.name, value), f"{c.name}: {value} for {c.value} ({c.reason})")
        for c in choices
        for value in c.others
    ]


def ways_known(choices: Sequence[PlanChoice]) -> int:
    """How many plans all choices together make."""
    return math.prod(1 + len(c.others) for c in choices)
