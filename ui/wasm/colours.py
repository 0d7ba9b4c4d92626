"""What the colours of the treemap mean."""

from __future__ import annotations

import math

from PySide6.QtGui import QColor

from nnjit_studio.foreign_wasm.inspection.report import Tiers
from nnjit_studio.foreign_wasm.inspection.rules import ranked
from nnjit_studio.foreign_wasm.inspection.survey import Survey
from nnjit_studio.ui.wasm.tables import BAD
from nnjit_studio.ui.wasm.treemap import Colouring
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.theme import Theme, mixed, ramp

FINDINGS, VECTORS = "findings", "vector operations"
TIME = " compile time"
SPAN = 1000.0
"""Functions that take so many times less than the slowest are all of the coolest colour."""


def choices(tiers: Tiers) -> list[str]:
    """What can be shown: compile times first where they are known, the slow tier's before all."""
    names = sorted(_names(tiers), key=lambda name: -_longest(name, tiers))
    return [*(f"{name}{TIME}" for name in names), FINDINGS, VECTORS]


def colouring(choice: str, survey: Survey, tiers: Tiers, theme: Theme) -> Colouring:
    """Colours of functions for a choice; None where there is nothing to tell."""
    if choice.endswith(TIME):
        return _times(choice.removesuffix(TIME), tiers, theme)
    if choice == VECTORS:
        return _vectors(survey, theme)
    return _findings(survey, theme)


def legend(choice: str, tiers: Tiers, theme: Theme) -> str:
    """The colours in words, as rich text."""
    if choice.endswith(TIME):
        longest = _longest(choice.removesuffix(TIME), tiers)
        return _swatches(
            (
                (theme.heat[0], f"{text.latency(longest / SPAN)} ms"),
                (theme.heat[-1], f"{text.latency(longest)} ms"),
            )
        )
    if choice == VECTORS:
        return _swatches(((theme.line, "none"), (theme.accent, "every second instruction")))
    return _swatches(((theme.bad, "spills or refused"), (theme.heat[2], "slow to compile, large")))


def _swatches(parts: tuple[tuple[str, str], ...]) -> str:
    return "&nbsp;&nbsp; ".join(
        f'<span style="color:{colour}">&#9632;</span> {words}' for colour, words in parts
    )


def _findings(survey: Survey, theme: Theme) -> Colouring:
    slow = QColor(theme.heat[2])
    found: dict[int, QColor] = {}
    for finding in ranked(survey):
        if finding.rule in BAD:
            found[finding.function] = QColor(theme.bad)
        else:
            found.setdefault(finding.function, slow)
    return found.get


def _vectors(survey: Survey, theme: Theme) -> Colouring:
    shares = {f.index: f.simd / f.instructions for f in survey.functions if f.simd}
    accent, ground = QColor(theme.accent), QColor(theme.line)

    def colour(index: int) -> QColor | None:
        share = shares.get(index)
        return None if share is None else mixed(accent, ground, min(1.0, 2 * share))

    return colour


def _names(tiers: Tiers) -> set[str]:
    return {tier for costs in tiers.values() for tier in costs}


def _longest(tier: str, tiers: Tiers) -> float:
    return max((costs[tier]["ms"] for costs in tiers.values() if tier in costs), default=0.0)


def _times(tier: str, tiers: Tiers, theme: Theme) -> Colouring:
    """Heat on a logarithmic scale: compile times span many powers of ten."""
    longest = _longest(tier, tiers)

    def colour(index: int) -> QColor | None:
        ms = tiers.get(index, {}).get(tier, {}).get("ms")
        if ms is None or longest <= 0:
            return None
        least = longest / SPAN
        return ramp(theme.heat, math.log(max(ms, least) / least) / math.log(SPAN))

    return colour
