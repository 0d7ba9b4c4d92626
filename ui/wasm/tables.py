"""The tables of a Wasm file: functions, warnings, sections, and what two builds differ in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import Qt

from nnjit_studio.foreign_wasm.inspection.comparison import Comparison
from nnjit_studio.foreign_wasm.inspection.facts import FunctionFacts
from nnjit_studio.foreign_wasm.inspection.report import Tiers
from nnjit_studio.foreign_wasm.inspection.rules import REFUSED, RULES, Finding, ranked
from nnjit_studio.foreign_wasm.inspection.survey import Survey
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.tables import Column, TablePanel
from nnjit_studio.ui.widgets.theme import Theme

BAD = (*REFUSED, "vector-spills")
"""Rules whose functions run slowly or not at all; the others cost time to compile."""


@dataclass(frozen=True)
class Row:
    """A function with its name, number of callers, findings in few words, and tiers.

    ``bad`` holds when one of the findings is worse than slow compilation.
    """

    facts: FunctionFacts
    name: str
    callers: int
    found: str
    bad: bool
    tiers: Mapping[str, Mapping[str, float]]


def rows_of(survey: Survey, tiers: Tiers) -> list[Row]:
    """A row for each function, in the order of their indices."""
    findings = ranked(survey)
    found: dict[int, list[str]] = {}
    for finding in sorted(findings, key=lambda f: f.rule not in BAD):
        found.setdefault(finding.function, []).append(RULES[finding.rule][0])
    bad = {finding.function for finding in findings if finding.rule in BAD}
    return [
        Row(
            f,
            survey.name(f.index),
            len(survey.callers.get(f.index, ())),
            ", ".join(found.get(f.index, ())),
            f.index in bad,
            tiers.get(f.index, {}),
        )
        for f in survey.functions
    ]


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:,}"


def _fact(title: str, name: str, tip: str = "", width: int = 70) -> Column:
    return Column(title, lambda r: getattr(r.facts, name), _count, True, tip, width)


def _vectors(row: Row) -> str:
    return "bad" if row.facts.spills else ""


INDEX_TIP = "its index, imports first"
FIRST = Column("function", lambda r: r.facts.index, str, True, INDEX_TIP, 66)
NAME = Column("name", lambda r: r.name, width=130, middle=True)
BYTES = _fact("bytes", "bytes", width=92)
FINDING = Column(
    "findings", lambda r: r.found, width=190, tone=lambda r: "bad" if r.bad else "warn"
)
COLUMNS = (
    _fact("blocks", "blocks", "basic blocks"),
    _fact("loops", "loops", width=58),
    _fact("vector ops", "simd", "vector instructions", 82),
    Column(
        "live vectors", lambda r: r.facts.live_vectors, _count, True,
        "most at once in a loop; empty where a bound says fewer than 8", 92, _vectors,
    ),
    Column(
        "spills", lambda r: r.facts.spills or None, _count, True,
        "of them beyond V8's 15 registers on x64", 62, _vectors,
    ),
    _fact("locals", "locals", "parameters too", 64),
    Column("callers", lambda r: r.callers, _count, True, "that call it directly", 66),
)  # fmt: skip


def _tier_columns(tier: str) -> tuple[Column, ...]:
    def cost(key: str) -> Callable[[Row], float | None]:
        return lambda r: r.tiers.get(tier, {}).get(key)

    return (
        Column(f"{tier} ms", cost("ms"), lambda v: text.latency(v) if v is not None else "", True,
               "time to compile it", 92),
        Column(f"{tier} code", cost("bytes"), _count, True, "bytes of machine code", 96),
    )  # fmt: skip


def _first_with_names(names: Mapping[int, str]) -> Column:
    """Few functions have names, by which the treemap calls them."""

    def said(index: int) -> str:
        return f"{index} {names[index]}".rstrip()

    return Column("function", lambda r: r.facts.index, said, tip=INDEX_TIP, width=130, middle=True)


class FunctionTable(TablePanel):
    """All functions."""

    def __init__(self, theme: Theme) -> None:
        super().__init__("Functions", (FIRST, BYTES, FINDING, *COLUMNS), theme)
        self.filter.setPlaceholderText("Filter: number, name, finding")

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Show these functions, the largest first.

        A pair of columns for each tier that is known, and the names where there are any: beside
        the index, and the last column, where most functions have none.
        """
        tiers = sorted({tier for row in rows for tier in row.tiers})
        extra = tuple(column for tier in tiers for column in _tier_columns(tier))
        named = sum(bool(row.name) for row in rows)
        front, back = ((NAME,), ()) if 2 * named > len(rows) else ((), (NAME,) if named else ())
        first = _first_with_names({r.facts.index: r.name for r in rows}) if back else FIRST
        columns = (first, *front, BYTES, FINDING, *extra, *COLUMNS, *back)
        self.set_columns(columns)
        self.view.sortByColumn(columns.index(BYTES), Qt.SortOrder.DescendingOrder)
        self.model.set_rows(rows, keep=False)

    def searched(self, row: Row) -> str:
        return f"{row.facts.index} {row.name} {row.found}"

    def select_function(self, index: int) -> bool:
        """Select a function's row and scroll to it."""
        return self.select_row(lambda row: row.facts.index == index)


def finding_columns(survey: Survey, found: Sequence[Finding]) -> tuple[Column, ...]:
    """With the names of functions where there are any."""
    name = Column("name", lambda w: survey.name(w.function), width=120, middle=True)
    return (
        Column("function", lambda w: w.function, str, True, width=66),
        *((name,) if any(survey.name(f.function) for f in found) else ()),
        Column("finding", lambda w: RULES[w.rule][0], width=130, tone=_finding_tone),
        Column("in words", lambda w: w.text, width=700),
    )


def _finding_tone(finding: Finding) -> str:
    return "bad" if finding.rule in BAD else "warn"


SECTION_COLUMNS = (
    Column("section", lambda s: s[0], width=240),
    Column("bytes", lambda s: s[1], _count, True, width=110),
    Column("of the file", lambda s: s[2], lambda v: f"{v:.1f} %", True, width=90),
)


def change_columns(found: Comparison) -> tuple[Column, ...]:
    """Of the pairs that changed."""

    def fact(name: str) -> tuple[Any, Any]:
        return (lambda p: getattr(p.before, name)), (lambda p: getattr(p.after, name))

    before_bytes, after_bytes = fact("bytes")
    before_blocks, after_blocks = fact("blocks")
    return (
        Column("function", lambda p: p.after.index, str, True, width=66),
        Column("name", lambda p: found.after.name(p.after.index), width=150, middle=True),
        Column("difference", lambda p: p.growth, lambda v: f"{v:+,}", True, "in bytes", 86,
               lambda p: "bad" if p.growth > 0 else "good"),
        Column("bytes before", before_bytes, _count, True, width=92),
        Column("bytes", after_bytes, _count, True, width=82),
        Column("blocks before", before_blocks, _count, True, width=96),
        Column("blocks", after_blocks, _count, True, width=70),
        Column("recognised by", lambda p: p.by, width=110),
    )  # fmt: skip
