"""A list of advice: rows, what was measured of them, what the guard says, how they are applied.

A job yields the whole :class:`Advice` again after each step; its ``phase`` is empty at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from nnjit_studio.advice.apply import Apply
from nnjit_studio.verdict.figures import Interval
from nnjit_studio.verdict.result import BUSY_RATE, LEAST_RATE, Verdict

WAITING, MEASURING, MEASURED, IMPOSSIBLE = "waiting", "measuring", "measured", "impossible"
"""States of a row."""
STOPPED = "stopped before all rows were measured"
"""The phase of advice that was cancelled."""
KEPT, BROKEN, UNJUDGED = "kept", "broken", "not judged"
"""What the guard says."""
MAX_ERROR = 1e-2
"""Largest error of an output over its largest value, where a user gives no other threshold."""


@dataclass(frozen=True)
class OutputError:
    """How far an output is from the float32 reference, on the inputs at hand."""

    name: str
    max_rel: float
    """Largest difference over the largest value of the reference; infinite where not a number."""
    cosine: float
    """Of the angle between both, 1 where they agree."""


@dataclass(frozen=True)
class Measurement:
    """A row's form of the model and the untouched one, in turns in one page."""

    ms: Interval
    base_ms: Interval
    """Of the untouched model in that page."""
    ratio: Interval | None = None
    """How many times as fast as untouched; None of too few pairs."""
    pairs: int = 0
    rate: float = 1.0
    """Of the sentinel, as a share of its usual rate."""
    memory_mib: float = 0.0
    """Of WebAssembly memory."""
    download_bytes: int = 0
    """What a page loads: weights as they are, the rest compressed."""
    outputs: tuple[OutputError, ...] = ()
    worst_layer: str = ""
    """Of the file, with its error; empty where no layer was compared."""

    @property
    def stated(self) -> Interval | None:
        """The ratio where one may be stated: not on a machine that is too busy to tell."""
        return self.ratio if self.rate >= LEAST_RATE else None

    @property
    def busy(self) -> bool:
        return self.rate < BUSY_RATE

    @property
    def max_error(self) -> float | None:
        return max((o.max_rel for o in self.outputs), default=None)

    def at_base(self, base_ms: float) -> Measurement:
        """The same where the untouched model takes another time."""
        factor = base_ms / self.base_ms.median
        ms, low, high = (factor * end for end in (self.ms.median, self.ms.low, self.ms.high))
        return replace(self, ms=Interval(ms, low, high))

    def at(self, ms: Interval) -> Measurement:
        """The same where it takes another time itself, and the untouched model as much longer."""
        factor, base = ms.median / self.ms.median, self.base_ms
        scaled = Interval(factor * base.median, factor * base.low, factor * base.high)
        return replace(self, ms=ms, base_ms=scaled)

    @property
    def where(self) -> str:
        """The worst layer in words, or empty."""
        return f"worst in {self.worst_layer}" if self.worst_layer else ""

    @property
    def cosine(self) -> float | None:
        """The least of all outputs."""
        return min((o.cosine for o in self.outputs), default=None)


@dataclass(frozen=True)
class Guard:
    """Whether a row's outputs are as exact as the user wants them."""

    state: str = UNJUDGED
    """``kept``, ``broken`` or ``not judged``."""
    threshold: float = MAX_ERROR
    reason: str = ""
    """One sentence; empty where it is kept."""


@dataclass(frozen=True)
class Row:
    """One piece of advice."""

    name: str
    """What ``--apply`` takes, such as ``f16-weights``."""
    title: str
    """In a few words, for a table or a button."""
    apply: Apply
    asks: str = ""
    """What must be true of the user's page for it to fit, as a sentence; empty where it always
    fits."""
    state: str = WAITING
    """``waiting``, ``measuring``, ``measured`` or ``impossible``."""
    problem: str = ""
    """Of an impossible row, why it cannot be measured here: one sentence."""
    note: str = ""
    """What else a user should know, as a sentence."""
    measured: Measurement | None = None
    guard: Guard = field(default_factory=Guard)

    @property
    def unknown(self) -> bool:
        """Whether it was neither measured nor refused ahead of that."""
        return self.state != MEASURED and self.guard.state != BROKEN

    @property
    def refusal(self) -> str:
        """Why it is not applied unless forced; empty where it may be."""
        if self.state == IMPOSSIBLE:
            return self.problem
        if self.unknown:
            return "It was not measured."
        return "" if self.guard.state == KEPT else self.guard.reason

    @property
    def outcome(self) -> str:
        """``faster``, ``slower``, ``not told apart``, or empty where no ratio may be stated."""
        ratio = self.measured.stated if self.measured else None
        if ratio is None:
            return ""
        if ratio.holds_1:
            return "not told apart"
        return "faster" if ratio.low > 1 else "slower"

    def to_json(self) -> dict[str, Any]:
        found = self.measured
        told = ("name", "title", "asks", "state", "problem", "note")
        return {
            **{name: getattr(self, name) for name in told},
            "outcome": self.outcome,
            "refusal": self.refusal,
            "guard": asdict(self.guard),
            "apply": self.apply.to_json(),
            "measured": _told(found) if found else None,
        }


