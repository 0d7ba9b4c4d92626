"""The comparison of browsers as tables: for people, and for other programs."""

from __future__ import annotations

from collections.abc import Iterator

from nnjit_studio.analysis.browsers.comparison import BrowserComparison, Common
from nnjit_studio.support.tables import csv_text, text_table

CSV = ("workload", "browser", "uses", "own settings", "own ms", "settings", "ratio", "low", "high",
       "common", "why not")  # fmt: skip


def headline(found: BrowserComparison) -> str:
    """Where they differ, and what the common set costs, in sentences."""
    names = ", ".join(found.browsers)
    many = [w for w in found.workloads if len(found.settings(w)) > 1]
    real = [w for w in many if found.worst(w)]
    told = (
        f"{names}: of {len(found.workloads)} tuned workloads {len(many)} have different winners, "
        f"and in {len(real)} of them a winner is slower in another browser than that one's own."
    )
    costs = "; ".join(f"{c.browser} {c.ratio}" for c in found.costs if c.own_ms)
    if costs:
        told += f"\nOne set for all, as a multiple of the time with its own winners: {costs}."
    return told


def as_text(found: BrowserComparison) -> str:
    """The answer, and a line for each workload and browser."""
    rows = [row for common in found.common for row in _lines(found, common)]
    columns = ("workload", "browser", "ms", "its winner", "common settings cost it", "")
    return "\n\n".join((headline(found), text_table(columns, rows, left=(0, 1, 3, 4, 5))))


def _lines(found: BrowserComparison, common: Common) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = []
    for browser in found.browsers:
        own = found.winner(browser, common.workload)
        name = common.workload.split("#")[0] if browser == found.browsers[0] else ""
        is_common = own.settings == common.settings
        cost = "" if is_common or not common.settings else str(common.ratios[browser])
        mark = "common" if is_common else ""
        lines.append((name, browser, f"{own.ms:.4f}", own.settings, cost, mark))
    if not common.settings:
        lines[0] = (*lines[0][:4], "no winner runs in all of them", "")
    return lines


def as_csv(found: BrowserComparison) -> str:
    """A line for each workload, browser and winner of any browser."""
    return csv_text(CSV, _rows(found))


def _rows(found: BrowserComparison) -> Iterator[tuple[object, ...]]:
    for common in found.common:
        for browser in found.browsers:
            own = found.winner(browser, common.workload)
            head = (common.workload, browser, own.uses, own.settings, own.ms)
            for settings in found.settings(common.workload):
                crossed = found.crossing(browser, common.workload, settings)
                ratio = crossed.ratio() if crossed and crossed.usable else None
                figures = (ratio.value, ratio.low, ratio.high) if ratio else ("", "", "")
                if settings == own.settings:
                    figures = (1, 1, 1)
                chosen = "yes" if settings == common.settings else ""
                why_not = crossed.why_not if crossed else ""
                yield (*head, settings, *figures, chosen, why_not)
