"""A list of advice as lines of a table: the untouched model first, then every row by its rank."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from nnjit_studio.advice import records
from nnjit_studio.advice.errors import judge
from nnjit_studio.advice.records import (
    BROKEN,
    IMPOSSIBLE,
    KEPT,
    MEASURED,
    MEASURING,
    STOPPED,
    Advice,
    Measurement,
    Row,
    ranked,
)
from nnjit_studio.advice.text import gain
from nnjit_studio.ui.widgets.tables import Column
from nnjit_studio.ui.widgets.text import counted
from nnjit_studio.verdict.text import exponent, kilobytes, memory, times, timing

AS_IT_WAS, IN_USE, OVER, UNJUDGED = "as it was", "in use", "over the error limit", "not judged"
NOT_HERE, WAITING, MEASURES, SMALLER = "not here", "waiting", "measuring", "smaller"
NOT_MEASURED = "not measured"
FASTER, SLOWER, SAME = "faster", "slower", "not told apart"
GLYPHS = {
    AS_IT_WAS: "", IN_USE: "✓", OVER: "✗", UNJUDGED: "?", NOT_HERE: "·", WAITING: "·",
    NOT_MEASURED: "·", MEASURES: "…", SMALLER: "▼", FASTER: "▲", SLOWER: "▼", SAME: "≈",
}  # fmt: skip
TONES = {
    IN_USE: "good", FASTER: "good", SMALLER: "good", OVER: "bad", SLOWER: "bad", UNJUDGED: "warn",
}  # fmt: skip
LESS = 0.95
"""A download or memory below this share of the untouched model's is called smaller."""
APPLY, PUT_BACK, BLOCKED, ANYWAY = "Apply", "Put back", "Blocked…", "Apply anyway"


@dataclass(frozen=True)
class Line:
    """The untouched model, or a row of advice."""

    title: str
    verdict: str
    measured: Measurement | None = None
    note: str = ""
    row: Row | None = None
    action: str = ""
    """The text of its button, empty for none."""

    @property
    def name(self) -> str:
        return self.row.name if self.row else ""

    @property
    def red(self) -> bool:
        """Whether the guard refuses it."""
        return self.verdict in (OVER, UNJUDGED)


def lines_of(advice: Advice, in_use: Collection[str] = (), armed: str = "") -> Iterator[Line]:
    """The lines of a list.

    Parameters
    ----------
    in_use
        Names of the rows that are applied.
    armed
        Name of a refused row whose first click was made.
    """
    yield Line(advice.model, AS_IT_WAS, advice.base, f"On {counted(advice.threads, 'thread')}.")
    # Another file is made of the untouched one: a second such row has none to start from.
    other_file = any(row.apply.recipe for row in advice.rows if row.name in in_use)
    for row in ranked(advice.rows):
        used = row.name in in_use
        verdict = IN_USE if used else _verdict(row, advice.base)
        if verdict == WAITING and advice.phase == STOPPED:
            verdict = NOT_MEASURED
        note = " ".join(told for told in _to_know(row) if told)
        action = "" if other_file and row.apply.recipe and not used else _action(row, used, armed)
        yield Line(row.title, verdict, row.measured, note, row, action)


def _to_know(row: Row) -> tuple[str, ...]:
    if row.state == IMPOSSIBLE:
        return (row.problem,)
    asks = f"Asks: {row.asks}" if row.asks else ""
    return (asks, row.note, row.guard.reason if row.guard.state != KEPT else "")


def _verdict(row: Row, base: Measurement | None) -> str:
    found = row.measured
    if row.state == IMPOSSIBLE:
        return NOT_HERE
    if row.state != MEASURED or found is None:
        if row.state == MEASURING:
            return MEASURES
        return OVER if row.guard.state == BROKEN else WAITING
    if row.guard.state != KEPT:
        return OVER if row.guard.state == BROKEN else UNJUDGED
    less = base is not None and (
        0 < found.download_bytes < LESS * base.download_bytes
        or found.memory_mib < LESS * base.memory_mib
    )
    if row.outcome != FASTER and row.outcome != SLOWER and less:
        return SMALLER
    return row.outcome or gain(row)


def _action(row: Row, used: bool, armed: str) -> str:
    if used:
        return PUT_BACK
    if row.state != MEASURED:
        return ""
    if row.refusal:
        return ANYWAY if row.name == armed else BLOCKED
    return APPLY


def _of(value: Callable[[Measurement], Any]) -> Callable[[Line], Any]:
    return lambda line: value(line.measured) if line.measured else None


def _told(write: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: "" if value is None else write(value)


def gain_words(line: Line) -> str:
    """The gain with its interval below the verdict; empty where none may be stated."""
    stated = line.measured.stated if line.row and line.measured else None
    return times(stated) if stated else ""


def title_alone(line: Line) -> str:
    """The change in a line; what is not possible here has room for the reason."""
    return f"{line.title}: {line.note}" if line.verdict == NOT_HERE else line.title


def gain_alone(line: Line) -> str:
    """The gain in a line, its sign in place of the word; the verdict where that says more."""
    gain = gain_words(line)
    told = gain if gain and line.verdict in (FASTER, SLOWER) else line.verdict
    return f"{GLYPHS.get(line.verdict, '')} {told}".strip()


def _verdict_words(verdict: str) -> str:
    return f"{GLYPHS.get(verdict, '')} {verdict}".strip()


COLUMNS = (
    Column("change", lambda line: line.title, width=300,
           hint=lambda line: f"{line.title}. {line.note}"),
    Column("", lambda line: line.action, width=108, in_files="action"),
    Column("time", _of(lambda m: m.ms.median), _told(lambda ms: f"{ms:.3g} ms"),
           tip="median of runs in turns with the untouched model, with its interval", width=184,
           in_files="time ms"),
    Column("interval", _of(lambda m: timing(m.ms, m.busy)), _told(str), width=0,
           in_files="time and interval"),
    Column("gain", gain_words, width=0),
    Column("verdict, gain", lambda line: line.verdict, _verdict_words, width=136,
           tip="below it, how many times as fast as the untouched model, of pairs",
           tone=lambda line: TONES.get(line.verdict, "muted"), in_files="verdict"),
    Column("error", _of(lambda m: m.max_error), lambda v: "" if v is None else exponent(v, 1), True,
           "largest difference of an output over its largest value", 72,
           tone=lambda line: "bad" if line.red else ""),
    Column("memory", _of(lambda m: m.memory_mib), _told(memory), True,
           "WebAssembly memory", 80, in_files="memory MiB"),
    Column("download", _of(lambda m: m.download_bytes or None), _told(kilobytes), True,
           "weights as they are, the rest compressed", 76, in_files="download bytes"),
    Column("cosine", _of(lambda m: m.cosine), _told(lambda v: f"{v:.6f}"), True,
           "the least of all outputs", 76),
    Column("to know", lambda line: line.note, width=0),
)  # fmt: skip
CHANGE, BUTTON, TIME, VERDICT, COSINE = 0, 1, 2, 5, 9
IN_FILES = (3, 4, 10)
"""Columns that the window hides: it draws them into others, and copies and files have them."""


def judged(row: Row, limit: float) -> Row:
    """The row with the guard of another limit; what could not be compared stays unjudged."""
    if row.guard.state == records.UNJUDGED:
        return row
    if row.state != MEASURED or row.measured is None:
        return replace(row, guard=records.Guard())
    found = row.measured
    return replace(row, guard=judge(found.outputs, len(found.outputs), limit, found.where))