@dataclass(frozen=True)
class Advice:
    """Everything of one model, on one machine, in one browser, while measuring and after it."""

    model: str
    """Name of the file."""
    path: str
    rows: tuple[Row, ...]
    """In the order of measuring; :func:`ranked` sorts them."""
    phase: str = ""
    """What is being done; empty at the end."""
    reference: str = ""
    """What the errors are against, in words."""
    base: Measurement | None = None
    """The untouched model alone, with its errors."""
    threshold: float = MAX_ERROR
    threads: int = 1
    rate: float = 1.0
    """Of the sentinel in the worst of the pages."""
    browser: str = ""
    created: str = ""
    """ISO 8601, UTC."""

    def row(self, name: str) -> Row | None:
        return next((row for row in self.rows if row.name == name), None)

    @property
    def best(self) -> Row | None:
        """The first row that is told to be faster, keeps the guard, and asks nothing."""
        return next((r for r in ranked(self.rows) if is_safe(r) and r.outcome == "faster"), None)

    def to_json(self) -> dict[str, Any]:
        """The document of ``nnjit advise``; its rows are ranked."""
        told = ("model", "path", "phase", "reference", "threshold", "threads", "rate")
        return {
            "ok": True,
            **{name: getattr(self, name) for name in (*told, "browser", "created")},
            "best": self.best.name if self.best else None,
            "base": _told(self.base) if self.base else None,
            "rows": [row.to_json() for row in ranked(self.rows)],
        }


def with_row(advice: Advice, row: Row) -> Advice:
    """The advice with this row in the place of the one of that name."""
    rows = tuple(row if old.name == row.name else old for old in advice.rows)
    return replace(advice, rows=rows)


def on_one_clock(advice: Advice, verdict: Verdict | None = None) -> Advice:
    """The advice with its times as one moment's: the untouched model has one in every page.

    The pages of rows met the machine at other moments, so that their own times do not compare.

    Parameters
    ----------
    verdict
        Of the untouched model, whose time it has then; else that of the first page.
    """
    base, ours = advice.base, verdict.own if verdict else None
    if base is None:
        return advice
    if verdict is not None and ours is not None and ours.ms is not None:
        base = replace(base, ms=ours.ms, rate=verdict.rate)
    rows = tuple(
        replace(row, measured=row.measured.at_base(base.ms.median)) if row.measured else row
        for row in advice.rows
    )
    return replace(advice, base=base, rows=rows)


def on_clock_in_use(advice: Advice, names: Sequence[str], together: Row | None) -> Advice:
    """The advice with its times as those of the moment when the rows in use were measured as one.

    A row that is in use alone was measured anew then: what is told of its time is that. Nothing
    changes before.
    """
    found = together.measured if together and together.state == MEASURED else None
    if advice.base is None or found is None:
        return advice
    own = {name: getattr(found, name) for name in ("ms", "base_ms", "ratio", "pairs", "rate")}
    rows = []
    for row in advice.rows:
        told = row.measured and row.measured.at_base(found.base_ms.median)
        alone = told and list(names) == [row.name]
        rows.append(replace(row, measured=replace(told, **own) if told and alone else told))
    base = replace(advice.base, ms=found.base_ms, rate=found.rate)
    return replace(advice, base=base, rows=tuple(rows))


def stopped(advice: Advice) -> Advice:
    """What is known of advice that was cancelled: rows that were measured to their end."""
    rows = (
        replace(row, state=WAITING, measured=None) if row.state == MEASURING else row
        for row in advice.rows
    )
    return replace(advice, rows=tuple(rows), phase=STOPPED)


def is_safe(row: Row) -> bool:
    """Whether it may be applied without asking anything."""
    return not row.refusal and not row.asks


def ranked(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """What may be applied first, the fastest first; then what asks something of the page, what
    the guard refuses, what was not measured."""

    def place(row: Row) -> tuple[int, float]:
        ratio = row.measured.stated if row.measured else None
        faster = ratio.median if ratio and not ratio.holds_1 else 1.0
        if row.measured is None:
            return (3 if row.state != IMPOSSIBLE else 4, 0.0)
        return (2 if row.refusal else 1 if row.asks else 0, -faster)

    return tuple(sorted(rows, key=place))


def _told(found: Measurement) -> dict[str, Any]:
    stated: Mapping[str, Any] = {
        "ratio": found.stated.to_json() if found.stated else None,
        "max_error": finite(found.max_error),
        "cosine": finite(found.cosine),
        "outputs": [
            {"name": o.name, "max_rel": finite(o.max_rel), "cosine": finite(o.cosine)}
            for o in found.outputs
        ],
    }
    return {**asdict(found), **stated}


def finite(value: float | None) -> float | None:
    """The value, None where it is no finite number: JSON has none such."""
    return value if value is not None and abs(value) < float("inf") else None
